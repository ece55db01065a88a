//! How a job ended, thousands of normal exits, and workers that were there before the recorder.

use std::{
    collections::BTreeSet,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use raytrace::{
    event::{Observation, Role},
    ids::ProcessKey,
    recording,
};
use raytrace_tests::{
    recorder::{Recorder, raytrace},
    soak, staging,
    truth::PrivilegeMode,
};

/// A death after which Ray retried or restarted is not called the end of the job.
#[test]
fn death_that_ended_a_job_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let recorder = Recorder::start(&folder.path().join("jobs.raytrace"), &[]).expect("a recorder");
    let script = staging::start("2.60.0", "outcomes.py", &[], folder.path()).expect("a script");
    let truth = script.finish().expect("staging");
    let recorded = recorder.stop().expect("a recording");
    let wrong = truth.compare(&recorded.report, PrivilegeMode::Full).wrong;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Neither are the processes that their own worker killed at one moment.
#[test]
fn thousands_of_exits_are_recorded_not_printed() {
    let (short, sleepers) = (5000, 200);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("stress.raytrace");
    let mut script =
        staging::start_waiting("2.60.0", "stress.py", &[], folder.path()).expect("a script");
    let raylet = script.wait_for_raylet("ready").expect("a raylet");
    // Only this cluster, because others are staged at the same time.
    let arguments = ["--raylet-pid", &raylet.to_string()];
    let recorder = Recorder::start(&file, &arguments).expect("a recorder");
    script.go_on().expect("the script");
    script.wait_for("staged").expect("staging");
    let recorded = recorder.stop().expect("a recording");
    let truth = script.finish().expect("staging");
    let wrong = truth.compare(&recorded.report, PrivilegeMode::Full).wrong;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let deaths = recorded.report["deaths"].as_array().expect("deaths");
    let exits = deaths
        .iter()
        .filter(|death| death["comm"] == "true" && death["exit_code"] == 0);
    assert_eq!(exits.count(), short, "short processes");
    let killed = deaths.iter().filter(|death| {
        death["comm"] == "sleep" && death["signal"] == 9 && death["sender"]["relation"] == "parent"
    });
    assert_eq!(
        killed.count(),
        sleepers,
        "killed in one instant by their worker"
    );
    let recording = &recorded.report["recordings"][0];
    assert_eq!(recording["lost_events"], 0, "{recording}");

    let printed: Vec<_> = recorded
        .lines
        .iter()
        .filter(|line| line.text.contains(" pid "))
        // On a busy machine the recorder may see an actor end well before its driver, whose end
        // explains it.
        .filter(|line| !(line.text.contains(" Host pid ") && line.text.contains("not final yet")))
        .collect();
    assert!(printed.is_empty(), "printed while recording: {printed:#?}");
    let report = Command::new(raytrace())
        .arg("report")
        .arg(&file)
        .output()
        .expect("a report");
    let text = String::from_utf8_lossy(&report.stdout);
    assert!(text.lines().count() < 40, "{text}");
}

/// Returns whether all living workers that a recorder has found are identified, and are at least
/// this many. Workers of other tests, which run at the same time, may end before they are
/// identified.
fn identified(file: &Path, least: usize) -> bool {
    let events = recording::read(file).map_or(Vec::new(), |read| read.events);
    let (mut found, mut known) = (BTreeSet::<ProcessKey>::new(), BTreeSet::new());
    for event in &events {
        match &event.what {
            Observation::Process(process) if process.role == Role::Worker => {
                found.insert(process.process);
            }
            Observation::Worker(worker) if !worker.driver => {
                known.insert(worker.process);
            }
            Observation::Exit(exit) => {
                found.retain(|one| !one.same(exit.process));
            }
            _ => {}
        }
    }
    found.len() >= least && found.is_subset(&known)
}

#[test]
fn workers_older_than_the_recorder_are_identified() {
    let folder = tempfile::tempdir().expect("a folder");
    // The long version fills a large node: 200 workers need 16 GiB and some minutes.
    let workers = if soak() { 200 } else { 8 };
    let arguments = ["--workers", &workers.to_string()];
    let mut script =
        staging::start_waiting("2.60.0", "late.py", &arguments, folder.path()).expect("a script");
    script.wait_for("ready").expect("a cluster");
    let file = folder.path().join("late.raytrace");
    let recorder = Recorder::start(&file, &[]).expect("a recorder");
    let end = Instant::now() + Duration::from_secs(240);
    while !identified(&file, workers) {
        assert!(Instant::now() < end, "the workers are not identified");
        std::thread::sleep(Duration::from_millis(100));
    }
    script.go_on().expect("the script");
    script.wait_for("staged").expect("staging");
    let recorded = recorder.stop().expect("a recording");
    let truth = script.finish().expect("staging");
    let comparison = truth.compare(&recorded.report, PrivilegeMode::Full);
    assert!(
        comparison.wrong.is_empty(),
        "{}",
        comparison.wrong.join("\n")
    );
    assert_eq!(comparison.deaths, workers);
}

/// The GCS starts before its raylet, and here the recorder before both. What `ray.init` has started
/// ends with the program.
#[test]
fn normal_end_of_a_program_that_started_ray_is_no_death() {
    let folder = tempfile::tempdir().expect("a folder");
    let recorder = Recorder::start(&folder.path().join("a.raytrace"), &[]).expect("a recorder");
    let own = folder.path().join("ray").display().to_string();
    let program =
        "import ray, sys; ray.init(num_cpus=1, _temp_dir=sys.argv[1]); ray.get(ray.put(1))";
    let python = staging::ray("2.60.0").join("bin/python");
    let mut command = Command::new(python);
    // A local cluster writes `~/.ray/auth_token`.
    command
        .args(["-c", program, &own])
        .env("HOME", folder.path());
    let output = command.output().expect("a program");
    assert!(output.status.success(), "{output:?}");
    let recorded = recorder.stop().expect("a recording");
    let deaths = recorded.report["deaths"].as_array().expect("deaths");
    let is_own = |death: &&serde_json::Value| {
        let title = death["title"].as_str();
        title.is_some_and(|title| title.contains(&own))
    };
    let deaths: Vec<_> = deaths.iter().filter(is_own).collect();
    let gcs = deaths.iter().find(|death| death["role"] == "gcs");
    let gcs = gcs.unwrap_or_else(|| panic!("{deaths:#?}"));
    assert!(!gcs["cluster"].is_null(), "{gcs:#}");
    let listed: Vec<_> = deaths
        .iter()
        .filter(|death| death["listed"] == true)
        .collect();
    assert!(listed.is_empty(), "{listed:#?}");
}
