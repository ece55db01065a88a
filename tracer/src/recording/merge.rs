//! The rows of all tables as one sequence, in the order of their ids.
//!
//! One `UNION ALL` would do the same, but takes every row of the samples through all columns of all tables: several times as long.

use rusqlite::{Connection, Rows, fallible_streaming_iterator::FallibleStreamingIterator as _};

use super::schema::{self, Table};
use crate::event::Event;

/// The rows of a table from its next one on.
struct Rest<'a> {
    table: Table,
    rows: Rows<'a>,
    /// The id of the next row; `None` after the last.
    next: Option<i64>,
}

impl Rest<'_> {
    fn advance(&mut self) -> rusqlite::Result<()> {
        self.rows.advance()?;
        self.next = self.rows.get().map(|row| row.get(0)).transpose()?;
        Ok(())
    }
}

/// Tells the event of each row after the id `from`, as [`schema::event`] gives it.
pub(super) fn each(
    connection: &Connection,
    from: i64,
    mut tell: impl FnMut(rusqlite::Result<Option<Event>>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    // All tables as they are at one moment, also while they are written.
    let _moment = connection.unchecked_transaction()?;
    let mut statements = Vec::new();
    for (table, select) in schema::selects(connection)? {
        statements.push((table, connection.prepare_cached(&select)?));
    }
    let mut tables = Vec::new();
    for (table, statement) in &mut statements {
        let mut rest = Rest {
            table: *table,
            rows: statement.query([from])?,
            next: None,
        };
        rest.advance()?;
        tables.push(rest);
    }
    loop {
        let more = tables.iter_mut().filter(|rest| rest.next.is_some());
        let Some(first) = more.min_by_key(|rest| rest.next) else {
            return Ok(());
        };
        if let Some(row) = first.rows.get() {
            tell(schema::event(first.table, row))?;
        }
        first.advance()?;
    }
}
