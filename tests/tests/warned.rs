//! A job that is warned of its kill saves its work in time: examples/warn on a real Ray.
//!
//! A warning of an approach that passes is withdrawn. examples/fleet then reads what was recorded
//! and published.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use raytrace::{
    event::{LimitOwner, LimitWarning, Observation},
    ids::BootTime,
    recording,
};
use raytrace_tests::{
    publishing::{make_folders, published_lines, start_publisher, start_recorder, wait_for},
    recorder::{raytrace, report},
    staging,
    truth::PrivilegeMode,
};
use rustix::process::Signal;
use serde_json::Value;

/// The kill may come earlier or later than the interval by this factor. Two of ten kills are
/// expected to be outside the interval. A job that was starved when it was warned may continue at
/// many times its pace. `cargo xtask bench forecast` measures how good the intervals are.
const WIDER: f64 = 10.0;
/// The shortest time before its kill at which the job must know of it.
const LEAD_MS: f64 = 4_000.0;

/// Returns the warnings of Ray's monitor that were published, in their order.
fn warnings(own: &Path) -> Vec<Value> {
    let mut lines = published_lines(own);
    lines.retain(|line| {
        line["event.name"] == "raytrace.warning" && line["raytrace.killer"] == "ray-memory-monitor"
    });
    lines
}

fn is_over(line: &Value) -> bool {
    line["raytrace.warning.over"] == true
}

/// Waits until a warning was published after the first `before` lines, and the last one is active
/// or over, as `over` says.
fn wait_for_warnings(own: &Path, before: usize, over: bool) -> Vec<Value> {
    let what = format!("a warning after {before} lines, over: {over}");
    wait_for(&what, || {
        let lines = warnings(own);
        let mut new = lines.iter().skip(before);
        let found = new.any(|line| !is_over(line)) && is_over(lines.last()?) == over;
        found.then_some(lines)
    })
}

/// Checks that each step was done once. A step in which the job was killed is repeated, and none
/// before it.
fn no_step_is_lost(steps: &str) {
    let done = steps.lines().filter_map(|line| line.strip_prefix("step "));
    let done: Vec<u64> = done.map(|step| step.parse().expect("a number")).collect();
    assert!(steps.contains("killed after step"), "{steps}");
    assert_eq!(done, (1..=12).collect::<Vec<_>>(), "{steps}");
}

/// Returns the recorded warnings of Ray's monitor, each with its time.
fn recorded_warnings(file: &Path) -> Vec<(BootTime, LimitWarning)> {
    let events = recording::read(file).expect("a recording").events;
    let warnings = events.into_iter().filter_map(|event| match event.what {
        Observation::LimitWarning(warning) if warning.limit == LimitOwner::RayMonitor => {
            Some((event.time, warning))
        }
        _ => None,
    });
    warnings.collect()
}

/// Checks that the warning names the class, the call and the victim that Ray would choose, and that
/// its interval includes the kill.
fn check_warning(warning: &LimitWarning, death: &Value) {
    let grower = warning.grower.as_ref().expect("a grower");
    let victim = warning.victim.as_ref().expect("a victim");
    assert_eq!(
        (grower.name.as_str(), victim.name.as_str()),
        ("Trainer", "Trainer")
    );
    assert_eq!(grower.call.as_deref(), Some("Trainer.train"), "{warning:?}");
    assert_eq!(u64::from(grower.process.pid.0), death["pid"], "{warning:?}");
    let reported = &death["warning"];
    let number = |key: &str| {
        reported[key]
            .as_f64()
            .unwrap_or_else(|| panic!("{key}: {death:#}"))
    };
    let (lead, soonest, latest) = (
        number("ms_before"),
        number("soonest_ms"),
        number("latest_ms"),
    );
    eprintln!("warned {lead} ms before the kill: {soonest} to {latest} ms");
    assert!(lead >= LEAD_MS, "{reported}");
    assert!(
        soonest / WIDER <= lead && lead <= latest * WIDER,
        "{reported}"
    );
}

/// Returns the only recording in a folder.
fn only(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder).expect("a folder").flatten();
    let mut files = files.map(|file| file.path());
    let found = files.find(|path| path.extension().is_some_and(|end| end == "raytrace"));
    found.expect("a recording")
}

/// Keeps the recording, even of a run that failed. A replay of it shows why a warning is missing.
struct Kept<'a>(&'a Path);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        let files = fs::read_dir(self.0).into_iter().flatten().flatten();
        for file in files.map(|file| file.path()) {
            if let Err(error) = raytrace_tests::keep::file(&file) {
                eprintln!("{error:#}");
            }
        }
    }
}

/// The warning of an approach that passes is withdrawn.
#[test]
fn warned_run_loses_no_step() {
    let held = tempfile::tempdir().expect("a folder");
    let (folder, own) = make_folders(held.path());
    let path = |name: &str| held.path().join(name).display().to_string();
    let (json, steps) = (own.join("deaths.jsonl"), path("steps"));
    let arguments = [
        format!("--warnings={}", json.display()),
        format!("--checkpoint={}", path("checkpoint")),
        format!("--steps={steps}"),
        format!("--recordings={}", folder.display()),
        format!("--raytrace={}", raytrace().display()),
        format!("--collected={}", path("collected")),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut script =
        staging::start_waiting("2.60.0", "warned.py", &arguments, held.path()).expect("a script");
    let raylet = script
        .wait_for_raylet("ready")
        .expect("a raylet")
        .to_string();
    let _kept = Kept(&folder);
    let mut recorder = start_recorder(&folder, &raylet);
    let (_publisher, _) = start_publisher(&folder, &own, |command| {
        command.arg("--with-arguments");
    });
    script.go_on().expect("the script");
    script.wait_for("survived").expect("the loop");
    no_step_is_lost(&fs::read_to_string(&steps).expect("steps"));
    let of_kill = wait_for_warnings(&own, 0, true);
    script.go_on().expect("the script");
    script.wait_for("again").expect("the loader");
    wait_for_warnings(&own, of_kill.len(), false);
    script.go_on().expect("the script");
    let lines = wait_for_warnings(&own, of_kill.len(), true);
    script.wait_for("passed").expect("the loader");
    let truth = script.finish().expect("staging");
    recorder.signal(Signal::INT).expect("a signal");
    assert!(
        recorder
            .wait(std::time::Duration::from_secs(60))
            .expect("an end")
            .success()
    );

    let file = only(&folder);
    let report = report(&file).expect("a report");
    let wrong = truth.compare(&report, PrivilegeMode::Full).wrong;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    told_of_the_kill(&file, &report);
    for line in lines.iter().filter(|line| !is_over(line)) {
        let name = &line["raytrace.warning.grower"];
        assert!(name == "Trainer" || name == "Loader", "{lines:#?}");
        assert_eq!(&line["raytrace.warning.likely_victim"], name, "{lines:#?}");
        assert!(line["raytrace.limit.seconds_left"].is_number());
    }
    said(&file, &mut recorder);
    fetched(&held.path().join("collected"));
    counted_by_duckdb(&json);
    read_by_duckdb(&file);
}

/// Checks that a warning was active at the kill and then withdrawn, and that the warning of the
/// approach that passed was withdrawn too.
fn told_of_the_kill(file: &Path, report: &Value) {
    let deaths = report["deaths"].as_array().expect("deaths");
    let kills = deaths
        .iter()
        .filter(|death| death["verdict"]["killer"] == "ray-memory-monitor");
    let [death] = kills.collect::<Vec<_>>()[..] else {
        panic!("{deaths:#?}");
    };
    let rows = recorded_warnings(file);
    let over: Vec<bool> = rows
        .iter()
        .map(|(_, warning)| warning.within.is_none())
        .collect();
    // On a busy machine a step takes so long that the first approach may seem to pass before it
    // continues.
    let alternate = over
        .iter()
        .enumerate()
        .all(|(row, over)| *over == (row % 2 == 1));
    assert!(alternate, "{rows:#?}");
    let [.., (_, before), (_, first_over), (_, warning), (_, passed)] = &rows[..] else {
        panic!("{rows:#?}");
    };
    check_warning(before, death);
    assert!(first_over.within.is_none() && passed.within.is_none());
    let name = |warning: &LimitWarning| warning.grower.as_ref().map(|grower| grower.name.clone());
    assert_eq!(name(warning).as_deref(), Some("Loader"), "{warning:?}");
    assert_eq!(name(passed).as_deref(), Some("Loader"), "{passed:?}");
}

/// Checks that the recording that examples/fleet fetched from the node holds the kill.
fn fetched(folder: &Path) {
    let report = report(&only(folder)).expect("a report");
    let deaths = report["deaths"].as_array().expect("deaths");
    let mut kills = deaths.iter();
    assert!(
        kills.any(|death| death["verdict"]["killer"] == "ray-memory-monitor"),
        "{deaths:#?}"
    );
}

/// Checks that the example that counts deaths by node can read what was published.
fn counted_by_duckdb(lines: &Path) {
    let mut command = Command::new(staging::view_python());
    command.arg(staging::root().join("examples/fleet/month.py"));
    let done = command.arg(lines).output().expect("a table");
    let table = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    let is_told = |line: &str| line.contains("ray-memory-monitor") && line.contains(" 1 ");
    assert!(table.lines().any(is_told), "{table}{errors}");
}

/// Checks that the example that reads recordings finds the kill in this one.
fn read_by_duckdb(recording: &Path) {
    let mut command = Command::new(staging::view_python());
    command.arg(staging::root().join("examples/fleet/recordings.py"));
    let done = command.arg(recording).output().expect("a table");
    let table = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    let is_told = |line: &str| line.contains("Trainer") && line.contains(" peak ");
    assert!(table.lines().any(is_told), "{table}{errors}");
}

/// Checks that the report shows the warning at the kill, and that the recorder printed that it was
/// over.
fn said(file: &Path, recorder: &mut raytrace_tests::recorder::Recorder) {
    let shown = Command::new(raytrace()).arg("report").arg(file).output();
    let shown = String::from_utf8_lossy(&shown.expect("a report").stdout).into_owned();
    let line = shown
        .lines()
        .find(|line| line.trim_start().starts_with("warning"));
    let line = line.unwrap_or_else(|| panic!("{shown}"));
    println!("{line}");
    assert!(
        line.contains(" before the kill; the forecast was ") && line.contains(", Trainer growing"),
        "{line}"
    );
    let printed = recorder.lines();
    let is_said = |word: &str| printed.iter().any(|line| line.text.contains(word));
    assert!(
        is_said("WARNING Ray's monitor") && is_said("over: Loader gave back"),
        "{printed:#?}"
    );
}
