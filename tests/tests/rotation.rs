//! A recorder that writes one file after another.
//!
//! No death is lost or reported twice, and a time without a recorder is printed.

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use raytrace_tests::{fleet::report, recorder::raytrace};
use serde_json::Value;

/// How many processes kill themselves, over several seconds.
const KILLED: usize = 60;

fn record(folder: &Path, command: &str) {
    let mut record = Command::new(raytrace());
    // Record no cluster that runs beside this test.
    record.args(["record", "--rotate", "1s", "--session-dir"]);
    record.arg(folder).arg("--directory").arg(folder);
    record.args(["--", "sh", "-c", command]);
    let status = record.status().expect("a recorder");
    assert!(status.success(), "{status}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

/// Returns the pids of the processes that killed themselves, and whether each verdict is proven.
fn killed(report: &Value) -> Vec<(u64, bool)> {
    let deaths = report["deaths"].as_array().expect("deaths");
    let by_itself = |death: &&Value| death["signal"] == 9 && death["comm"] == "sh";
    let killed = deaths.iter().filter(by_itself);
    killed
        .map(|death| {
            let pid = death["pid"].as_u64().expect("a pid");
            (pid, death["verdict"]["certainty"] == "proven")
        })
        .collect()
}

#[test]
fn deaths_between_files_are_reported_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!("for i in $(seq {KILLED}); do sh -c 'kill -9 $$'; sleep 0.1; done");
    record(folder.path(), &script);
    let files = files(folder.path());
    assert!(files.len() >= 4, "{files:?}");
    assert!(
        files
            .iter()
            .all(|file| file.extension().is_some_and(|end| end == "raytrace")),
        "each is one file: {files:?}"
    );
    let whole = report(&[folder.path().to_owned()], &[]).expect("a report");
    assert_eq!(whole["recordings"].as_array().map(Vec::len), Some(1));
    assert_eq!(whole["recordings"][0]["lost_events"], 0);
    assert_eq!(whole["recordings"][0]["clean_end"], true);
    let mut told = killed(&whole);
    assert!(told.iter().all(|(_, proven)| *proven), "{told:?}");
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), KILLED);
    let mut apart: Vec<(u64, bool)> = files
        .iter()
        .flat_map(|file| killed(&report(std::slice::from_ref(file), &[]).expect("a report")))
        .collect();
    apart.sort_unstable();
    assert_eq!(apart, told, "each file by itself");
}

#[test]
fn restarted_recorder_reports_the_gap() {
    let folder = tempfile::tempdir().expect("a folder");
    record(folder.path(), "sleep 0.2");
    thread::sleep(Duration::from_secs(3));
    record(folder.path(), "sleep 0.2");
    let files = files(folder.path());
    assert_eq!(files.len(), 2, "{files:?}");
    let both = report(&[folder.path().to_owned()], &[]).expect("a report");
    let unseen = both["nodes"][0]["gaps"].as_array().expect("gaps");
    assert_eq!(unseen.len(), 1, "{unseen:?}");
    // The later file says it by itself too.
    let mut shown = Command::new(raytrace());
    let shown = shown
        .arg("report")
        .arg(&files[1])
        .output()
        .expect("a report");
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("not recorded: "), "{text}");
}

#[test]
fn only_files_of_the_time_span_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    record(folder.path(), "sh -c 'kill -9 $$'; sleep 0.2");
    let first = files(folder.path()).remove(0);
    // A file that is not needed may hold anything, and is not reported as damaged.
    let later = report(
        &[folder.path().to_owned()],
        &["--since", "2999-01-01T00:00:00Z"],
    );
    assert!(later.is_err(), "nothing reaches there");
    let all = report(&[first], &["--since", "2000-01-01T00:00:00Z"]).expect("a report");
    assert_eq!(killed(&all).len(), 1);
}
