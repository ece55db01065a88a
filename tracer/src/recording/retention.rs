//! Downsamples a long recording: older rows first, rows around deaths last.
//!
//! These rules hold for every file, also for the files of a folder that rotates. Such a folder also
//! deletes whole files.
//!
//! Beyond [`Retention::keep`], samples are a minute apart, later ten minutes and an hour. Around
//! deaths all detail stays; [`detail_spans`] says how much if there are many. If a file would
//! become too large, or the disk too full, the time of full detail is shortened first. Then the
//! detail around the oldest deaths is given up (except the first and the last), then every second
//! sample. If a death has no room even so, the oldest of all other rows go: samples first, then
//! titles and log records.
//!
//! Each row is checked once, when it has become old enough. Rows are checked in the order of ids, a
//! few at a time, so incoming events never wait for this. Processes, what they did to each other,
//! and deaths stay.

mod detail_spans;
mod rows;
mod samples;
mod short_lived;
mod stacks;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::bound::Bound;
use crate::{event::Event, ids::BootTime};
use detail_spans::DetailSpans;
use rows::Rows;
use samples::Samples;
use stacks::Stacks;

/// To fit into a size, the time of full detail is halved repeatedly, but it is never shorter than
/// this.
const SHORTEST: Duration = Duration::from_secs(600);

/// How much a recording keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How long samples stay in full detail.
    pub keep: Duration,
    /// The maximum size of the file.
    pub max_bytes: u64,
}

/// The file system of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Space {
    /// The free bytes.
    pub free: u64,
    /// All bytes.
    pub total: u64,
}

impl Space {
    /// This much stays free, or a twentieth of the file system if that is less. The job's
    /// checkpoints need it more.
    const FLOOR: u64 = 2 << 30;

    fn floor(self) -> u64 {
        Self::FLOOR.min(self.total / 20)
    }

    /// Whether less than half of that is free.
    pub(super) fn is_short(self) -> bool {
        self.free < self.floor() / 2
    }
}

/// The defaults of `record`.
impl Default for Retention {
    fn default() -> Self {
        Self {
            keep: Duration::from_secs(6 * 3600),
            max_bytes: 2 << 30,
        }
    }
}

impl Retention {
    pub(super) fn bound(&self) -> Bound {
        Bound(self.max_bytes)
    }

    /// Whether a file of this size must be made smaller.
    pub(super) fn is_over(&self, size: u64) -> bool {
        size > self.most(size, None)
    }

    /// Returns the size that a file of `size` bytes may reach, with `space` on its file system.
    fn most(&self, size: u64, space: Option<Space>) -> u64 {
        let by_space = space.map_or(u64::MAX, |space| {
            (size.saturating_add(space.free)).saturating_sub(space.floor())
        });
        self.bound().target().min(by_space)
    }
}

/// The next step of a pass.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// Downsamples this table of samples; the stacks and the other rows follow.
    Samples(usize),
    Stacks,
    Rows,
    /// Deletes every second sample of this table.
    Halve(usize),
    GiveBack,
}

/// A pass over the rows that have become old.
#[derive(Debug)]
struct Pass {
    now: BootTime,
    keep: Duration,
    space: Option<Space>,
    next: Next,
    /// The size before samples were last halved.
    before: Option<u64>,
}

/// Keeps a recording within its bounds.
pub(super) struct Downsampling {
    retention: Retention,
    detail_spans: DetailSpans,
    samples: Vec<Samples>,
    stacks: Stacks,
    rows: Rows,
    pass: Option<Pass>,
    /// The time of full detail that the last pass ended with.
    keep: Duration,
    too_large: bool,
    /// Whether deaths wait for room.
    deaths_wait: bool,
}

impl Downsampling {
    pub(super) fn new(retention: Retention) -> Self {
        Self {
            retention,
            detail_spans: DetailSpans::default(),
            samples: Samples::all(),
            stacks: Stacks::default(),
            rows: Rows::default(),
            pass: None,
            keep: retention.keep,
            too_large: false,
            deaths_wait: false,
        }
    }

    /// Says whether deaths wait for room. What explains deaths is given up before them.
    pub(super) fn set_deaths_wait(&mut self, deaths_wait: bool) {
        self.deaths_wait = deaths_wait;
    }

    pub(super) fn deaths_wait(&self) -> bool {
        self.deaths_wait
    }

    /// Notes an event that was written: around some ends everything stays.
    pub(super) fn note(&mut self, written: &Event) {
        self.detail_spans.note(written);
    }

    /// Begins a pass over the rows that have become old by `now`.
    pub(super) fn begin(&mut self, now: BootTime, space: Option<Space>) {
        self.pass.get_or_insert(Pass {
            now,
            keep: self.keep.min(self.retention.keep),
            space,
            next: Next::Samples(0),
            before: None,
        });
    }

    /// Whether a pass is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.pass.is_some()
    }

    /// Whether the file is too large and nothing more can be given up.
    pub(super) fn is_too_large(&self) -> bool {
        self.too_large
    }

    /// Continues the pass for about this time, while there is room for a step. Returns false if
    /// there is none. What fails is tried again by the next pass.
    pub(super) fn work(
        &mut self,
        connection: &Connection,
        at_most: Duration,
        has_room: impl Fn() -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<bool> {
        let began = Instant::now();
        while self.is_busy() {
            if !has_room()? {
                return Ok(false);
            }
            let Some(mut pass) = self.pass.take() else {
                break;
            };
            if self.step(connection, &mut pass)? {
                self.pass = Some(pass);
            }
            if began.elapsed() >= at_most {
                break;
            }
        }
        Ok(true)
    }

    /// Does one step. Returns whether there is another.
    fn step(&mut self, connection: &Connection, pass: &mut Pass) -> rusqlite::Result<bool> {
        let until = before(pass.now, pass.keep);
        let (detail_spans, next) = (&self.detail_spans, pass.next);
        let most = self.retention.bound().rows();
        let transaction = connection.unchecked_transaction()?;
        let done = match next {
            Next::Samples(table) => match self.samples.get_mut(table) {
                Some(samples) => {
                    let until = before(pass.now, pass.keep.saturating_mul(samples.times()));
                    samples.downsample((&transaction, most), until, detail_spans)?
                }
                None => true,
            },
            Next::Stacks => self
                .stacks
                .downsample((&transaction, most), until, detail_spans)?,
            Next::Rows => self
                .rows
                .downsample((&transaction, most), until, detail_spans)?,
            Next::Halve(table) => match self.samples.get_mut(table) {
                Some(samples) => {
                    let until = before(pass.now, SHORTEST);
                    samples.halve((&transaction, most), until, detail_spans)?
                }
                None => true,
            },
            Next::GiveBack => true,
        };
        transaction.commit()?;
        if !done {
            return Ok(true);
        }
        pass.next = match next {
            Next::Samples(table) if table + 1 < self.samples.len() => Next::Samples(table + 1),
            Next::Samples(_) => Next::Stacks,
            Next::Stacks => Next::Rows,
            Next::Halve(table) if table + 1 < self.samples.len() => Next::Halve(table + 1),
            Next::Rows | Next::Halve(_) => Next::GiveBack,
            Next::GiveBack if give_back(connection, most)? => Next::GiveBack,
            Next::GiveBack => match self.next_reduction(connection, pass)? {
                Some(next) => next,
                None => return Ok(false),
            },
        };
        Ok(true)
    }

    /// Returns what to give up next, if the file is too large.
    fn next_reduction(
        &mut self,
        connection: &Connection,
        pass: &mut Pass,
    ) -> rusqlite::Result<Option<Next>> {
        let size = size(connection)?;
        let most = self.retention.most(size, pass.space);
        let Some(excess) = size.checked_sub(most).filter(|excess| *excess > 0) else {
            self.too_large = false;
            // If there is room again, full detail is kept for longer again.
            let ample = size < most / 2;
            self.keep = if ample {
                self.retention.keep
            } else {
                pass.keep
            };
            return Ok(None);
        };
        if pass.keep > SHORTEST {
            pass.keep = (pass.keep / 2).max(SHORTEST);
            return Ok(Some(Next::Samples(0)));
        }
        self.keep = pass.keep;
        if self.detail_spans.give_up() {
            self.samples.iter_mut().for_each(Samples::downsample_anew);
            self.stacks.downsample_anew();
            self.rows.downsample_anew();
            return Ok(Some(Next::Samples(0)));
        }
        // All further halvings together free about as much as the last one did.
        let freed = pass.before.map(|before| before.saturating_sub(size));
        self.too_large |= freed.is_some_and(|freed| excess > freed);
        if self.too_large {
            let most = self.retention.bound().rows();
            let dropped = self.deaths_wait && rows::drop_oldest(connection, most)?;
            return Ok(dropped.then_some(Next::GiveBack));
        }
        pass.before = Some(size);
        for samples in &mut self.samples {
            samples.halve_anew();
        }
        Ok(Some(Next::Halve(0)))
    }
}

/// Returns the time that is `time` before `now`.
fn before(now: BootTime, time: Duration) -> i64 {
    let time = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    now.0.cast_signed().saturating_sub(time)
}

/// Returns some free pages to the file system. Returns whether there are more. A page that moves
/// changes another one, which points to it.
fn give_back(connection: &Connection, most: usize) -> rusqlite::Result<bool> {
    let free = || connection.query_row("PRAGMA freelist_count", [], |row| row.get::<_, i64>(0));
    let before = free()?;
    let pages = (most / 2).clamp(1, 256);
    let mut statement =
        connection.prepare_cached(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = statement.query([])?;
    // Each step returns one page.
    while rows.next()?.is_some() {}
    let after = free()?;
    Ok(after > 0 && after < before)
}

fn size(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name: &str| {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
    };
    Ok((number("page_count")? * number("page_size")?)
        .max(0)
        .cast_unsigned())
}

/// Deletes rows of a table by their ids.
fn delete(connection: &Connection, table: &str, ids: &[i64]) -> rusqlite::Result<()> {
    let mut delete = connection.prepare_cached(&format!("DELETE FROM {table} WHERE id = ?1"))?;
    for id in ids {
        delete.execute([id])?;
    }
    Ok(())
}
