//! Tests where a report is written: files, pipes, terminals.

use std::{io::Read as _, process::Stdio};

use crate::{
    ran::{Ran, raytrace},
    stage::{Stage, two_kills},
};

#[test]
fn existing_output_needs_force() {
    let recording = two_kills();
    let output = recording.folder.path().join("report.md");
    let to = |more: &[&str]| {
        let output = output.to_str().expect("UTF-8");
        recording.report(&[&["--format", "markdown", "-o", output], more].concat())
    };
    let ran = to(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""));
    assert!(
        ran.err.contains("Wrote ") && ran.err.contains("report.md"),
        "{}",
        ran.err
    );
    std::fs::write(&output, "mine").expect("write");
    to(&[]).refused(2, &["report.md exists", "--force"]);
    assert_eq!(std::fs::read_to_string(&output).expect("read"), "mine");
    assert_eq!(to(&["--force"]).code, Some(0));
    let text = std::fs::read_to_string(&output).expect("read");
    assert!(text.starts_with("## "), "{text}");
    recording.report(&["--force"]).refused(2, &["--output"]);
}

#[test]
fn recording_is_never_overwritten() {
    let recording = two_kills();
    let before = std::fs::read(&recording.file).expect("read");
    recording
        .report(&["-o", "run.raytrace", "--force"])
        .refused(2, &["is the recording itself"]);
    assert_eq!(std::fs::read(&recording.file).expect("read"), before);
}

#[test]
fn unwritable_output_says_what_to_choose() {
    two_kills()
        .report(&["-o", "no/such/folder/report.txt"])
        .refused(
            1,
            &["cannot write no/such/folder/report.txt", "choose a folder"],
        );
}

#[test]
fn closed_pipe_is_no_error() {
    let recording = Stage::new().normal_exits(5000).record();
    let mut command = raytrace(recording.folder.path());
    command.arg("report").arg(&recording.file).arg("--all");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("raytrace runs");
    let mut stdout = child.stdout.take().expect("stdout");
    stdout.read_exact(&mut [0]).expect("a byte");
    drop(stdout);
    let output = child.wait_with_output().expect("raytrace ends");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), err.as_ref()), (Some(0), ""));
}

#[test]
fn files_contain_no_colour() {
    let recording = two_kills();
    let forced = |arguments: &[&str]| {
        let mut command = raytrace(recording.folder.path());
        command.env("CLICOLOR_FORCE", "1").arg("report");
        Ran::of(command.arg(&recording.file).args(arguments))
    };
    assert!(forced(&[]).out.contains("\u{1b}["));
    assert_eq!(forced(&["-o", "report.txt"]).code, Some(0));
    let file = recording.folder.path().join("report.txt");
    let text = std::fs::read_to_string(file).expect("read");
    assert!(text.contains("KILL 1") && !text.contains('\u{1b}'));
}
