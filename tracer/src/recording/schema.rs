//! The tables, and how an event is a row.
//!
//! Every event is a row of `events` with the observation as JSON; memory samples, which are most of all rows, have tables of
//! plain integers. All share one sequence of ids.

use rusqlite::{Connection, Row, params};

use crate::{
    event::{CgroupState, Event, MemorySplit, NodeMemory, Observation, ProcessMemory, Source},
    ids::{BootTime, Bytes, EventId, ProcessKey},
};

/// `PRAGMA application_id` of a recording: `RayT`.
pub(super) const APPLICATION_ID: i64 = 0x5261_7954;
/// `PRAGMA user_version`: the format.
pub(super) const VERSION: i64 = 1;

const TABLES: &str = "
CREATE TABLE events (id INTEGER PRIMARY KEY, time INTEGER NOT NULL, source TEXT NOT NULL, kind TEXT NOT NULL, pid INTEGER, body TEXT NOT NULL);
CREATE INDEX events_kind ON events (kind);
CREATE TABLE process_memory (id INTEGER PRIMARY KEY, time INTEGER NOT NULL, pid INTEGER NOT NULL, start INTEGER NOT NULL,
  anon INTEGER, file INTEGER, shmem INTEGER, swap INTEGER, peak INTEGER);
CREATE TABLE node_memory (id INTEGER PRIMARY KEY, time INTEGER NOT NULL, total INTEGER NOT NULL, available INTEGER NOT NULL,
  free INTEGER NOT NULL, shmem INTEGER NOT NULL, swap_used INTEGER NOT NULL);
CREATE TABLE cgroup_memory (id INTEGER PRIMARY KEY, time INTEGER NOT NULL, path TEXT NOT NULL, usage INTEGER NOT NULL, max INTEGER, oom_kills INTEGER);
";

/// Makes the tables in an empty file.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={VERSION};
         PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-2048; PRAGMA wal_autocheckpoint=500;{TABLES}"
    ))
}

fn integer(bytes: Bytes) -> i64 {
    i64::try_from(bytes.0).unwrap_or(i64::MAX)
}

fn bytes(value: i64) -> Bytes {
    Bytes(value.max(0).cast_unsigned())
}

/// Writes one event.
pub(super) fn insert(connection: &Connection, event: &Event) -> rusqlite::Result<()> {
    let id = event.id.0.cast_signed();
    let time = event.time.0.cast_signed();
    match &event.what {
        Observation::Memory(sample) => {
            let memory = &sample.memory;
            connection
                .prepare_cached("INSERT INTO process_memory VALUES (?,?,?,?,?,?,?,?,?)")?
                .execute(params![
                    id,
                    time,
                    sample.process.pid.0,
                    sample.process.start.0.cast_signed(),
                    memory.anon.map(integer),
                    memory.file.map(integer),
                    memory.shmem.map(integer),
                    memory.swap.map(integer),
                    memory.peak.map(integer)
                ])?;
        }
        Observation::Node(node) => {
            connection
                .prepare_cached("INSERT INTO node_memory VALUES (?,?,?,?,?,?,?)")?
                .execute(params![
                    id,
                    time,
                    integer(node.total),
                    integer(node.available),
                    integer(node.free),
                    integer(node.shmem),
                    integer(node.swap_used)
                ])?;
        }
        Observation::Cgroup(state) => {
            connection
                .prepare_cached("INSERT INTO cgroup_memory VALUES (?,?,?,?,?,?)")?
                .execute(params![
                    id,
                    time,
                    state.path,
                    integer(state.usage),
                    state.limit.map(integer),
                    state.oom_kills.map(u64::cast_signed)
                ])?;
        }
        what => {
            let body = serde_json::to_value(what).unwrap_or_default();
            let kind = body
                .get("kind")
                .and_then(serde_json::Value::as_str)
                .unwrap_or("unknown")
                .to_owned();
            let source = serde_json::to_value(event.source).unwrap_or_default();
            connection
                .prepare_cached("INSERT INTO events VALUES (?,?,?,?,?,?)")?
                .execute(params![
                    id,
                    time,
                    source.as_str().unwrap_or("recorder"),
                    kind,
                    pid(what).map(|pid| pid.pid.0),
                    body.to_string()
                ])?;
        }
    }
    Ok(())
}

/// The process that an event is about, for queries by pid.
fn pid(what: &Observation) -> Option<ProcessKey> {
    match what {
        Observation::Process(process) => Some(process.process),
        Observation::Worker(worker) => Some(worker.process),
        Observation::Fork { child, .. } => Some(*child),
        Observation::Exec(exec) => Some(exec.process),
        Observation::Title { process, .. } | Observation::Delivered { process, .. } => {
            Some(*process)
        }
        Observation::Signal(signal) => Some(signal.target),
        Observation::OomVictim(victim) => Some(victim.victim),
        Observation::Exit(exit) => Some(exit.process),
        Observation::Cluster(cluster) => Some(cluster.raylet),
        Observation::DriverSettings { process, .. } => Some(*process),
        _ => None,
    }
}

/// One SELECT over all tables, in the order of ids; the last column is JSON for `events` and NULL else.
pub(super) const SELECT: &str = "
SELECT id, time, 0 AS shape, source, body, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM events
UNION ALL SELECT id, time, 1, NULL, NULL, pid, start, anon, file, shmem, swap, peak FROM process_memory
UNION ALL SELECT id, time, 2, NULL, NULL, total, available, free, shmem, swap_used, NULL, NULL FROM node_memory
UNION ALL SELECT id, time, 3, NULL, path, usage, max, oom_kills, NULL, NULL, NULL, NULL FROM cgroup_memory
ORDER BY id";

/// The event of a row of [`SELECT`]; `None` for one that this version cannot read.
pub(super) fn event(row: &Row<'_>) -> rusqlite::Result<Option<Event>> {
    let optional = |column: usize| -> rusqlite::Result<Option<Bytes>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(bytes))
    };
    let size = |column: usize| -> rusqlite::Result<Bytes> { Ok(bytes(row.get(column)?)) };
    let mut source = Source::Proc;
    let what = match row.get::<_, i64>(2)? {
        1 => Observation::Memory(ProcessMemory {
            process: ProcessKey::new(row.get(5)?, row.get::<_, i64>(6)?.max(0).cast_unsigned()),
            memory: MemorySplit {
                anon: optional(7)?,
                file: optional(8)?,
                shmem: optional(9)?,
                swap: optional(10)?,
                peak: optional(11)?,
            },
        }),
        2 => Observation::Node(NodeMemory {
            total: size(5)?,
            available: size(6)?,
            free: size(7)?,
            shmem: size(8)?,
            swap_used: size(9)?,
        }),
        3 => {
            source = Source::Cgroup;
            let oom_kills = row
                .get::<_, Option<i64>>(7)?
                .map(|count| count.max(0).cast_unsigned());
            Observation::Cgroup(CgroupState {
                path: row.get(4)?,
                usage: size(5)?,
                limit: optional(6)?,
                oom_kills,
            })
        }
        _ => {
            let body = row.get_ref(4)?.as_str().unwrap_or("");
            let Ok(what) = serde_json::from_str(body) else {
                return Ok(None);
            };
            let name = row.get_ref(3)?.as_str().unwrap_or("recorder").to_owned();
            source =
                serde_json::from_value(serde_json::Value::String(name)).unwrap_or(Source::Recorder);
            what
        }
    };
    let id = EventId(row.get::<_, i64>(0)?.max(0).cast_unsigned());
    let time = BootTime(row.get::<_, i64>(1)?.max(0).cast_unsigned());
    Ok(Some(Event {
        id,
        time,
        source,
        what,
    }))
}
