//! A real Slurm of one node ends steps in several ways, and the report says that it was Slurm, of
//! which job, and why as far as the node shows.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use raytrace_tests::{
    publishing::wait_for,
    recorder::{Recorder, raytrace, report},
    skipped, staging,
};
use serde_json::Value;

/// Programs of Debian's packages slurmd, slurmctld, slurm-client and munge.
const PROGRAMS: [&str; 4] = ["slurmd", "slurmctld", "sbatch", "munged"];

/// A Slurm that ends with the test.
struct Slurm(PathBuf);

impl Slurm {
    /// Starts it; `plugins` is an argument of the script.
    fn start(folder: &Path, plugins: &str) -> Result<Self, String> {
        if let Some(missing) = PROGRAMS.iter().find(|program| !is_installed(program)) {
            return Err(format!("no {missing}"));
        }
        let own = Self(folder.to_owned());
        let started = own.script("up", plugins);
        started
            .then_some(own)
            .ok_or("it does not start here".into())
    }

    fn script(&self, verb: &str, plugins: &str) -> bool {
        let script = staging::root().join("tests/staging/slurm.sh");
        let status = Command::new(script)
            .arg(verb)
            .arg(&self.0)
            .arg(plugins)
            .status();
        status.is_ok_and(|status| status.success())
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(arguments[0]);
        command.args(&arguments[1..]).current_dir(&self.0);
        let output = command
            .env("SLURM_CONF", self.0.join("slurm.conf"))
            .output();
        let output = output.expect("a program of Slurm");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Submits a batch script that runs `commands`. Returns the number of the job.
    fn submit(&self, name: &str, options: &[&str], commands: &str) -> String {
        let script = self.0.join(name);
        fs::write(
            &script,
            format!("#!/bin/bash\ncd {}\n{commands}\n", self.0.display()),
        )
        .expect("a script");
        let path = script.to_str().expect("text").to_owned();
        self.run(&[&["sbatch", "--parsable", "--mem=300"], options, &[&path]].concat())
    }

    fn wait_for_end(&self, job: &str) {
        wait_for(&format!("job {job} ends"), || {
            let states = self.run(&["squeue", "-h", "-o", "%i %T"]);
            let mut lines = states.lines();
            let lives = lines.any(|line| line.split(' ').next() == Some(job));
            (!lives).then_some(())
        });
    }

    fn state(&self, job: &str) -> String {
        self.run(&["scontrol", "-o", "show", "job", job])
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.script("down", "");
    }
}

fn is_installed(program: &str) -> bool {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    folders
        .iter()
        .any(|folder| Path::new(folder).join(program).exists())
}

/// Returns a command line that runs a shell script as a raylet with a session of its own.
fn raylet(folder: &Path, name: &str, script: &str) -> String {
    let session = folder.join(format!("session_{name}"));
    fs::create_dir_all(session.join("logs")).expect("a folder");
    let program = folder.join("raylet");
    let _there = symlink("/bin/sh", &program);
    format!(
        "{0} -c '{script}' --raylet_socket_name={1}/sockets/raylet --session-dir={1} --session-name=session_{name}",
        program.display(),
        session.display()
    )
}

/// Waits until the recording has the raylet of a job.
fn wait_for_raylet(recording: &Path, job: &str) {
    wait_for(&format!("the raylet of job {job}"), || {
        let report = report(recording).ok()?;
        let clusters = report["clusters"].as_array()?;
        let mut jobs = clusters.iter().map(|one| &one["slurm"]["job_id"]);
        jobs.any(|own| own == job).then_some(())
    });
}

/// Returns the deaths of a job that one killer caused.
fn deaths<'a>(report: &'a Value, job: &str, killer: &str) -> Vec<&'a Value> {
    let all = report["deaths"].as_array().expect("deaths").iter();
    all.filter(|death| death["slurm"]["job_id"] == job && death["verdict"]["killer"] == killer)
        .collect()
}

const RESTS: &str = "while :; do sleep 1; done";
/// Two Slurms would take the same ports.
static ONE: Mutex<()> = Mutex::new(());

/// Returns the raylet's death by a signal of Slurm's, and its cause.
fn ended_by_slurm<'a>(report: &'a Value, job: &str) -> (&'a Value, &'a Value) {
    let of_slurm = deaths(report, job, "signal");
    let ended = of_slurm.iter().find(|death| death["role"] == "raylet");
    let ended = ended.unwrap_or_else(|| panic!("job {job}: {of_slurm:#?}"));
    assert_eq!(ended["sender"]["relation"], "workload-manager", "{ended:#}");
    let cause = match &ended["verdict"]["cause"] {
        caught if caught["kind"] != "slurm" => &caught["cause"],
        cause => cause,
    };
    assert_eq!(cause["kind"], "slurm", "{ended:#}");
    assert_eq!(cause["job_id"], *job, "{ended:#}");
    (ended, cause)
}

/// Without cgroups, the job is in the environment, and slurmstepd counts and kills.
#[test]
fn job_without_cgroups_is_named() {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let slurm = match Slurm::start(folder.path(), "linux") {
        Ok(slurm) => slurm,
        Err(why) => return skipped(format!("no Slurm: {why}")),
    };
    let file = folder.path().join("node.raytrace");
    let recorder = Recorder::start(&file, &[]).expect("a recorder");
    let takes =
        "sleep 2; python3 -c \"import time; x = bytearray(700 << 20); time.sleep(600)\"; sleep 600";
    let full = slurm.submit("full", &[], &raylet(folder.path(), "full", takes));
    slurm.wait_for_end(&full);
    let cancelled = slurm.submit("cancelled", &[], &raylet(folder.path(), "cancelled", RESTS));
    wait_for_raylet(&file, &cancelled);
    slurm.run(&["scancel", &cancelled]);
    slurm.wait_for_end(&cancelled);
    recorder.stop().expect("the recorder's end");
    let report = report(&file).expect("a report");
    for (job, reason) in [(&full, "over-memory"), (&cancelled, "not-shown")] {
        let (ended, cause) = ended_by_slurm(&report, job);
        assert_eq!(cause["reason"]["reason"], reason, "{ended:#}");
    }
}

#[test]
fn slurm_is_named_with_job_and_reason() {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let slurm = match Slurm::start(folder.path(), "") {
        Ok(slurm) => slurm,
        Err(why) => return skipped(format!("no Slurm: {why}")),
    };
    let file = folder.path().join("node.raytrace");
    let mut recorder = Recorder::start(&file, &[]).expect("a recorder");
    let at = |name: &str, script: &str| raylet(folder.path(), name, script);

    let cancelled = slurm.submit("cancelled", &[], &at("cancelled", RESTS));
    wait_for_raylet(&file, &cancelled);
    slurm.run(&["scancel", &cancelled]);
    slurm.wait_for_end(&cancelled);

    let preempted = slurm.submit("preempted", &[], &at("preempted", RESTS));
    wait_for_raylet(&file, &preempted);
    slurm.run(&["srun", "-p", "high", "--exclusive", "--mem=300", "true"]);
    slurm.wait_for_end(&preempted);

    // Slurm looks at time limits once in half a minute. The acts below go on meanwhile.
    let limit = ["--time=1"];
    let srun = format!("srun --mem=200 {}", at("timed", RESTS));
    let timed = slurm.submit("timed", &limit, &srun);

    let go = folder.path().join("go");
    let rank = format!(
        "if [ $SLURM_PROCID = 0 ]; then exec {}; fi; until [ -e {} ]; do sleep 0.1; done; exit 3",
        at("failed", RESTS),
        go.display()
    );
    fs::write(
        folder.path().join("rank.sh"),
        format!("#!/bin/bash\n{rank}\n"),
    )
    .expect("a script");
    let srun = "chmod +x rank.sh; srun -n2 --overcommit --kill-on-bad-exit=1 ./rank.sh";
    let failed = slurm.submit("failed", &["-n2", "--overcommit"], srun);
    wait_for_raylet(&file, &failed);
    fs::write(&go, "").expect("a file");
    slurm.wait_for_end(&failed);

    let takes = "python3 -c \"x = bytearray(900 << 20)\"; sleep 1";
    let full = slurm.submit("full", &[], &at("full", &format!("sleep 2; {takes}")));
    slurm.wait_for_end(&full);

    let wrapped = folder.path().join("wrapped.raytrace");
    let handler = "trap \"touch handled; exit 0\" USR1; touch ready; while :; do sleep 0.1; done";
    let command = format!(
        "srun {} record -o {} -- bash -c '{handler}'",
        raytrace().display(),
        wrapped.display()
    );
    let signalled = slurm.submit("signalled", &[], &command);
    let there = |name: &str| folder.path().join(name).exists().then_some(());
    wait_for("the wrapped command", || there("ready"));
    slurm.run(&["scancel", "--signal=USR1", &signalled]);
    slurm.wait_for_end(&signalled);
    there("handled").expect("the handler ran");
    let state = slurm.state(&signalled);
    assert!(state.contains("JobState=COMPLETED"), "{state}");

    let requeued = slurm.submit("requeued", &[], &at("requeued", RESTS));
    wait_for_raylet(&file, &requeued);
    slurm.run(&["scontrol", "requeue", &requeued]);
    slurm.run(&["scancel", &requeued]);
    slurm.wait_for_end(&requeued);
    slurm.wait_for_end(&timed);

    recorder.wait_for("Recording", Duration::from_secs(1)).ok();
    recorder.stop().expect("the recorder's end");
    let report = report(&file).expect("a report");
    for job in [&cancelled, &preempted, &timed, &requeued, &failed] {
        let (ended, cause) = ended_by_slurm(&report, job);
        let reason = cause["reason"]["reason"].as_str().unwrap_or_default();
        if job == &failed {
            assert_eq!(reason, "other-task-failed", "{ended:#}");
        } else {
            // Newer versions of Slurm give the job its time limit.
            let shown = job == &timed && reason == "time-limit";
            assert!(shown || reason == "not-shown", "{ended:#}");
        }
    }
    // The batch script and the step of one job are one act.
    let all = report["deaths"].as_array().expect("deaths").iter();
    let of_timed = all.filter(|death| death["slurm"]["job_id"] == *timed);
    let acts: BTreeSet<u64> = of_timed
        .filter_map(|death| death["verdict"]["act"]["death_id"].as_u64())
        .collect();
    assert_eq!(acts.len(), 1, "{acts:?}");
    let killed = deaths(&report, &full, "kernel-oom-memcg");
    assert!(!killed.is_empty(), "{:#}", report["deaths"]);
    assert_eq!(killed[0]["slurm"]["step_id"], "batch");
    let output = Command::new(raytrace())
        .args(["report", "--slurm-job", &full])
        .arg(&file)
        .output()
        .expect("a report");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(&format!("Slurm job {full}.batch")), "{text}");
    assert!(!text.contains(&format!("job {cancelled}")), "{text}");
}
