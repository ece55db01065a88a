//! Tests `--fail-on` and `--fail-above`.

use crate::{
    ran::{Ran, raytrace},
    stage::{harmless, two_kills},
};

#[test]
fn fail_on_exits_8_for_memory_kill() {
    let kills = two_kills();
    let ran = kills.report(&["--fail-on"]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert!(
        ran.out.contains("KILL 1"),
        "the report is printed all the same"
    );
    assert!(
        ran.err.contains("1 death by kernel-oom-memcg"),
        "{}",
        ran.err
    );
    assert_eq!(kills.report(&["--fail-on", "crash,exit"]).code, Some(0));
    assert_eq!(kills.report(&["--fail-on=signal"]).code, Some(8));
    assert_eq!(
        kills.report(&["--fail-on", "--since", "08:00:15"]).code,
        Some(0)
    );
    assert_eq!(harmless().report(&["--fail-on"]).code, Some(0));
    kills
        .report(&["--fail-on", "oom"])
        .refused(2, &["unknown killer \"oom\"", "kernel-oom-memcg"]);
    let ran = Ran::of(raytrace(kills.folder.path()).args(["report", "--fail-on", "run.raytrace"]));
    ran.refused(2, &["FILE goes before --fail-on"]);
}

/// The limit is the one that the peak comes nearest to.
#[test]
fn fail_above_compares_peak_with_its_limit() {
    let recording = harmless();
    let ran = recording.report(&["--fail-above", "70%"]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert!(
        ran.err
            .contains("the peak was 12.0 GiB, 75.0 % of the machine's memory 16.0 GiB"),
        "{}",
        ran.err
    );
    assert_eq!(recording.report(&["--fail-above", "80"]).code, Some(0));
    recording
        .report(&["--fail-above", "850%"])
        .refused(2, &["a percentage from 0 to 100"]);
    let ran = two_kills().report(&["--fail-above", "95%"]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert!(ran.err.contains("100.0 % of cgroup /job"), "{}", ran.err);
}
