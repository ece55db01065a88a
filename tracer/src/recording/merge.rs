//! The rows of all tables as one sequence, in the order of their ids.
//!
//! One `UNION ALL` would do the same, but takes every row of the samples through all columns of all tables: several times as long.

use std::{fmt, ops::ControlFlow};

use rusqlite::{
    CachedStatement, Connection, ErrorCode, Rows,
    fallible_streaming_iterator::FallibleStreamingIterator as _,
};

use super::{
    pages::{Next, Pages},
    schema::{self, SAMPLE, Table},
};
use crate::event::Event;

/// The rows of a table from its next one on.
struct Rest<'a, 'c> {
    table: Table,
    /// The id of the next row; `None` after the last.
    next: Option<i64>,
    /// The pages of the file, where and as long as they can be read without SQLite; and the event of the next row.
    pages: Option<Box<Samples>>,
    paged: Option<Event>,
    /// What SQLite is asked otherwise.
    statement: Option<&'a mut CachedStatement<'c>>,
    rows: Option<Rows<'a>>,
}

type Samples = Pages<{ SAMPLE.len() }>;

impl Rest<'_, '_> {
    /// Goes on to the next row, to the first one after `from` at the beginning.
    fn advance(&mut self, from: i64) -> rusqlite::Result<()> {
        match self.pages.as_mut().map(|pages| pages.next()) {
            Some(Next::End) => {
                self.next = None;
                return Ok(());
            }
            Some(Next::Row(row)) => {
                self.paged = schema::sample(&row);
                if self.paged.is_some() {
                    self.next = Some(row.id);
                    return Ok(());
                }
            }
            Some(Next::Unexpected) | None => {}
        }
        self.pages = None;
        if let Some(statement) = self.statement.take() {
            self.rows = Some(statement.query([self.next.unwrap_or(from)])?);
        }
        if let Some(rows) = &mut self.rows {
            rows.advance()?;
            self.next = rows.get().map(|row| row.get(0)).transpose()?;
        }
        Ok(())
    }

    /// The event of the next row.
    fn event(&mut self) -> rusqlite::Result<Option<Event>> {
        if self.pages.is_some() {
            return Ok(self.paged.take());
        }
        let row = self.rows.as_ref().and_then(|rows| rows.get());
        row.map_or(Ok(None), |row| schema::event(self.table, row))
    }
}

/// What follows the row `after` in a table; everything without one.
#[derive(Debug)]
pub(super) struct Part {
    table: Table,
    after: Option<i64>,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.table {
            Table::Events => "what happened (deaths, signals, logs)",
            Table::ProcessMemory => "memory of processes",
            Table::NodeMemory => "memory of the machine",
            Table::CgroupMemory => "memory of cgroups",
            Table::Mapped => "mappings",
        };
        match self.after {
            Some(id) => write!(f, "{what} after event {id}"),
            None => write!(f, "all of {what}"),
        }
    }
}

/// Tells the event of each `wanted` row after the id `from`, as [`schema::event`] gives it, until `tell` has enough; returns what of
/// damaged tables could not be read.
pub(super) fn each(
    connection: &Connection,
    from: i64,
    wanted: impl Fn(i64) -> bool,
    mut tell: impl FnMut(rusqlite::Result<Option<Event>>) -> rusqlite::Result<ControlFlow<()>>,
) -> rusqlite::Result<Vec<(Part, rusqlite::Error)>> {
    // All tables as they are at one moment, also while they are written.
    let _moment = connection.unchecked_transaction()?;
    let mut ended_early = Vec::new();
    let mut statements = Vec::new();
    for (table, select) in schema::selects(connection)? {
        statements.push((table, connection.prepare_cached(&select)?));
    }
    let mut tables = Vec::new();
    for (table, statement) in &mut statements {
        let mut rest = Rest {
            table: *table,
            next: None,
            pages: pages(connection, *table, from)?.map(Box::new),
            paged: None,
            statement: Some(statement),
            rows: None,
        };
        let first = rest.advance(from);
        if readable(&rest, None, first, &mut ended_early)? {
            tables.push(rest);
        }
    }
    loop {
        let more = tables.iter_mut().filter(|rest| rest.next.is_some());
        let Some(first) = more.min_by_key(|rest| rest.next) else {
            return Ok(ended_early);
        };
        if first.next.is_some_and(&wanted) && tell(first.event())?.is_break() {
            return Ok(ended_early);
        }
        let (told, next) = (first.next, first.advance(from));
        if !readable(first, told, next, &mut ended_early)? {
            first.next = None;
        }
    }
}

/// The pages of a table of samples; only where all of it is read.
fn pages(connection: &Connection, table: Table, from: i64) -> rusqlite::Result<Option<Samples>> {
    if table != Table::ProcessMemory || from != i64::MIN {
        return Ok(None);
    }
    Pages::open(connection, "process_memory", SAMPLE)
}

/// Whether a step went well; where the file is damaged, that table ends here and the others go on.
fn readable(
    rest: &Rest<'_, '_>,
    after: Option<i64>,
    step: rusqlite::Result<()>,
    ended_early: &mut Vec<(Part, rusqlite::Error)>,
) -> rusqlite::Result<bool> {
    let Err(error) = step else { return Ok(true) };
    if !is_damage(&error) {
        return Err(error);
    }
    let table = rest.table;
    ended_early.push((Part { table, after }, error));
    Ok(false)
}

fn is_damage(error: &rusqlite::Error) -> bool {
    let damaged = [ErrorCode::DatabaseCorrupt, ErrorCode::SystemIoFailure];
    let by_sqlite = error.sqlite_error_code();
    // A flipped bit in a row's id.
    let by_type = matches!(
        error,
        rusqlite::Error::InvalidColumnType(..) | rusqlite::Error::FromSqlConversionFailure(..)
    );
    by_type || by_sqlite.is_some_and(|code| damaged.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{MemorySplit, NodeMemory, Observation, ProcessMemory, Source},
        ids::{BootTime, Bytes, EventId, ProcessKey},
        recording::{reader, write},
    };

    /// What SQLite alone is asked for, and what is read from pages where that can be.
    const BY_SQLITE: i64 = i64::MIN + 1;
    const BY_PAGES: i64 = i64::MIN;

    fn event(id: u64) -> Event {
        let some = |bit: u64, figure: u64| (id & bit != 0).then_some(Bytes(figure));
        let memory = MemorySplit {
            anon: some(1, id << (id % 50)),
            file: some(2, 0),
            shmem: some(4, 1),
            swap: some(8, i64::MAX.unsigned_abs()),
            peak: some(16, id * 4096),
            own: some(32, 200 << 20),
        };
        let process = ProcessKey::new(1000 + u32::try_from(id % 7).unwrap_or(0), id << 30);
        let sample = ProcessMemory { process, memory };
        Event {
            id: EventId(id),
            time: BootTime(id * 1_000_003),
            source: Source::Proc,
            what: match id % 9 {
                0 => Observation::Node(NodeMemory::default()),
                _ => Observation::Memory(sample),
            },
        }
    }

    type Told = (Vec<Option<Event>>, Vec<String>);

    fn told(path: &std::path::Path, from: i64) -> Option<Told> {
        let opened = reader::connect(path, path).ok()?;
        let mut events = Vec::new();
        let ended_early = each(
            &opened.connection,
            from,
            |_| true,
            |event| {
                events.push(event.ok().flatten());
                Ok(ControlFlow::Continue(()))
            },
        );
        let ended_early = ended_early.ok()?;
        let ended_early = ended_early
            .iter()
            .map(|(part, error)| format!("{part}: {error}"));
        Some((events, ended_early.collect()))
    }

    fn uses_pages(path: &std::path::Path) -> bool {
        let opened = reader::connect(path, path).expect("a recording");
        let _moment = opened.connection.unchecked_transaction().expect("begun");
        let pages = pages(&opened.connection, Table::ProcessMemory, BY_PAGES);
        pages.expect("readable").is_some()
    }

    fn recording(folder: &std::path::Path, events: std::ops::Range<u64>) -> std::path::PathBuf {
        let path = folder.join("a.raytrace");
        let events: Vec<Event> = events.map(event).collect();
        write(&path, &events).expect("written");
        path
    }

    #[test]
    fn pages_hold_what_sqlite_reads() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = recording(folder.path(), 1..30_000);
        assert!(uses_pages(&path));
        let whole = told(&path, BY_PAGES).expect("read");
        assert_eq!(whole.0.len(), 29_999);
        assert!(whole.0.iter().all(Option::is_some) && whole.1.is_empty());
        assert!(Some(whole) == told(&path, BY_SQLITE));
        for change in [
            "DELETE FROM process_memory WHERE id % 5 != 1",
            "INSERT INTO process_memory VALUES (-5, -1, 4000000000, -7, -1, -2, -3, NULL, NULL, 5)",
            "UPDATE process_memory SET pid = 5000000000 WHERE id % 100 = 1",
            "UPDATE process_memory SET time = 'x' WHERE id % 1000 = 11",
            "UPDATE process_memory SET anon = 1.5, file = zeroblob(9000) WHERE id % 1000 = 511",
            "ALTER TABLE process_memory ADD COLUMN later INTEGER DEFAULT 7",
            "ALTER TABLE process_memory DROP COLUMN own",
            "DELETE FROM process_memory",
        ] {
            let connection = rusqlite::Connection::open(&path).expect("open");
            connection.execute_batch(change).expect(change);
            drop(connection);
            let by_pages = told(&path, BY_PAGES).expect(change);
            assert!(Some(by_pages) == told(&path, BY_SQLITE), "{change}");
        }
    }

    #[test]
    fn a_recording_with_a_log_is_left_to_sqlite() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = recording(folder.path(), 1..100);
        let writer = rusqlite::Connection::open(&path).expect("open");
        let log = "PRAGMA journal_mode=WAL; DELETE FROM process_memory WHERE id > 50";
        writer.execute_batch(log).expect("a log");
        assert!(!uses_pages(&path));
        assert_eq!(told(&path, BY_PAGES), told(&path, BY_SQLITE));
    }

    #[test]
    fn damage_is_told_as_sqlite_tells_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = recording(folder.path(), 1..4_000);
        let whole = std::fs::read(&path).expect("bytes");
        let damaged = folder.path().join("b.raytrace");
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut differing = Vec::new();
        for _ in 0..400 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Half of the changes are in the heads of pages, where the structure is.
            let at = usize::try_from(random >> 16).unwrap_or(0) % whole.len();
            let at = if random & 1 == 0 {
                at
            } else {
                at / 4096 * 4096 + at % 40
            };
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (random >> 8 & 7);
            std::fs::write(&damaged, &bytes).expect("written");
            let (by_pages, by_sqlite) = (told(&damaged, BY_PAGES), told(&damaged, BY_SQLITE));
            if by_pages != by_sqlite {
                let count = |told: &Option<Told>| {
                    told.as_ref()
                        .map(|(events, ended)| (events.len(), ended.clone()))
                };
                differing.push(format!(
                    "{at}: {:?} {:?}",
                    count(&by_pages),
                    count(&by_sqlite)
                ));
            }
        }
        assert!(differing.is_empty(), "{}: {differing:#?}", differing.len());
    }
}
