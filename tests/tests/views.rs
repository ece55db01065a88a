//! Every view of a recording of real deaths: the page in a browser, the trace, the exports.
//!
//! The trace is merged with the one that Ray itself wrote.

use std::{
    collections::HashMap,
    path::Path,
    process::{Command, Output},
};

use raytrace_tests::{
    recorder::{Recorder, RecorderOutput, raytrace},
    staging,
    truth::PrivilegeMode,
};
use serde_json::{Value, json};

const VERSION: &str = "2.60.0";
/// One kind of the matrix for each of the most frequent killers.
const KINDS: [&str; 7] = [
    "user_kill_9",
    "os_exit_3",
    "segv",
    "kernel_oom_task",
    "child_kernel_oom",
    "ray_kill",
    "monitor_task",
];

/// Records while `script` stages deaths. Every verdict is compared before any view is made.
fn record(folder: &Path, script: &str, arguments: &[&str]) -> RecorderOutput {
    let recorder = Recorder::start(&folder.join("run.raytrace"), &[]).expect("a recorder");
    let script = staging::start(VERSION, script, arguments, folder).expect("a script");
    let truth = script.finish().expect("staging");
    let recorded = recorder.stop().expect("a recording");
    let compared = truth.compare(&recorded.report, PrivilegeMode::Full);
    assert!(compared.wrong.is_empty(), "{}", compared.wrong.join("\n"));
    assert!(compared.deaths > 0);
    recorded
}

fn run(folder: &Path, arguments: &[&str]) -> String {
    let done = Command::new(raytrace())
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("raytrace");
    succeeds(&done);
    String::from_utf8(done.stdout).expect("text")
}

fn succeeds(done: &Output) {
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
}

/// Opens the page in a browser at two widths, light and dark. Screenshots are kept under
/// target/views.
fn page(folder: &Path, name: &str) -> Value {
    run(
        folder,
        &[
            "report",
            "run.raytrace",
            "--format",
            "html",
            "-o",
            "page.html",
        ],
    );
    let done = Command::new(staging::view_python())
        .arg(staging::root().join("tests/views/shots.py"))
        .arg(folder.join("page.html"))
        .arg(staging::target().join("views/pictures").join(name))
        .output()
        .expect("cargo xtask setup installs what this needs");
    succeeds(&done);
    serde_json::from_slice(&done.stdout).expect("what was seen")
}

#[test]
fn all_views_show_the_same_deaths() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let mut arguments = vec!["--only"];
    arguments.extend(KINDS);
    let recorded = record(here, "matrix.py", &arguments);
    for killer in ["ray-memory-monitor", "kernel-oom-memcg"] {
        let deaths = recorded.report["deaths"].as_array().expect("deaths");
        let is_it = |death: &Value| death["verdict"]["killer"] == killer;
        assert!(deaths.iter().any(is_it), "no {killer} was staged");
    }
    let seen = page(here, "matrix");
    println!("{seen}");
    let trace = run(
        here,
        &["export", "run.raytrace", "--format", "chrome-trace"],
    );
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let deaths: Vec<&Value> = events.iter().filter(|one| one["cat"] == "death").collect();
    assert_eq!(seen["deaths"], deaths.len());
    let known = recorded.report["deaths"].as_array().expect("deaths");
    for death in deaths {
        let same = known
            .iter()
            .find(|one| one["id"] == death["args"]["death_id"]);
        let same = same.expect("a death of the report");
        assert_eq!(death["args"]["killer"], same["verdict"]["killer"]);
    }
    let lines = run(here, &["export", "run.raytrace", "--format", "jsonl"]);
    let exits = lines
        .lines()
        .filter(|line| line.contains("\"kind\":\"exit\""));
    assert_eq!(exits.count(), known.len());
    let table = run(here, &["export", "run.raytrace", "--format", "csv"]);
    assert!(table.lines().count() > 100, "{}", table.lines().count());
    for format in ["text", "markdown"] {
        let shown = run(
            here,
            &["report", "run.raytrace", "--all", "--format", format],
        );
        // Markdown leaves out what does not fit into 60 lines. Memory kills always stay.
        for (killer, words) in [
            ("ray-memory-monitor", "Ray's memory monitor killed"),
            ("kernel-oom-memcg", "the kernel killed"),
        ] {
            let staged = known
                .iter()
                .any(|death| death["verdict"]["killer"] == killer);
            assert!(
                !staged || shown.contains(words),
                "{format}: {killer}\n{shown}"
            );
        }
    }
}

/// Returns Ray's timeline with numbers for its rows and the names as metadata, as other tools write
/// it.
fn by_numbers(rays: &[Value]) -> Vec<Value> {
    let mut numbers: HashMap<(String, String), (usize, usize)> = HashMap::new();
    let mut events = Vec::new();
    for event in rays {
        let name = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let (node, row) = (name("pid"), name("tid"));
        let next = numbers.len() + 1;
        let (node_number, row_number) = *numbers
            .entry((node.clone(), row.clone()))
            .or_insert((1, next));
        if row_number == next {
            for (kind, name) in [("process_name", &node), ("thread_name", &row)] {
                events.push(json!({"ph": "M", "name": kind, "pid": node_number, "tid": row_number, "args": {"name": name}}));
            }
        }
        let mut event = event.clone();
        (event["pid"], event["tid"]) = (node_number.into(), row_number.into());
        events.push(event);
    }
    events
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// Both are merged into one trace.
#[test]
fn ray_timeline_and_recording_share_a_clock() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let file = here.join("ray.json");
    let path = file.to_str().expect("text");
    record(here, "timeline.py", &["--timeline", path]);
    let truth = std::fs::read_to_string(here.join("truth.jsonl")).expect("the truth");
    let truth = truth
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let victim = truth
        .into_iter()
        .find(|row| row["label"] == "victim")
        .expect("the victim");
    let text = std::fs::read_to_string(&file).expect("Ray's timeline");
    let rays: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let spans = |events: &[Value]| {
        events
            .iter()
            .filter(|one| one["cat"] == "task:execute")
            .count()
    };
    assert!(spans(&rays) >= 6, "{}", spans(&rays));
    for (style, with) in [("strings", rays.clone()), ("numbers", by_numbers(&rays))] {
        std::fs::write(here.join("with.json"), Value::from(with).to_string()).expect("a file");
        let merged = run(
            here,
            &[
                "export",
                "run.raytrace",
                "--format",
                "chrome-trace",
                "--with",
                "with.json",
            ],
        );
        let merged: Value = serde_json::from_str(&merged).expect("JSON");
        let events = merged["traceEvents"].as_array().expect("events");
        assert_eq!(spans(events), spans(&rays), "{style}");
        let row = |event: &Value| (event["pid"].clone(), event["tid"].clone());
        let named = |name: &str| {
            let found: Vec<&Value> = events
                .iter()
                .filter(|one| one["name"] == "thread_name" && one["args"]["name"] == name)
                .collect();
            assert_eq!(found.len(), 1, "{style}: rows of {name}");
            row(found[0])
        };
        let worker = victim["worker_id"].as_str().expect("its worker id");
        let kill = events
            .iter()
            .find(|one| one["cat"] == "death" && one["args"]["pid"] == victim["pid"]);
        let kill = kill.expect("the kill");
        assert_eq!(row(kill), named(&format!("worker:{worker}")), "{style}");
        // The staging noted the kill just after it.
        let late = number(&victim["time"]) * 1e6 - number(&kill["ts"]);
        assert!((0.0..2e6).contains(&late), "{style}: {late} µs");
        // Ray's spans must be within the lifetimes of their workers, because both have one clock.
        for span in events.iter().filter(|one| one["cat"] == "task:execute") {
            let life = events
                .iter()
                .find(|one| one["cat"] == "lifetime" && row(one) == row(span));
            let life = life.unwrap_or_else(|| panic!("{style}: no lifetime on the row of {span}"));
            let (from, to) = (
                number(&life["ts"]),
                number(&life["ts"]) + number(&life["dur"]),
            );
            let end = number(&span["ts"]) + number(&span["dur"]);
            assert!(
                from <= number(&span["ts"]) && end <= to + 1e4,
                "{style}: {span} {life}"
            );
        }
    }
}
