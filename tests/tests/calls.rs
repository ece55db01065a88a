//! Calls of workers match Ray's own timeline, and the death of a worker that leaked names its call.

use std::{collections::HashMap, path::Path, process::Command};

use raytrace_tests::{
    recorder::{Recorder, raytrace},
    staging,
    truth::PrivilegeMode,
};
use serde_json::Value;

const MIB: f64 = 1024.0 * 1024.0;
/// MiB that the leaking actor keeps from each call.
const KEPT_MIB: f64 = 40.0;

/// A call: its worker, its name, and its beginning and length in ms.
struct Span {
    worker: String,
    name: String,
    began: f64,
    length: f64,
}

impl Span {
    /// Returns for how many ms both ran.
    fn shared_with(&self, other: &Self) -> f64 {
        let began = self.began.max(other.began);
        let ended = (self.began + self.length).min(other.began + other.length);
        (ended - began).max(0.0)
    }
}

/// No call of 50 ms or more is missed, and the death of a leaking actor names call and leak.
#[test]
fn calls_of_50_ms_are_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("calls.raytrace");
    let recorder = Recorder::start(&file, &[]).expect("a recorder");
    let script = staging::start("2.60.0", "calls.py", &[], folder.path()).expect("a script");
    let truth = script.finish().expect("staging");
    let recorded = recorder.stop().expect("a recording");
    let wrong = truth.compare(&recorded.report, PrivilegeMode::Full).wrong;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let theirs = rays(&folder.path().join("timeline.json"));
    // Ray counts to a constructor what it does before it sets the title: it fetches the class then.
    let method = |span: &&Span| span.length >= 50.0 && !span.name.ends_with(".__init__");
    let long: Vec<&Span> = theirs.iter().filter(method).collect();
    assert!(long.len() >= 200, "{} calls in Ray's timeline", long.len());
    let ours = recorded_calls(&file);
    let mut taken = vec![false; ours.len()];
    let mut least: f64 = 1.0;
    for span in &long {
        let same = |own: &Span| own.name == span.name && own.worker == span.worker;
        let found = (0..ours.len()).filter(|at| !taken[*at] && same(&ours[*at]));
        let best = found.max_by(|one, other| {
            let shared = |at: &usize| ours[*at].shared_with(span);
            shared(one).total_cmp(&shared(other))
        });
        let best = best.unwrap_or_else(|| panic!("no call {} in {}", span.name, span.worker));
        let share = ours[best].shared_with(span) / span.length;
        // The first run of a function in a worker begins with loading it, before the title is set.
        assert!(share > 0.0, "{} at {} ms: {share}", span.name, span.began);
        least = least.min(share);
        taken[best] = true;
    }
    eprintln!(
        "{} calls of 50 ms and more in Ray's timeline, {} recorded; each covers {:.1} % of Ray's or more",
        long.len(),
        ours.len(),
        least * 100.0
    );

    let deaths = recorded.report["deaths"].as_array().expect("deaths");
    let death = deaths.iter().find(|death| death["actor_class"] == "Leaker");
    let calls = &death.expect("the leaker's death")["calls"];
    assert_eq!(
        (&calls["task"], &calls["died_in"], &calls["complete"]),
        (&"Leaker.fill".into(), &7.into(), &6.into()),
        "{calls}"
    );
    let each = calls["per_call_bytes"].as_f64().expect("growth") / MIB;
    assert!((each / KEPT_MIB - 1.0).abs() < 0.05, "{each} MiB a call");
    let peak = calls["peak_bytes"].as_f64().expect("a peak")
        - calls["before_bytes"].as_f64().expect("a size");
    // Each call also used twice as much for a moment, which a sample may have caught.
    assert!((0.95..3.1).contains(&(peak / MIB / KEPT_MIB)), "{calls}");
}

/// Returns the tasks of `ray timeline`.
fn rays(file: &Path) -> Vec<Span> {
    let text = std::fs::read_to_string(file).expect("Ray's timeline");
    let events: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let of_task = |event: &&Value| {
        event["cat"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("task::"))
    };
    let spans = events.iter().filter(of_task).map(|event| Span {
        worker: event["tid"]
            .as_str()
            .unwrap_or_default()
            .replace("worker:", ""),
        name: event["cat"]
            .as_str()
            .unwrap_or_default()
            .replace("task::", ""),
        began: event["ts"].as_f64().expect("a time") / 1000.0,
        length: event["dur"].as_f64().expect("a length") / 1000.0,
    });
    spans.collect()
}

/// Returns the calls of a recording, each with the worker that its process was.
fn recorded_calls(file: &Path) -> Vec<Span> {
    let output = Command::new(raytrace())
        .args(["export", "--format", "jsonl"])
        .arg(file)
        .output()
        .expect("an export");
    let text = String::from_utf8(output.stdout).expect("text");
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of = |kind: &'static str| rows.iter().filter(move |row| row["kind"] == kind);
    let workers: HashMap<u64, &str> = of("worker")
        .filter_map(|row| {
            let body = &row["body"];
            Some((
                body["process"]["pid"].as_u64()?,
                body["worker_id"].as_str()?,
            ))
        })
        .collect();
    let started = of("recording_started").next().expect("a beginning");
    let boot_to_wall = started["body"]["wall"].as_f64().expect("a wall time")
        - started["time"].as_f64().expect("a time");
    let span = |row: &Value| {
        let body = &row["body"];
        let (began, ended) = (body["began"].as_f64()?, body["ended"].as_f64()?);
        Some(Span {
            worker: (*workers.get(&body["process"]["pid"].as_u64()?)?).to_owned(),
            name: body["title"].as_str()?.replace("ray::", ""),
            began: (began + boot_to_wall) / 1e6,
            length: (ended - began) / 1e6,
        })
    };
    of("call").filter_map(span).collect()
}
