//! Copies what the next file of a recorder begins with: live processes, and what is known of them.
//!
//! These rows keep the ids that they have in the file before. The table `carried` lists them, so
//! that a reader of several files of one recorder can leave them out.

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

/// The last exit of each pid, as a common table expression.
const ENDED: &str =
    "WITH ended AS (SELECT pid, max(id) AS id FROM events WHERE kind = 'exit' GROUP BY pid)";

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
    for select in of_processes() {
        copy(old, &mut new, "events", &select)?;
    }
    for select in of_the_node(boot) {
        copy(old, &mut new, "events", &select)?;
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

/// Selects, for each process without an exit: what it is, what was done to it, its last title and
/// call.
fn of_processes() -> [String; 2] {
    let alive = "LEFT JOIN ended ON ended.pid = events.pid
         WHERE events.pid IS NOT NULL AND (ended.id IS NULL OR events.id > ended.id)";
    [
        format!(
            "{ENDED} SELECT events.* FROM events {alive} AND kind IN ('process', 'worker', 'fork', 'exec', 'cluster',
             'signal', 'oom_victim', 'delivered', 'driver_settings', 'no_stack')"
        ),
        format!(
            "{ENDED} SELECT events.* FROM events {alive} AND events.id IN
             (SELECT max(id) FROM events WHERE kind IN ('title', 'call', 'outside') GROUP BY kind, pid)"
        ),
    ]
}

/// Selects what is true of the node: its probes, shared memory, GPUs, the last warning of each
/// limit, and what logs said recently or about lasting things.
fn of_the_node(boot: i64) -> [String; 5] {
    let last = |kinds: &str, keys: &str| {
        format!(
            "SELECT * FROM events WHERE id IN (SELECT max(id) FROM events WHERE kind IN ({kinds}) GROUP BY kind, {keys})"
        )
    };
    [
        last("'probe'", "json_extract(body, '$.name')"),
        last(
            "'shared_memory', 'shared_file', 'gpu'",
            "json_extract(body, '$.cluster'), json_extract(body, '$.device'), json_extract(body, '$.inode')",
        ),
        last("'limit_warning'", "json_extract(body, '$.limit')"),
        format!(
            "SELECT * FROM events WHERE kind = 'ray_log' AND json_extract(body, '$.fact.says') IN
             ('monitor_started', 'monitor_disabled', 'marker', 'configuration', 'job_started', 'gcs')
             ORDER BY id DESC LIMIT {LASTING}"
        ),
        format!(
            "SELECT * FROM events WHERE kind IN ('ray_log', 'kmsg') AND time > {}",
            boot.saturating_sub(LOG_RECORDS_NS)
        ),
    ]
}

/// Selects the last sample of each live process, of each cgroup and of the machine.
fn samples(boot: i64) -> [(&'static str, String); 3] {
    let since = boot.saturating_sub(SAMPLES_NS);
    [
        (
            "process_memory",
            format!(
                "{ENDED} SELECT process_memory.* FROM process_memory LEFT JOIN ended ON ended.pid = process_memory.pid
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
