//! The kill matrix: every kind of death that this machine can stage, on real Ray.
//!
//! Every verdict is compared with the truth.

use raytrace_tests::{
    recorder::{Recorder, assert_balanced, raytrace, without_privilege},
    soak, staging,
    truth::{Comparison, PrivilegeMode},
};

/// Records while `matrix.py` stages deaths, and compares.
fn matrix(version: &str, arguments: &[&str], least: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let recorder =
        Recorder::start(&folder.path().join("matrix.raytrace"), &[]).expect("a recorder");
    let script = staging::start(version, "matrix.py", arguments, folder.path()).expect("a script");
    let truth = script.finish().expect("staging");
    let recorded = recorder.stop().expect("a recording");
    let Comparison { deaths, mut wrong } = truth.compare(&recorded.report, PrivilegeMode::Full);
    wrong.extend(truth.disagreements(&recorded.report));
    let name = format!("Ray {version} {}", arguments.join(" "));
    eprintln!("{name}: {deaths} deaths staged, {} wrong", wrong.len());
    let latencies = recorded.latencies();
    let part = |share: usize| {
        latencies
            .get(latencies.len() * share / 100)
            .copied()
            .unwrap_or_default()
    };
    eprintln!(
        "{name}: from the exit to the printed line p50 {:.1} ms, p99 {:.1} ms, of {} lines",
        part(50),
        part(99),
        latencies.len()
    );
    if !wrong.is_empty() {
        let kept = folder.keep();
        let (losses, wrong) = (
            &recorded.report["recordings"][0]["ledgers"],
            wrong.join("\n"),
        );
        panic!(
            "{name}, recording kept in {}:\n{wrong}\n{losses}",
            kept.display()
        );
    }
    assert!(deaths >= least, "{name}: only {deaths} deaths were staged");
    assert_balanced(&recorded.report);
}

/// Returns how often each death is staged on the newest Ray.
fn times() -> (usize, &'static str) {
    if soak() { (5, "5") } else { (2, "2") }
}

/// Records without any capability, as in an unprivileged container. Ray has none either.
fn unprivileged(version: &str, least: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("matrix.raytrace");
    let path = file.to_str().expect("text");
    let command = without_privilege(&raytrace(), &["record", "-o", path]);
    let recorder = Recorder::run(command, &file).expect("a recorder");
    let arguments = ["--user", "0"];
    let script = staging::start(version, "matrix.py", &arguments, folder.path()).expect("a script");
    let truth = script.finish().expect("staging");
    let recorded = recorder.stop().expect("a recording");
    let Comparison { deaths, wrong } = truth.compare(&recorded.report, PrivilegeMode::Unprivileged);
    eprintln!(
        "Ray {version} without privilege: {deaths} deaths staged, {} wrong",
        wrong.len()
    );
    assert!(
        wrong.is_empty(),
        "Ray {version} without privilege:\n{}",
        wrong.join("\n")
    );
    assert!(deaths >= least, "only {deaths} deaths were staged");
    let all = recorded.report["deaths"].as_array().expect("deaths");
    assert!(
        all.iter()
            .all(|death| death["verdict"]["certainty"] != "proven")
    );
}

#[test]
fn unprivileged_is_right_and_proves_nothing() {
    unprivileged("2.60.0", 60);
}

#[test]
fn ray_2_60_worker_deaths_are_named() {
    let (times, more) = times();
    matrix("2.60.0", &["--repeat", more], 80 * times);
}

#[test]
fn ray_2_51_worker_deaths_are_named() {
    matrix("2.51.1", &[], 60);
}

#[test]
fn ray_2_9_worker_deaths_are_named() {
    matrix("2.9.3", &[], 60);
}

#[test]
fn ray_2_60_node_and_job_deaths_are_named() {
    let (times, more) = times();
    matrix("2.60.0", &["--nodes", "--repeat", more], 30 * times);
}

#[test]
fn ray_2_51_node_and_job_deaths_are_named() {
    matrix("2.51.1", &["--nodes"], 25);
}

#[test]
fn ray_2_9_node_and_job_deaths_are_named() {
    matrix("2.9.3", &["--nodes"], 20);
}
