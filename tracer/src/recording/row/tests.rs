//! Tests with the golden recording `every-row`: each kind of row as the first release wrote it.

use std::collections::BTreeSet;

use rusqlite::{Connection, types::Value};
use serde_json::Value as Json;

use super::super::{frames::Frames, schema};
use crate::{
    event::{Event, KernelLog, Observation, Source},
    golden,
    ray::{
        facts::{GpuMoved, RayFact},
        gcs::GcsRow,
    },
};

/// Names that rows have changed since the first recordings. The old names are read as well.
const RENAMED: [(&str, &str); 5] = [
    ("near", "limit_warning"),
    ("second", "has_backup"),
    ("within", "forecast"),
    ("doer", "grower"),
    ("at_once", "tasks_at_once"),
];

/// Returns the rows of a recording, table by table, with all columns. Stacks have their frames, and
/// all rows have their present names.
fn rows(recording: &Connection) -> Vec<Vec<Value>> {
    let tables = [
        "events",
        "process_memory",
        "node_memory",
        "cgroup_memory",
        "mapped",
    ];
    let (mut rows, mut frames) = (Vec::new(), Frames::of(recording));
    for table in tables {
        let select = format!("SELECT * FROM {table} ORDER BY id");
        let mut select = recording.prepare(&select).expect("a table");
        let columns = select.column_count();
        let mut column = |column: Value| match column {
            Value::Text(text) => {
                let mut text = frames.expand(&text)?.into_owned();
                for (before, now) in RENAMED {
                    if text == before {
                        now.clone_into(&mut text);
                    }
                    text = text.replace(&format!("\"{before}\""), &format!("\"{now}\""));
                }
                Ok(Value::Text(text))
            }
            column => Ok(column),
        };
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| column(row.get(at)?)).collect();
        let found = select.query_map([], row).expect("rows");
        rows.extend(found.map(|row| row.expect("a row")));
    }
    rows
}

/// Whether a column still has what it had before. Fields may be added to a body.
fn is_in(before: &Value, after: &Value) -> bool {
    let body = |column: &Value| match column {
        Value::Text(text) => serde_json::from_str(text).ok(),
        _ => None,
    };
    match (body(before), body(after)) {
        (Some(before), Some(after)) => has(&before, &after),
        _ => before == after,
    }
}

fn has(before: &Json, after: &Json) -> bool {
    match (before, after) {
        (Json::Object(before), Json::Object(after)) => before
            .iter()
            .all(|(name, value)| after.get(name).is_some_and(|now| has(value, now))),
        (Json::Array(before), Json::Array(after)) => {
            before.len() == after.len() && before.iter().zip(after).all(|(one, now)| has(one, now))
        }
        _ => before == after,
    }
}

#[test]
fn known_kind_reads_the_same() {
    let file = golden::unpacked("every-row");
    let recording = Connection::open(file.path()).expect("a recording");
    let select = "SELECT kind, body FROM events";
    let mut select = recording.prepare(select).expect("a table");
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let rows: Result<Vec<(String, String)>, _> = rows.expect("rows").collect();
    for (kind, body) in rows.expect("rows") {
        let read = super::read(&body);
        assert!(read.is_some(), "{body}");
        assert_eq!(super::read_as(&kind, &body), read, "{body}");
        assert_eq!(super::read_as("exit", &body), read, "{body}");
        assert_eq!(super::read_as("", &body), read, "{body}");
    }
}

#[test]
fn every_kind_of_row_round_trips() {
    let file = golden::unpacked("every-row");
    let before = rows(&Connection::open(file.path()).expect("a recording"));
    let again = Connection::open_in_memory().expect("a database");
    schema::create(&again).expect("tables");
    let read = crate::recording::read(file.path()).expect("a recording");
    assert_eq!(read.warnings, Vec::<String>::new());
    for event in &read.events {
        schema::insert(&again, event).expect("a row");
    }
    let after = rows(&again);
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        let same = before
            .iter()
            .zip(after)
            .all(|(before, after)| is_in(before, after));
        assert!(same, "{before:?}\n{after:?}");
    }
}

/// Makes a list of all variants of an enum, and a function for a variant's name. A variant that is
/// not listed does not compile.
macro_rules! variants {
    ($list:ident, $name:ident, $of:ident: $($variant:ident)*) => {
        const $list: &[&str] = &[$(concat!(stringify!($of), "::", stringify!($variant))),*];

        fn $name(of: &$of) -> &'static str {
            match of {
                $($of::$variant { .. } => concat!(stringify!($of), "::", stringify!($variant)),)*
            }
        }
    };
}

variants!(SOURCES, source, Source:
    Kernel Kmsg Pidfd Proc Cgroup RayLog WorkerLog Nvml Gcs Recorder
);
variants!(OBSERVATIONS, observation, Observation:
    RecordingStarted RecordingEnded Clock Probe Ledger Cluster Process Worker Fork Exec Title Call Signal Delivered Interference OomVictim Exit Kmsg
    RayLog Cgroup DriverSettings SharedMemory SharedFile Mapped Steps Memory Outside Node Monitor LimitWarning Gpu Stack Freed NoStack
);
/// What was added after the first release, so that its file has none of it.
const LATER: [&str; 4] = [
    "Observation::Interference",
    "Observation::Monitor",
    "Observation::LimitWarning",
    "RayFact::TrainingStep",
];
variants!(LINES, line, KernelLog: Invoked OomKill Killed OomGroup Fault Xid);
variants!(FACTS, fact, RayFact:
    MonitorKill MonitorEvicted AboveThreshold MonitorStarted MonitorDisabled WorkerStarted Disconnected DriverDisconnected OwnerDied
    JobFinished KillActorRequested ForceKilled GroupTerminated StopSignal RayletSigterm RayletShutdown AgentFailed RayletMarkedDead
    NotRegistered SelfDisconnect RayletLost ForceKillActor GcsWorkerExit NodeRegistered NodeDied Marker TaskFailed JobStarted JobEnded ActorState FailureSignal
    Exception DiedInException Configuration GpuMoved TrainingStep ObjectStorePressure Summary Gcs
);
variants!(MOVES, moved, GpuMoved: Before After Slept);
variants!(TABLES, table, GcsRow: Actor PlacementGroup Node Job);

/// Returns what an event is, down to the kind of line or record.
fn kinds(event: &Event) -> Vec<&'static str> {
    let mut kinds = vec![source(&event.source), observation(&event.what)];
    match &event.what {
        Observation::Kmsg(log) => kinds.push(line(log)),
        Observation::RayLog(log) => {
            kinds.push(fact(&log.fact));
            match &log.fact {
                RayFact::GpuMoved { moved: what, .. } => kinds.push(moved(what)),
                RayFact::Gcs(row) => kinds.push(table(row)),
                _ => {}
            }
        }
        _ => {}
    }
    kinds
}

#[test]
fn golden_recording_has_every_kind() {
    let read = golden::read("every-row");
    let found: BTreeSet<&str> = read.events.iter().flat_map(kinds).collect();
    let all = [SOURCES, OBSERVATIONS, LINES, FACTS, MOVES, TABLES].concat();
    let first = all.iter().filter(|kind| !LATER.contains(kind));
    let missing: Vec<&&str> = first.filter(|kind| !found.contains(**kind)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A row of each kind as files have it. A change here needs an `alias` or a `default` for older
/// files.
#[test]
fn each_kind_has_the_reviewed_fields() {
    let (read, mut seen) = (golden::read("every-row"), BTreeSet::new());
    let is_new = |event: &&Event| seen.insert(kinds(event)[1..].concat());
    let rows = read.events.iter().filter(is_new);
    let rows: Vec<String> = rows
        .map(|event| super::body(&event.what).to_string())
        .collect();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../../../tests/golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!("every-row", rows.join("\n")));
}
