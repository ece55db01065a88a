//! Other programs can read the exports.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use raytrace_tests::{
    day::{self, EventCounts},
    recorder::raytrace,
    staging,
};
use serde_json::Value;

fn export(folder: &Path, format: &str, output: &str, arguments: &[&str]) -> Output {
    Command::new(raytrace())
        .current_dir(folder)
        .args(["export", "run.raytrace", "--format", format, "-o", output])
        .args(arguments)
        .output()
        .expect("an export")
}

fn succeeds(output: &Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

/// Writes a day with few samples into a folder of its own.
fn recording() -> (tempfile::TempDir, EventCounts) {
    let folder = tempfile::tempdir().expect("a folder");
    let written = day::write(&folder.path().join("run.raytrace"), 1800, day::Detail::Full)
        .expect("a recording");
    (folder, written)
}

fn events(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a trace");
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    trace["traceEvents"].as_array().expect("events").clone()
}

fn count(events: &[Value], category: &str) -> usize {
    let events = events.iter();
    events.filter(|event| event["cat"] == category).count()
}

/// The queries of docs/reference/format.md run on the recording and on its exports.
#[test]
fn documented_queries_run() {
    let (folder, written) = recording();
    let here = folder.path();
    succeeds(&export(here, "jsonl", "run.jsonl", &[]));
    succeeds(&export(here, "csv", "memory.csv", &[]));
    let lines = std::fs::read_to_string(here.join("run.jsonl")).expect("lines");
    assert_eq!(lines.lines().count(), written.events);
    let done = Command::new(staging::view_python())
        .arg(staging::root().join("tests/views/format.py"))
        .arg(staging::root().join("docs/reference/format.md"))
        .arg(here)
        .output()
        .expect("cargo xtask setup installs what this needs");
    print!("{}", String::from_utf8_lossy(&done.stdout));
    succeeds(&done);
}

/// The merged trace has all events of both, and each kill is on the row of its worker.
#[test]
fn trace_is_merged_with_ray_timeline() {
    let (folder, written) = recording();
    let here = folder.path();
    let victim = 1000;
    let row = format!("worker:{}", day::worker_id(raytrace::ids::Pid(victim)));
    let span = |pid: Value, tid: Value| {
        serde_json::json!({"cat": "task:execute", "name": "f", "ph": "X", "ts": 1_795_161_600_000_000.0,
            "dur": 5.0, "cname": "good", "args": {}, "pid": pid, "tid": tid})
    };
    let name = |kind: &str, pid: u32, tid: Value, name: &str| serde_json::json!({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}});
    let strings = vec![span("192.0.2.2".into(), row.clone().into()); 3];
    let mut integers = vec![span(0.into(), 0.into()); 3];
    integers.push(name("process_name", 0, Value::Null, "Node 192.0.2.2"));
    integers.push(name("thread_name", 0, 0.into(), &row));
    for rays in [strings, integers] {
        std::fs::write(here.join("ray.json"), Value::from(rays).to_string()).expect("a file");
        succeeds(&export(
            here,
            "chrome-trace",
            "merged.json",
            &["--with", "ray.json", "--force"],
        ));
        let events = events(&here.join("merged.json"));
        assert_eq!(count(&events, "death"), written.deaths);
        assert_eq!(count(&events, "task:execute"), 3);
        let of_ray = events
            .iter()
            .find(|one| one["cat"] == "task:execute")
            .expect("a span");
        let kill = events
            .iter()
            .find(|one| one["cat"] == "death" && one["args"]["pid"] == victim)
            .expect("the kill");
        assert_eq!(
            (&kill["pid"], &kill["tid"]),
            (&of_ray["pid"], &of_ray["tid"])
        );
        let rows = events
            .iter()
            .filter(|one| one["args"]["name"] == row.as_str());
        assert_eq!(rows.count(), 1, "one row for the worker");
    }
}

#[test]
fn impossible_exports_are_refused_with_advice() {
    let (folder, _) = recording();
    let here = folder.path();
    std::fs::write(here.join("no.json"), "{}").expect("a file");
    let refused = |format: &str, arguments: &[&str], words: &str| {
        let done = export(here, format, "out", arguments);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}");
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(errors.contains(words), "{errors}");
    };
    refused("chrome-trace", &["--with", "no.json"], "ray timeline");
    refused("csv", &["--with", "no.json"], "leave it out");
    std::fs::write(here.join("out"), "mine").expect("a file");
    refused("csv", &[], "--force");
    let kept = std::fs::read_to_string(here.join("out")).expect("a file");
    assert_eq!(kept, "mine");
}

/// Returns a file with the JSON that raytrace prints about `input`.
fn printed_json(folder: &Path, command: &str, input: &Path) -> PathBuf {
    let mut program = Command::new(raytrace());
    let output = program
        .arg(command)
        .arg(input)
        .args(["--format", "json"])
        .output();
    let output = output.expect("raytrace runs");
    assert!(!output.stdout.is_empty(), "{}: {output:?}", input.display());
    let name = input.file_name().expect("a name").display();
    let file = folder.join(format!("{name}.json"));
    std::fs::write(&file, output.stdout).expect("a file");
    file
}

/// Returns each recording of `tests/golden`, unpacked into `folder`.
fn golden_recordings(folder: &Path) -> Vec<PathBuf> {
    let mut unpacked = Vec::new();
    for entry in std::fs::read_dir(staging::root().join("tests/golden")).expect("a folder") {
        let packed = entry.expect("a file").path();
        if !packed.to_string_lossy().ends_with(".raytrace.gz") {
            continue;
        }
        let file = folder.join(packed.file_stem().expect("a name"));
        let packed = std::fs::File::open(packed).expect("a recording");
        let mut written = std::fs::File::create(&file).expect("a file");
        std::io::copy(&mut flate2::read::GzDecoder::new(packed), &mut written).expect("a copy");
        unpacked.push(file);
    }
    unpacked
}

/// What `report` and `explain` print keeps to docs/reference/report.schema.json.
#[test]
fn printed_json_keeps_to_its_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let recordings = golden_recordings(here);
    assert!(recordings.len() > 20, "{recordings:?}");
    let reports = recordings
        .iter()
        .map(|file| printed_json(here, "report", file));
    let texts = ["raylet-kill.txt", "kernel-kill.txt", "driver-end.txt"];
    let samples = staging::root().join("xtask/src/bench/explain");
    let explained = texts.map(|text| printed_json(here, "explain", &samples.join(text)));
    let files: Vec<PathBuf> = reports.chain(explained).collect();
    let checked = staging::against_schema("report.schema.json", &files);
    assert!(checked.ends_with("keep to the schema\n"), "{checked}");
}
