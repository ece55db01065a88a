//! Reads the rows of all tables as one sequence, in the order of their ids.
//!
//! One `UNION ALL` would do the same, but takes several times as long, because it passes each
//! sample through all columns of all tables.

use std::{fmt, ops::ControlFlow};

use rusqlite::{
    Connection, ErrorCode, Rows, fallible_streaming_iterator::FallibleStreamingIterator as _,
};

use super::{
    frames::Frames,
    schema::{self, Table},
};
use crate::event::Event;

/// The remaining rows of a table.
struct RemainingRows<'a> {
    table: Table,
    rows: Rows<'a>,
    /// The id of the next row; `None` after the last.
    next: Option<i64>,
}

impl RemainingRows<'_> {
    fn advance(&mut self) -> rusqlite::Result<()> {
        self.rows.advance()?;
        self.next = self.rows.get().map(|row| row.get(0)).transpose()?;
        Ok(())
    }
}

/// The part of a table after the row `after`; without that row, the whole table.
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

/// Passes the event of each `wanted` row after the id `from` to `tell`, as [`schema::event`]
/// returns it, until `tell` breaks. Returns the parts of damaged tables that could not be read.
pub(super) fn for_each_row(
    connection: &Connection,
    from: i64,
    wanted: impl Fn(i64) -> bool,
    mut tell: impl FnMut(rusqlite::Result<Option<Event>>) -> rusqlite::Result<ControlFlow<()>>,
) -> rusqlite::Result<Vec<(Part, rusqlite::Error)>> {
    // The transaction shows all tables at one moment, even while they are written.
    let _moment = connection.unchecked_transaction()?;
    let mut ended_early = Vec::new();
    let mut statements = Vec::new();
    for (table, select) in schema::selects(connection)? {
        statements.push((table, connection.prepare_cached(&select)?));
    }
    let mut frames = Frames::of(connection);
    let mut tables = Vec::new();
    for (table, statement) in &mut statements {
        let mut rest = RemainingRows {
            table: *table,
            rows: statement.query([from])?,
            next: None,
        };
        let first = rest.advance();
        if readable(&rest, None, first, &mut ended_early)? {
            tables.push(rest);
        }
    }
    loop {
        let more = tables.iter_mut().filter(|rest| rest.next.is_some());
        let Some(first) = more.min_by_key(|rest| rest.next) else {
            return Ok(ended_early);
        };
        if let Some(row) = first.rows.get()
            && first.next.is_some_and(&wanted)
            && tell(schema::event(first.table, row, &mut frames))?.is_break()
        {
            return Ok(ended_early);
        }
        let (told, next) = (first.next, first.advance());
        if !readable(first, told, next, &mut ended_early)? {
            first.next = None;
        }
    }
}

/// Whether a step succeeded. If the file is damaged, reading this table ends here and the others go
/// on.
fn readable(
    rest: &RemainingRows<'_>,
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
    // A flipped bit may change a row's id.
    let by_type = matches!(
        error,
        rusqlite::Error::InvalidColumnType(..) | rusqlite::Error::FromSqlConversionFailure(..)
    );
    by_type || by_sqlite.is_some_and(|code| damaged.contains(&code))
}
