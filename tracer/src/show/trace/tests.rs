//! Tests of traces of hand-made reports. End-to-end tests cover that of a real cluster.

use serde_json::{Value, json};

use super::{RayTimeline, write};
use crate::{
    event::Role,
    ids::{Bytes, HexId, ProcessKey},
    judge::{
        report::{MessageKind, MessageTime, Report},
        timeline::{ProcessSeries, Timeline},
    },
    show::sample,
};

const SECOND: i64 = 1000 * sample::MS;

/// Makes a timeline with a process for each death of the report, and a worker that lives.
fn timeline(report: &Report) -> Timeline {
    let mut processes: Vec<ProcessSeries> = report
        .deaths
        .iter()
        .map(|death| ProcessSeries {
            process: ProcessKey::new(death.process.pid.0, 1),
            label: death.process.title.clone().unwrap_or_default(),
            role: death.process.role,
            actor_class: death.work.actor_class.clone(),
            worker_id: death.work.worker_id.clone(),
            cgroup: None,
            cluster: Some(0),
            started: Some(sample::at(-60 * SECOND)),
            ended: death.when.exit_time,
            death: Some(death.id),
            private: vec![(sample::at(0), Bytes(1 << 20))],
            titles: vec![(sample::at(0), "ray::Class.step".into())],
            calls: Vec::new(),
        })
        .collect();
    let mut alive = processes[0].clone();
    alive.process = ProcessKey::new(999_999, 1);
    alive.worker_id = HexId::parse(&"ab".repeat(28));
    alive.role = Role::Worker;
    (alive.ended, alive.death) = (None, None);
    processes.push(alive);
    Timeline {
        began: sample::at(0),
        ended: sample::at(3600 * SECOND),
        node: Vec::new(),
        cgroups: Vec::new(),
        processes,
        addresses: vec![Some("192.0.2.2".into())],
    }
}

fn events(report: &Report, ray: Option<&str>) -> Vec<Value> {
    let ray = ray.map(|text| RayTimeline::parse(text).expect("a timeline of Ray's"));
    let mut text = Vec::new();
    write(
        &[(report.clone(), timeline(report))],
        ray.as_ref(),
        &mut text,
    )
    .expect("a trace");
    let trace: Value = serde_json::from_slice(&text).expect("JSON");
    trace["traceEvents"].as_array().expect("events").clone()
}

fn of<'a>(events: &'a [Value], category: &str) -> Vec<&'a Value> {
    let events = events.iter();
    events.filter(|event| event["cat"] == category).collect()
}

/// Returns the name of the row that an event is on.
fn row<'a>(events: &'a [Value], event: &Value) -> &'a str {
    let named = events.iter().find(|one| {
        one["name"] == "thread_name" && one["pid"] == event["pid"] && one["tid"] == event["tid"]
    });
    named
        .and_then(|one| one["args"]["name"].as_str())
        .expect("a named row")
}

#[test]
fn death_slice_lies_inside_its_lifetime() {
    let report = sample::verl();
    let events = events(&report, None);
    let listed: Vec<_> = report.deaths.iter().filter(|death| death.listed).collect();
    let slices = of(&events, "death");
    assert_eq!(slices.len(), listed.len());
    assert_eq!(of(&events, "lifetime").len(), report.deaths.len() + 1);
    for slice in slices {
        let life = of(&events, "lifetime")
            .into_iter()
            .find(|life| life["tid"] == slice["tid"])
            .expect("its lifetime");
        let end = |event: &Value| event["ts"].as_i64().zip(event["dur"].as_i64());
        let ((from, lasts), (at, took)) = (end(life).expect("a span"), end(slice).expect("a span"));
        assert!(from <= at && at + took <= from + lasts, "{slice} {life}");
        assert!(slice["args"]["evidence"].is_array());
    }
}

#[test]
fn flows_lead_from_causes_to_effects() {
    let report = sample::verl();
    let events = events(&report, None);
    let flows = of(&events, "cause");
    let caused = flows.iter().filter(|flow| flow["name"] == "caused");
    let effects = report
        .deaths
        .iter()
        .filter(|death| death.verdict.cause_death_id.is_some());
    assert_eq!(caused.count(), 2 * effects.count());
    for flow in flows.iter().filter(|flow| flow["ph"] == "s") {
        let end = flows
            .iter()
            .find(|one| one["ph"] == "f" && one["id"] == flow["id"]);
        let end = end.expect("an end");
        assert!(flow["ts"].as_i64() <= end["ts"].as_i64(), "{flow} {end}");
    }
}

#[test]
fn both_id_forms_use_rays_own_row() {
    let report = sample::verl();
    let death = report
        .deaths
        .iter()
        .find(|death| death.listed && death.process.role == Role::Worker)
        .expect("a worker's death");
    let row_name = format!("worker:{}", death.work.worker_id.as_ref().expect("an id"));
    let span = json!({"cat": "task:execute", "name": "execute", "ph": "X", "ts": 1.5, "dur": 2.0, "cname": "good", "args": {"a": 1}});
    let mut strings = span.clone();
    strings["pid"] = "192.0.2.2".into();
    strings["tid"] = row_name.clone().into();
    let mut integers = span.clone();
    integers["pid"] = 0.into();
    integers["tid"] = 0.into();
    let forms = [
        json!([strings]),
        json!([
            integers,
            {"name": "process_name", "ph": "M", "pid": 0, "tid": null, "args": {"name": "Node 192.0.2.2"}},
            {"name": "thread_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": row_name}},
        ]),
    ];
    for form in forms {
        let events = events(&report, Some(&form.to_string()));
        let rays = of(&events, "task:execute");
        assert_eq!(rays.len(), 1);
        assert_eq!(
            (&rays[0]["ts"], &rays[0]["args"]),
            (&span["ts"], &span["args"])
        );
        assert_eq!(row(&events, rays[0]), row_name);
        let slices = of(&events, "death");
        let slice = slices
            .iter()
            .find(|one| one["args"]["death_id"] == death.id.0);
        let slice = slice.expect("the death");
        assert_eq!(
            (&slice["pid"], &slice["tid"]),
            (&rays[0]["pid"], &rays[0]["tid"])
        );
        let nodes: Vec<_> = events
            .iter()
            .filter(|one| one["name"] == "process_name")
            .collect();
        assert!(
            nodes
                .iter()
                .any(|one| one["args"]["name"] == "Node 192.0.2.2")
        );
    }
}

#[test]
fn invalid_timeline_is_refused() {
    for text in ["", "3", "{\"a\": []}", "[3]"] {
        assert!(RayTimeline::parse(text).is_err(), "{text}");
    }
    assert!(RayTimeline::parse("{\"traceEvents\": []}").is_ok());
}

#[test]
fn each_recording_has_its_own_rows() {
    let parts = ["gpu-01", "gpu-02"].map(|host| {
        let mut report = sample::verl();
        report.recordings[0].host.name = host.into();
        let timeline = timeline(&report);
        (report, timeline)
    });
    let mut text = Vec::new();
    write(&parts, None, &mut text).expect("a trace");
    let trace: Value = serde_json::from_slice(&text).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let named = events
        .iter()
        .filter(|event| event["name"] == "process_name");
    let names: Vec<&str> = named
        .filter_map(|event| event["args"]["name"].as_str())
        .collect();
    for host in ["gpu-01", "gpu-02"] {
        let node = format!("{host}: Node");
        assert!(
            names.iter().any(|name| name.starts_with(&node)),
            "{names:?}"
        );
    }
    let rows = |host: &str| {
        let of = |event: &&Value| {
            let name = event["args"]["name"].as_str().unwrap_or("");
            event["name"] == "process_name" && name.starts_with(host)
        };
        let node = events.iter().find(of).expect("a node")["pid"].clone();
        let on = |event: &&Value| event["ph"] == "X" && event["pid"] == node;
        events.iter().filter(on).count()
    };
    assert!(rows("gpu-01") > 0);
    assert_eq!(rows("gpu-01"), rows("gpu-02"));
}

#[test]
fn wrong_clock_is_corrected_by_messages() {
    let worker = HexId::parse(&"cd".repeat(28)).expect("an id");
    let message = |second: i64, by_gcs: bool, kind: MessageKind| MessageTime {
        time: sample::at(second * SECOND),
        cluster: 0,
        by_gcs,
        kind,
        id: worker.clone(),
    };
    // The second node's clock is 2 to 2.2 s ahead of the first's, which is the GCS's.
    let at_gcs = vec![
        message(10, true, MessageKind::WorkerLeft),
        message(20, true, MessageKind::OwnerGone),
    ];
    let mut on_node = vec![
        message(12, false, MessageKind::WorkerLeft),
        message(22, false, MessageKind::OwnerGone),
    ];
    on_node[1].time.0.0 += 200 * sample::MS;
    let parts = [("gpu-01", at_gcs), ("gpu-02", on_node)].map(|(host, message_times)| {
        let mut report = sample::verl();
        (report.recordings[0].host.name, report.message_times) = (host.into(), message_times);
        report.recordings[0].host.boot_id = host.into();
        report.clusters[0].session = Some("session_x".into());
        let digits = if host == "gpu-01" { "01" } else { "02" };
        report.clusters[0].node_id = HexId::parse(&digits.repeat(28));
        let timeline = timeline(&report);
        (report, timeline)
    });
    let mut text = Vec::new();
    write(&parts, None, &mut text).expect("a trace");
    let trace: Value = serde_json::from_slice(&text).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let first = |host: &str| {
        let named = |event: &&Value| {
            let name = event["args"]["name"].as_str().unwrap_or("");
            event["name"] == "process_name" && name.starts_with(host)
        };
        let node = events.iter().find(named).expect("a node")["pid"].clone();
        let lives = events.iter();
        let lives = lives.filter(|one| one["cat"] == "lifetime" && one["pid"] == node);
        let starts = lives.filter_map(|life| life["ts"].as_i64());
        starts.min().expect("a lifetime")
    };
    assert_eq!(first("gpu-01") - first("gpu-02"), 2_100_000);
}
