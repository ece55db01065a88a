//! Keeps the files of a recording below the size that the user gave, at every moment.
//!
//! A write makes the log (the `-wal` file) longer at once, and the recording itself when the log is
//! copied into it. A reader may keep the log from being emptied. So before each transaction both are
//! measured, and only what fits is written. The estimates of what a transaction adds are too high
//! rather than too low.

#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, Transaction};

use super::{
    error::is_busy,
    place::beside,
    row::Priority,
    schema::{Kind, NewRow},
};
use crate::event::{Event, Observation};

/// The size of a page of SQLite, and of a page in its log with what the log's index needs for it.
const PAGE: u64 = 4096;
const LOGGED_PAGE: u64 = PAGE + 24 + 8;
/// By this much the index of the log (the `-shm` file) grows at a time.
const INDEX: u64 = 32 << 10;
/// Without readers the log stays below this, or below an eighth of the whole. Twice the size at
/// which it is emptied.
const LOG: u64 = 4 << 20;
/// How long SQLite waits for a lock of another process.
const PATIENCE: Duration = Duration::from_secs(5);

/// The maximum size of a recording with its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bound(pub(super) u64);

impl Bound {
    /// Returns the part that is kept free for the log.
    pub(super) fn log(self) -> u64 {
        (self.0 / 8).min(LOG)
    }

    /// Returns the size up to which all rows are written without making room. The last parts are
    /// for rows that matter more, so that deaths are left out last.
    pub(super) fn target(self) -> u64 {
        self.0 - self.log() - 4 * self.reserve()
    }

    /// Returns how many rows may be changed in one transaction, if each is in a page of its own.
    pub(super) fn rows(self) -> usize {
        usize::try_from((self.log() / PAGE / 2).max(16)).unwrap_or(usize::MAX)
    }

    /// A 64th, but in a small recording enough for some transactions.
    fn reserve(self) -> u64 {
        (self.0 / 64).max((self.0 / 16).min(512 << 10))
    }

    /// Returns how much must be left after rows of this priority. The last of it is for the end.
    pub(super) fn left_after(self, priority: Priority) -> u64 {
        match priority {
            Priority::Sample | Priority::LogRecord => 2 * self.reserve(),
            Priority::Lifecycle => self.reserve(),
            Priority::Death | Priority::Urgent => self.reserve() / 2,
        }
    }

    /// Returns how many pages one transaction may change.
    fn piece(self) -> u64 {
        self.log() / PAGE / 4
    }

    /// Sets what SQLite itself keeps to. The estimates here are lower.
    pub(super) fn apply(self, connection: &Connection) -> rusqlite::Result<()> {
        let pages = (self.0 - self.log()) / PAGE;
        // It is emptied at half of its part, because a transaction comes on top.
        let (log, checkpoint) = (self.log(), self.log() / 2 / PAGE);
        connection.execute_batch(&format!(
            "PRAGMA max_page_count={pages}; PRAGMA journal_size_limit={log}; PRAGMA wal_autocheckpoint={checkpoint};
             PRAGMA cache_spill=OFF;"
        ))
    }
}

/// What a transaction adds at most.
#[derive(Debug, Clone, Default)]
struct Growth {
    bytes: u64,
    others: u64,
    kinds: Vec<Kind>,
}

impl Growth {
    fn with(&self, kind: Kind, bytes: u64, others: u64) -> Self {
        let mut grown = self.clone();
        grown.bytes += bytes;
        grown.others += others;
        if !grown.kinds.contains(&kind) {
            grown.kinds.push(kind);
        }
        grown
    }

    /// New pages. Rows that do not come in the order of ids leave pages half full.
    fn pages(&self) -> u64 {
        self.bytes.div_ceil(PAGE / 2) + self.kinds.len() as u64 + 4
    }

    /// New and changed pages: for each kind a page of the index, its neighbour and their parent.
    fn logged(&self) -> u64 {
        self.pages() + self.others + 3 * self.kinds.len() as u64 + 4
    }
}

/// The sizes of the files.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    file: u64,
    log: u64,
}

impl Size {
    fn of(connection: &Connection, path: &Path) -> rusqlite::Result<Self> {
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |data| data.len());
        let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        Ok(Self {
            file: length(path).max(pages.max(0).cast_unsigned() * PAGE),
            log: length(&beside(path, "-wal")) + length(&beside(path, "-shm")),
        })
    }

    /// Returns the size after a transaction of so many new and logged pages.
    fn after(self, pages: u64, logged: u64, bound: Bound) -> u64 {
        let log = self.log + logged * LOGGED_PAGE + INDEX;
        self.file + pages * PAGE + log.max(bound.log())
    }
}

/// Writes rows to a recording in transactions, each of a bounded size and only if it fits.
pub(super) struct Pieces<'a> {
    connection: &'a Connection,
    path: PathBuf,
    bound: Bound,
    size: Size,
    growth: Growth,
    transaction: Option<Transaction<'a>>,
    /// Whether the log was emptied or could not be.
    has_emptied: bool,
    /// For rows that must leave this much there is no room.
    full_from: u64,
}

impl<'a> Pieces<'a> {
    pub(super) fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// Writes a row of unknown kind if half of the whole stays free.
    pub(super) fn leaves_half(&mut self, bytes: u64) -> rusqlite::Result<bool> {
        let kind = std::mem::discriminant(&Observation::RecordingEnded);
        self.has_room(kind, (bytes, 1), self.bound.0 / 2)
    }

    pub(super) fn of(
        connection: &'a Connection,
        path: &Path,
        bound: Bound,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            size: Size::of(connection, path)?,
            path: path.to_owned(),
            connection,
            bound,
            growth: Growth::default(),
            transaction: None,
            has_emptied: false,
            full_from: u64::MAX,
        })
    }

    /// Writes a row if it fits and leaves this much.
    pub(super) fn write(&mut self, event: &Event, left: u64) -> rusqlite::Result<bool> {
        if left >= self.full_from {
            return Ok(false);
        }
        let row = NewRow::of(event);
        let fits = self.has_room(row.kind(), (row.bytes, row.others), left)?;
        if fits {
            row.insert(self.connection)?;
        }
        Ok(fits)
    }

    /// Whether a row fits and leaves this much. If so, it must be written next.
    fn has_room(
        &mut self,
        kind: Kind,
        (bytes, others): (u64, u64),
        left: u64,
    ) -> rusqlite::Result<bool> {
        let grown = self.growth.with(kind, bytes, others);
        if grown.logged() <= self.bound.piece() && self.fits(&grown, left) {
            return self.begin(grown);
        }
        // What was written is less than was feared.
        self.commit()?;
        let alone = Growth::default().with(kind, bytes, others);
        if !self.fits(&alone, left) && !self.has_emptied {
            self.has_emptied = true;
            empty_log(self.connection)?;
            self.size = Size::of(self.connection, &self.path)?;
        }
        if self.fits(&alone, left) {
            return self.begin(alone);
        }
        self.full_from = self.full_from.min(left);
        Ok(false)
    }

    fn fits(&self, growth: &Growth, left: u64) -> bool {
        self.size.after(growth.pages(), growth.logged(), self.bound) + left <= self.bound.0
    }

    fn begin(&mut self, growth: Growth) -> rusqlite::Result<bool> {
        self.growth = growth;
        if self.transaction.is_none() {
            self.transaction = Some(self.connection.unchecked_transaction()?);
        }
        Ok(true)
    }

    /// Ends the transaction. Its rows are in the recording then.
    pub(super) fn commit(&mut self) -> rusqlite::Result<()> {
        self.growth = Growth::default();
        let Some(transaction) = self.transaction.take() else {
            return Ok(());
        };
        transaction.commit()?;
        self.size = Size::of(self.connection, &self.path)?;
        Ok(())
    }
}

/// Whether a transaction that changes [`Bound::rows`] rows fits. The log is emptied for it if it
/// must.
pub(super) fn has_room_to_change(
    connection: &Connection,
    path: &Path,
    bound: Bound,
) -> rusqlite::Result<bool> {
    // A page for each row, and their neighbours in the index.
    let logged = bound.rows() as u64 / 2 * 3 + 16;
    let fits = || -> rusqlite::Result<bool> {
        Ok(Size::of(connection, path)?.after(0, logged, bound) <= bound.0)
    };
    if fits()? {
        return Ok(true);
    }
    empty_log(connection)?;
    fits()
}

/// Copies the log into the recording and empties it. Returns false if a reader still needs it.
pub(super) fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    let blocked = connection.query_row(checkpoint, [], |row| row.get::<_, i64>(0));
    connection.busy_timeout(PATIENCE)?;
    match blocked {
        Err(error) if is_busy(&error) => Ok(false),
        blocked => Ok(blocked? == 0),
    }
}
