//! Defines the tables, and converts an event to a row and back.
//!
//! Every event is a row of `events`, with the observation as JSON. Only memory samples, which are
//! most of all rows, have tables of plain integers. All tables share one sequence of ids.

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};
use serde_json::Value;

use super::{frames, frames::Frames, row};
use crate::{
    event::{
        CgroupState, Event, Figures, Mapped, MemorySplit, NodeMemory, Observation, ProcessMemory,
        Source,
    },
    ids::{BootTime, Bytes, EventId, Pid, ProcessKey},
};

/// `PRAGMA application_id` of a recording: `RayT`.
pub(super) const APPLICATION_ID: i64 = 0x5261_7954;
/// `PRAGMA user_version`: the format.
pub(super) const VERSION: i64 = 2;

const TABLES: &str = "
CREATE TABLE events (id INTEGER PRIMARY KEY, time INTEGER NOT NULL, source TEXT NOT NULL, kind TEXT NOT NULL, pid INTEGER, body TEXT NOT NULL);
CREATE INDEX events_kind ON events (kind);
CREATE TABLE mapped (id INTEGER PRIMARY KEY, time INTEGER NOT NULL, pid INTEGER NOT NULL, start INTEGER NOT NULL, tid INTEGER NOT NULL,
  bytes INTEGER NOT NULL, all_bytes INTEGER NOT NULL, calls INTEGER NOT NULL);
";

/// Makes the tables in an empty file.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={VERSION};
         PRAGMA journal_mode=WAL;{TABLES}{}{}{}{}",
        table_of::<MemorySplit>("process_memory", "pid INTEGER NOT NULL, start INTEGER NOT NULL, "),
        table_of::<NodeMemory>("node_memory", ""),
        table_of::<CgroupState>("cgroup_memory", "path TEXT NOT NULL, "),
        frames::TABLE
    ))?;
    settings(connection)
}

/// Returns the statement that makes the table of a kind of sample. `keys` says whose it is.
fn table_of<T: Figures>(name: &str, keys: &str) -> String {
    let columns = T::COLUMNS.iter().map(|(column, required)| {
        let required = if *required { " NOT NULL" } else { "" };
        format!("{column} INTEGER{required}")
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!(
        "CREATE TABLE {name} (id INTEGER PRIMARY KEY, time INTEGER NOT NULL, {keys}{columns});\n"
    )
}

/// Sets what belongs to a writing connection, not to the file.
pub(super) fn settings(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-2048;",
    )
}

/// The kind of a row. Each has a place of its own in the index, or a table of its own.
pub(super) type Kind = std::mem::Discriminant<Observation>;

fn integer(figure: u64) -> i64 {
    i64::try_from(figure).unwrap_or(i64::MAX)
}

fn bytes(value: i64) -> Bytes {
    Bytes(value.max(0).cast_unsigned())
}

/// Writes one event. One that is there already, because writing a batch failed in its middle, stays.
pub(super) fn insert(connection: &Connection, event: &Event) -> rusqlite::Result<()> {
    NewRow::of(event).insert(connection)
}

/// A row before it is written.
pub(super) struct NewRow<'a> {
    event: &'a Event,
    /// The body, if it is a row of `events`.
    body: Option<Value>,
    /// About how many bytes it adds, and how many rows of other tables.
    pub bytes: u64,
    pub others: u64,
}

impl<'a> NewRow<'a> {
    /// Numbers, and its entry in the index.
    const FIXED: u64 = 150;

    pub(super) fn of(event: &'a Event) -> Self {
        let what = &event.what;
        let body = match what {
            Observation::Memory(_)
            | Observation::Node(_)
            | Observation::Cgroup(_)
            | Observation::Mapped(_) => None,
            what => Some(row::body(what)),
        };
        let text = body.as_ref().map_or(0, |body| body.to_string().len());
        let (text, others) = match what {
            Observation::Cgroup(state) => (state.path.len(), 0),
            // Each new frame is in a table and its index too.
            Observation::Stack(stack) => (3 * text, stack.frames.len() + stack.native.len()),
            _ => (text, 0),
        };
        Self {
            event,
            body,
            bytes: Self::FIXED + text as u64,
            others: others as u64,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        std::mem::discriminant(&self.event.what)
    }

    pub(super) fn insert(self, connection: &Connection) -> rusqlite::Result<()> {
        insert_row(connection, self.event, self.body.unwrap_or_default())
    }
}

fn insert_row(connection: &Connection, event: &Event, body: Value) -> rusqlite::Result<()> {
    let id = event.id.0.cast_signed();
    let time = event.time.0.cast_signed();
    match &event.what {
        Observation::Memory(sample) => {
            let ProcessKey { pid, start } = sample.process;
            let keys = params![id, time, pid.0, start.0.cast_signed()];
            insert_sample(connection, "process_memory", keys, &sample.memory)?;
        }
        Observation::Node(node) => {
            insert_sample(connection, "node_memory", params![id, time], node)?;
        }
        Observation::Cgroup(state) => {
            let keys = params![id, time, state.path];
            insert_sample(connection, "cgroup_memory", keys, state)?;
        }
        Observation::Mapped(mapped) => {
            connection
                .prepare_cached("INSERT OR IGNORE INTO mapped VALUES (?,?,?,?,?,?,?,?)")?
                .execute(params![
                    id,
                    time,
                    mapped.process.pid.0,
                    mapped.process.start.0.cast_signed(),
                    mapped.tid.0,
                    integer(mapped.bytes.0),
                    integer(mapped.all_bytes.0),
                    mapped.calls
                ])?;
        }
        _ => insert_event(connection, event, body)?,
    }
    Ok(())
}

/// Writes a row of the table `events`.
fn insert_event(connection: &Connection, event: &Event, mut body: Value) -> rusqlite::Result<()> {
    if matches!(event.what, Observation::Stack(_)) {
        frames::shorten(connection, &mut body)?;
    }
    let kind = body
        .get("kind")
        .and_then(serde_json::Value::as_str)
        .unwrap_or("unknown")
        .to_owned();
    connection
        .prepare_cached("INSERT OR IGNORE INTO events VALUES (?,?,?,?,?,?)")?
        .execute(params![
            event.id.0.cast_signed(),
            event.time.0.cast_signed(),
            row::source_name(event.source),
            kind,
            event.what.subject().map(|process| process.pid.0),
            body.to_string()
        ])?;
    Ok(())
}

fn columns_of<T: Figures>(_: &T) -> &'static [(&'static str, bool)] {
    T::COLUMNS
}

/// Writes a sample of memory: its keys, then its figures.
fn insert_sample(
    connection: &Connection,
    table: &str,
    keys: &[&dyn ToSql],
    sample: &impl Figures,
) -> rusqlite::Result<()> {
    let places = vec!["?"; keys.len() + columns_of(sample).len()].join(",");
    let insert = format!("INSERT OR IGNORE INTO {table} VALUES ({places})");
    let mut insert = connection.prepare_cached(&insert)?;
    let mut place = 0;
    let mut next = || {
        place += 1;
        place
    };
    for key in keys {
        insert.raw_bind_parameter(next(), key)?;
    }
    sample.each(|_, figure| insert.raw_bind_parameter(next(), figure.map(integer)))?;
    insert.raw_execute().map(|_| ())
}

/// Returns the highest id of all tables; 0 in an empty file.
pub(super) fn last_id(connection: &Connection) -> rusqlite::Result<u64> {
    let mut last = 0;
    for (_, name, ..) in READ {
        let select = format!("SELECT max(id) FROM {name}");
        let of_table: Option<i64> = connection.query_row(&select, [], |row| row.get(0))?;
        last = last.max(of_table.unwrap_or(0));
    }
    Ok(last.max(0).cast_unsigned())
}

/// Returns the latest boot time among the last rows of all tables; 0 in an empty file.
pub(super) fn last_time(connection: &Connection) -> rusqlite::Result<i64> {
    let mut last = 0;
    for (_, name, ..) in READ {
        let select = format!("SELECT time FROM {name} ORDER BY id DESC LIMIT 1");
        let of_table = connection.query_row(&select, [], |row| row.get::<_, i64>(0));
        last = last.max(of_table.optional()?.unwrap_or(0));
    }
    Ok(last)
}

/// A table of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Events,
    ProcessMemory,
    NodeMemory,
    CgroupMemory,
    Mapped,
}

/// The columns of figures of a table.
type Figured = &'static [(&'static str, bool)];

/// Each table with its name, its columns after id and time, and its figures. Earlier recordings
/// have fewer of these.
const READ: [(Table, &str, &str, Figured); 5] = [
    (Table::Events, "events", ", source, body, kind", &[]),
    (
        Table::ProcessMemory,
        "process_memory",
        ", pid, start",
        MemorySplit::COLUMNS,
    ),
    (Table::NodeMemory, "node_memory", "", NodeMemory::COLUMNS),
    (
        Table::CgroupMemory,
        "cgroup_memory",
        ", path",
        CgroupState::COLUMNS,
    ),
    (
        Table::Mapped,
        "mapped",
        ", pid, start, tid, bytes, all_bytes, calls",
        &[],
    ),
];

/// Returns, for each table, a SELECT of the rows after the id ?1, in the order of ids. A column
/// that the file does not have is NULL.
pub(super) fn selects(connection: &Connection) -> rusqlite::Result<Vec<(Table, String)>> {
    let mut selects = Vec::new();
    if connection.table_exists(None, "frames")? {
        refuse_code(connection, "frames")?;
    }
    for (table, name, columns, figures) in READ {
        let mut known = connection.prepare(&format!("PRAGMA table_info({name})"))?;
        let known = known.query_map([], |row| row.get::<_, String>(1))?;
        let known: Vec<String> = known.collect::<Result<_, _>>()?;
        // The first recordings did not have this table either.
        if table == Table::Mapped && known.is_empty() {
            continue;
        }
        if !known.is_empty() {
            refuse_code(connection, name)?;
        }
        let mut select = format!("SELECT id, time{columns}");
        for (column, _) in figures {
            let there = known.iter().any(|known| known == *column);
            select += if there { ", " } else { ", NULL AS " };
            select += column;
        }
        selects.push((
            table,
            format!("{select} FROM {name} WHERE id > ?1 ORDER BY id"),
        ));
    }
    Ok(selects)
}

/// Returns the boot time of the last sample of the machine up to this event, which is written at
/// least each minute.
pub(super) fn time_of(connection: &Connection, id: i64) -> rusqlite::Result<Option<i64>> {
    let select = "SELECT time FROM node_memory WHERE id <= ?1 ORDER BY id DESC LIMIT 1";
    let time = connection.query_row(select, [id], |row| row.get(0));
    time.optional()
}

/// Returns the last sample of the machine before this boot time. Its time is the recorder's; that of
/// an event may be what a line of a log claims, and then says nothing of the rows around it.
pub(super) fn last_before(connection: &Connection, time: i64) -> rusqlite::Result<Option<i64>> {
    let select = "SELECT id FROM node_memory WHERE time < ?1 ORDER BY id DESC LIMIT 1";
    let id = connection.query_row(select, [time], |row| row.get(0));
    id.optional()
}

/// Returns the events with these ids, in their order. `ids` is a SELECT.
pub(super) fn events_with(connection: &Connection, ids: &str) -> rusqlite::Result<Vec<Event>> {
    refuse_code(connection, "events")?;
    let (table, name, columns, _) = READ[0];
    let mut frames = Frames::of(connection);
    let select = format!("SELECT id, time{columns} FROM {name} WHERE id IN ({ids}) ORDER BY id");
    let mut select = connection.prepare(&select)?;
    let mut rows = select.query([])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        // An event of a kind that only a newer raytrace knows is left out.
        events.extend(event(table, row, &mut frames)?);
    }
    Ok(events)
}

/// Refuses a table that is not plain. A view, a virtual table or a computed column would run code
/// of whoever made the file.
fn refuse_code(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    let plain = "SELECT count(*) FROM sqlite_schema WHERE name = ?1 AND type = 'table'
        AND sql LIKE 'CREATE TABLE %' AND sql NOT LIKE '% AS (%'";
    let plain: i64 = connection.query_row(plain, [name], |row| row.get(0))?;
    if plain == 1 {
        return Ok(());
    }
    let error = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_SCHEMA);
    let words = format!("{name} is no plain table");
    Err(rusqlite::Error::SqliteFailure(error, Some(words)))
}

/// Returns the event of a row of one of [`selects`]; `None` if this version cannot read it.
pub(super) fn event(
    table: Table,
    row: &Row<'_>,
    frames: &mut Frames<'_>,
) -> rusqlite::Result<Option<Event>> {
    let size =
        |column: usize| -> rusqlite::Result<Bytes> { Ok(bytes(row.get_ref(column)?.as_i64()?)) };
    let process = || -> rusqlite::Result<ProcessKey> {
        let start = row.get::<_, i64>(3)?.max(0).cast_unsigned();
        Ok(ProcessKey::new(row.get(2)?, start))
    };
    let mut source = Source::Proc;
    let what = match table {
        Table::ProcessMemory => Observation::Memory(ProcessMemory {
            process: process()?,
            memory: sample(row, 4)?,
        }),
        Table::NodeMemory => Observation::Node(sample(row, 2)?),
        Table::CgroupMemory => {
            source = Source::Cgroup;
            Observation::Cgroup(CgroupState {
                path: row.get(2)?,
                ..sample(row, 3)?
            })
        }
        Table::Mapped => {
            source = Source::Kernel;
            Observation::Mapped(Mapped {
                process: process()?,
                tid: Pid(row.get(4)?),
                bytes: size(5)?,
                all_bytes: size(6)?,
                calls: row.get(7)?,
            })
        }
        Table::Events => {
            let body = row.get_ref(3)?.as_str().unwrap_or("");
            let kind = row.get_ref(4)?.as_str().unwrap_or("");
            let body = match kind {
                "stack" => frames.expand(body)?,
                _ => body.into(),
            };
            let Some(what) = row::read_as(kind, &body) else {
                return Ok(None);
            };
            source = row::source(row.get_ref(2)?.as_str().unwrap_or("recorder"));
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

/// Returns the sample of a row whose figures begin at a column.
fn sample<T: Figures>(row: &Row<'_>, first: usize) -> rusqlite::Result<T> {
    let mut columns = first..;
    T::read(|| {
        let column = columns.next().unwrap_or_default();
        let figure = row.get_ref(column)?.as_i64_or_null()?;
        Ok(figure.map(|figure| figure.max(0).cast_unsigned()))
    })
}
