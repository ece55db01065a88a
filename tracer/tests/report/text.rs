//! Tests the text report.

use crate::{
    ran::{Ran, raytrace},
    stage::{Stage, harmless, two_kills},
};

#[test]
fn report_has_kills_and_the_next_command() {
    let recording = two_kills();
    let ran = recording.report(&[]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    for text in [
        "gpu-07 · Linux 6.18.0 · Ray 2.60.0",
        "2 first causes, 2 deaths, 3 normal exits not listed (--all)",
        "the kernel killed hog (task, pid 4001, 1.0 GiB)",
        "cgroup /job was full, 2.0 of 2.0 GiB",
        "SIGKILL from bash",
        "PROVEN",
        "--kill 1",
        "--format html -o run.html",
    ] {
        assert!(ran.out.contains(text), "{text} in {}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}'), "no colour in a pipe");
}

#[test]
fn every_example_in_the_help_runs() {
    let recording = two_kills();
    let help = Ran::of(raytrace(recording.folder.path()).args(["report", "--help"]));
    assert_eq!(help.code, Some(0));
    let examples: Vec<&str> = help
        .out
        .lines()
        .filter_map(|line| line.trim().strip_prefix("raytrace report run.raytrace "))
        .collect();
    assert!(examples.len() >= 6, "{}", help.out);
    for example in examples {
        let arguments = example.split("  ").next().unwrap_or(example);
        let arguments = arguments.split(" | ").next().unwrap_or(arguments);
        let arguments = arguments.replace("41877", "4001");
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let ran = recording.report(&arguments);
        assert!(matches!(ran.code, Some(0 | 8)), "{arguments:?} {ran:?}");
    }
}

/// Its name is printed.
#[test]
fn newest_recording_is_read_by_default() {
    let recording = two_kills();
    let ran = Ran::of(raytrace(recording.folder.path()).arg("report"));
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.contains("Reading ./run.raytrace"), "{}", ran.err);
}

#[test]
fn run_without_kills_prints_its_peak() {
    let ran = harmless().report(&[]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.out.contains("0 kills. Peak 12.0 of 16.0 GiB (75.0 %)"),
        "{}",
        ran.out
    );
    let ran = harmless().report(&["--format", "markdown"]);
    assert!(
        ran.out.contains("- 0 kills. Peak 12.0 of 16.0 GiB"),
        "{}",
        ran.out
    );
}

#[test]
fn many_normal_exits_are_one_count() {
    let recording = Stage::new().oom_kill(4001).normal_exits(5000).record();
    for format in ["text", "markdown"] {
        let ran = recording.report(&["--format", format]);
        assert!(ran.out.lines().count() < 40, "{}", ran.out);
        assert!(ran.out.contains("5,000 normal exits"), "{}", ran.out);
    }
    let json = recording.report(&["--format", "json"]).json();
    assert_eq!(json["deaths"].as_array().expect("deaths").len(), 5001);
}
