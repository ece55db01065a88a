//! Finds what is still true at a moment: live processes, and what is known of them and of the node.
//!
//! The next file of a recorder begins with a copy of it. These rows keep the ids that they have in
//! the file before. The table `carried` lists them, so that a reader of several files of one
//! recorder can leave them out. A reader that begins late in a file reads it first.

use rusqlite::{Connection, params_from_iter, types::Value};

use super::{bound::Pieces, row};
use crate::{
    event::{Observation, Part, RecordingStarted},
    ids::{BootTime, MINUTE_NS, WallTime},
};

/// How long log records are carried over. A record may come before a death and explain it.
const LOG_RECORDS_NS: i64 = MINUTE_NS;
/// Samples older than this are not carried over. One is written at least every ten minutes, for
/// cgroups every minute, so an item without a newer sample no longer exists.
const SAMPLES_NS: i64 = 25 * MINUTE_NS;
/// The most records of logs that are carried over because they stay true (a worker's job, a job's
/// driver).
const LASTING: usize = 5_000;
/// How many of the first and of the last records of logs a reader looks at for them.
const LOOKED_AT: usize = 20_000;

/// The last exit of each pid in these events, as a common table expression.
fn ended(events: &str) -> String {
    format!(
        "WITH ended AS (SELECT pid, max(id) AS id FROM {events} WHERE kind = 'exit' GROUP BY pid)"
    )
}

/// Copies what is still true at `now` from the file `old` to the empty file `new`, which becomes
/// `part`.
pub(super) fn carry_over(
    old: &Connection,
    mut new: Pieces<'_>,
    part: &Part,
    now: (BootTime, WallTime),
) -> rusqlite::Result<()> {
    let boot = now.0.0.cast_signed();
    let table = "CREATE TABLE carried (id INTEGER PRIMARY KEY)";
    new.connection().execute_batch(table)?;
    started(old, new.connection(), part, now)?;
    let lately = format!(
        "SELECT * FROM events WHERE kind IN ('ray_log', 'kmsg') AND time > {}",
        boot.saturating_sub(LOG_RECORDS_NS)
    );
    for select in (of_processes("events").iter())
        .chain(&of_the_node("events"))
        .chain([&lasting_logs("events"), &lately])
    {
        copy(old, &mut new, "events", select)?;
    }
    for (table, select) in samples(boot) {
        copy(old, &mut new, table, &select)?;
    }
    new.commit()
}

/// Writes the recording's first event, as that of this part.
fn started(
    old: &Connection,
    new: &Connection,
    part: &Part,
    (boot, wall): (BootTime, WallTime),
) -> rusqlite::Result<()> {
    let select = "SELECT id, source, body FROM events WHERE kind = 'recording_started' LIMIT 1";
    let (id, source, body): (i64, String, String) = old.query_row(select, [], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    let Some(Observation::RecordingStarted(before)) = row::read(&body) else {
        return Err(rusqlite::Error::QueryReturnedNoRows);
    };
    let part = Part {
        began: before.part.as_ref().map_or(before.wall, |part| part.began),
        ..part.clone()
    };
    let started = Observation::RecordingStarted(RecordingStarted {
        wall,
        part: Some(part),
        ..before
    });
    let body = row::body(&started).to_string();
    let row = rusqlite::params![id, boot.0.cast_signed(), source, body];
    new.execute(
        "INSERT INTO events VALUES (?1, ?2, ?3, 'recording_started', NULL, ?4)",
        row,
    )?;
    new.execute("INSERT INTO carried VALUES (?1)", [id])?;
    Ok(())
}

/// Returns a SELECT of the ids of what is still true after the event `last`: what the recording
/// says of itself, of live processes and of the node. Samples are not among them.
pub(super) fn true_after(last: i64) -> String {
    let until = |kinds: &str| format!("(SELECT * FROM events WHERE id <= {last}{kinds})");
    let all = until("");
    // There may be millions of lines. The first ones are about the start of Ray.
    let log = |order: &str| {
        let logs = until(" AND kind = 'ray_log'");
        format!("SELECT id FROM (SELECT id FROM {logs} ORDER BY id {order} LIMIT {LOOKED_AT})")
    };
    let logs = format!(
        "(SELECT * FROM events WHERE id IN ({} UNION {}))",
        log("ASC"),
        log("DESC")
    );
    let own = |kind: &str| format!("SELECT max(id) FROM {all} WHERE kind = '{kind}'");
    let of_recorder = ["recording_started", "recording_ended", "clock"].map(own);
    let of_events = of_processes(&all).into_iter().chain(of_the_node(&all));
    let selects = of_events.chain([lasting_logs(&logs)]);
    let ids = selects.map(|select| format!("SELECT id FROM ({select})"));
    let all = of_recorder.into_iter().chain(ids);
    all.collect::<Vec<_>>().join(" UNION ")
}

/// Selects, for each process without an exit in these events: what it is, what was done to it, its
/// last title and call.
fn of_processes(events: &str) -> [String; 2] {
    let ended = ended(events);
    let alive = "LEFT JOIN ended ON ended.pid = one.pid
         WHERE one.pid IS NOT NULL AND (ended.id IS NULL OR one.id > ended.id)";
    [
        format!(
            "{ended} SELECT one.* FROM {events} AS one {alive} AND kind IN ('process', 'worker', 'fork', 'exec', 'cluster',
             'signal', 'oom_victim', 'delivered', 'driver_settings', 'no_stack')"
        ),
        format!(
            "{ended} SELECT one.* FROM {events} AS one {alive} AND one.id IN
             (SELECT max(id) FROM {events} WHERE kind IN ('title', 'call', 'outside') GROUP BY kind, pid)"
        ),
    ]
}

/// Selects what is true of the node: its probes, shared memory, GPUs, and the last warning of each
/// limit.
fn of_the_node(events: &str) -> [String; 3] {
    let last = |kinds: &str, keys: &str| {
        format!(
            "SELECT * FROM {events} WHERE id IN (SELECT max(id) FROM {events} WHERE kind IN ({kinds}) GROUP BY kind, {keys})"
        )
    };
    [
        last("'probe'", "json_extract(body, '$.name')"),
        last(
            "'shared_memory', 'shared_file', 'gpu'",
            "json_extract(body, '$.cluster'), json_extract(body, '$.device'), json_extract(body, '$.inode')",
        ),
        last("'limit_warning'", "json_extract(body, '$.limit')"),
    ]
}

/// Selects what logs said about lasting things.
fn lasting_logs(events: &str) -> String {
    format!(
        "SELECT * FROM {events} WHERE kind = 'ray_log' AND json_extract(body, '$.fact.says') IN
         ('monitor_started', 'monitor_disabled', 'marker', 'configuration', 'job_started', 'gcs')
         ORDER BY id DESC LIMIT {LASTING}"
    )
}

/// Selects the last sample of each live process, of each cgroup and of the machine.
fn samples(boot: i64) -> [(&'static str, String); 3] {
    let since = boot.saturating_sub(SAMPLES_NS);
    let ended = ended("events");
    [
        (
            "process_memory",
            format!(
                "{ended} SELECT process_memory.* FROM process_memory LEFT JOIN ended ON ended.pid = process_memory.pid
                 WHERE (ended.id IS NULL OR process_memory.id > ended.id) AND process_memory.id IN
                 (SELECT max(id) FROM process_memory WHERE time > {since} GROUP BY pid, start)"
            ),
        ),
        (
            "node_memory",
            "SELECT * FROM node_memory ORDER BY id DESC LIMIT 1".to_owned(),
        ),
        (
            "cgroup_memory",
            format!(
                "SELECT * FROM cgroup_memory WHERE id IN
                 (SELECT max(id) FROM cgroup_memory WHERE time > {since} GROUP BY path)"
            ),
        ),
    ]
}

/// Copies the rows of `select` into the same table of the new file, and lists them as carried. Rows
/// for which there is no room are left out.
fn copy(
    old: &Connection,
    pieces: &mut Pieces<'_>,
    table: &str,
    select: &str,
) -> rusqlite::Result<()> {
    let new = pieces.connection();
    let mut read = old.prepare(select)?;
    let columns = read.column_count();
    let places = vec!["?"; columns].join(", ");
    let mut write = new.prepare(&format!("INSERT OR IGNORE INTO {table} VALUES ({places})"))?;
    let mut list = new.prepare_cached("INSERT OR IGNORE INTO carried VALUES (?1)")?;
    let mut rows = read.query([])?;
    while let Some(row) = rows.next()? {
        let values: Vec<Value> = (0..columns)
            .map(|column| row.get(column))
            .collect::<Result<_, _>>()?;
        let bytes = |value: &Value| match value {
            Value::Text(text) => text.len() as u64,
            _ => 8,
        };
        if !pieces.leaves_half(100 + values.iter().map(bytes).sum::<u64>())? {
            break;
        }
        list.execute([&values[0]])?;
        write.execute(params_from_iter(values))?;
    }
    Ok(())
}
