//! Tests what `report` refuses, with its exit code and what it tells the user to type.

use raytrace::recording::Writer;

use crate::{
    ran::{Ran, Recording, raytrace},
    stage::{Stage, two_kills},
};

#[test]
fn missing_file_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = Ran::of(raytrace(folder.path()).args(["report", "gone.raytrace"]));
    ran.refused(
        2,
        &["cannot open gone.raytrace", "No such file", "ls *.raytrace"],
    );
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("raylet.out"), "[2026-11-20] x\n").expect("a log");
    std::fs::write(folder.path().join("empty"), "").expect("an empty file");
    let of = |file: &str| Ran::of(raytrace(folder.path()).args(["report", file]));
    of("raylet.out").refused(6, &["is not a raytrace recording", "raytrace explain"]);
    of("empty").refused(6, &["empty is empty", "record again"]);
}

#[test]
fn damaged_recording_is_refused_with_a_rescue() {
    let recording = two_kills();
    let mut bytes = std::fs::read(&recording.file).expect("read");
    bytes[100..].fill(0x5a);
    std::fs::write(&recording.file, bytes).expect("write");
    let ran = recording.report(&[]);
    ran.refused(6, &["run.raytrace is cut short or damaged", ".recover)"]);
}

#[test]
fn readable_part_is_shown_with_exit_code_6() {
    let recording = Stage::new().oom_kill(4001).normal_exits(2000).record();
    let mut bytes = std::fs::read(&recording.file).expect("read");
    let half = bytes.len() / 2;
    bytes[half..].fill(0x5a);
    std::fs::write(&recording.file, bytes).expect("write");
    let ran = recording.report(&[]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(
        ran.out.contains("killed hog (task, pid 4001"),
        "{}",
        ran.out
    );
    let says = "is cut short or damaged";
    let times = ran.out.matches(says).count() + ran.err.matches(says).count();
    assert_eq!(times, 1, "{}{}", ran.out, ran.err);
}

#[test]
fn newer_format_is_refused_with_both_versions() {
    let recording = two_kills();
    let mut bytes = std::fs::read(&recording.file).expect("read");
    // `user_version` of the SQLite header, big-endian.
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    std::fs::write(&recording.file, bytes).expect("write");
    let ran = recording.report(&[]);
    ran.refused(6, &["has format 99", "reads up to 2", "newer raytrace"]);
}

#[test]
fn recording_without_events_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.raytrace");
    let _summary = Writer::create(&file, None).expect("create").finish();
    let ran = Recording { folder, file }.report(&[]);
    ran.refused(
        6,
        &["has no events", "record again: sudo", "raytrace record"],
    );
}
