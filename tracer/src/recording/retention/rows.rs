//! Downsamples the other frequent rows of the table `events`.
//!
//! These are calls, short-lived processes, log records, the recorder's ledger and clock, and
//! samples without a table of their own.

use std::collections::{HashMap, VecDeque};

use rusqlite::{Connection, params};

use super::{delete, detail_spans::DetailSpans, short_lived::ShortLived};
use crate::{
    event::{Observation, RayLog},
    ids::{MINUTE_NS, Pid, ProcessKey},
    ray::facts::RayFact,
    recording::row,
};

/// The most rows read in one step.
const ROWS: usize = 1000;
/// How many of the last calls of each process stay. The first call stays too. They show what a call
/// adds.
const CALLS: usize = 64;
/// The most processes with calls, and items with samples, that are followed. If there are more, the
/// rows of those so far stay.
const MOST: usize = 4096;
/// The kinds of rows that may be deleted.
const HIGH_VOLUME_KINDS: [&str; 12] = [
    "call",
    "fork",
    "exec",
    "exit",
    "gpu",
    "monitor",
    "shared_file",
    "outside",
    "ledger",
    "clock",
    "shared_memory",
    "ray_log",
];
/// The rows that are given up for deaths which have no room otherwise, in this order.
const BEFORE_DEATHS: [&str; 6] = [
    "mapped",
    "events WHERE kind IN ('call', 'stack', 'freed', 'gpu', 'monitor', 'shared_file', 'outside', 'shared_memory')",
    "process_memory",
    "cgroup_memory",
    "node_memory",
    "events WHERE kind IN ('title', 'ray_log')",
];
/// One row in each hour stays of the ledger and of the clock. Of the clock, a row also stays if it
/// is off by more than `STEP_NS`.
const HOUR_NS: i64 = 60 * MINUTE_NS;
const STEP_NS: i64 = 5_000_000;

/// What a sample is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Thing {
    Gpu(u32),
    File(u64, u64),
    Process(ProcessKey),
    Monitor(ProcessKey),
    SharedMemory(ProcessKey),
}

/// The samples that stay of a minute: the highest, and the last, which holds from then on.
#[derive(Debug, Clone, Copy)]
struct Minute {
    minute: i64,
    highest: (i64, u64),
    last: i64,
}

/// How far the rows were downsampled.
pub(super) struct Rows {
    mark: i64,
    calls: HashMap<ProcessKey, VecDeque<i64>>,
    samples: HashMap<Thing, Minute>,
    /// The last row of each hook, with its hour.
    ledger: HashMap<String, (i64, i64)>,
    /// The last row of the clock that stays: its hour, and how far the wall clock was ahead.
    clock: Option<(i64, i64)>,
    short_lived: ShortLived,
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            mark: i64::MIN,
            calls: HashMap::new(),
            samples: HashMap::new(),
            ledger: HashMap::new(),
            clock: None,
            short_lived: ShortLived::default(),
        }
    }
}

impl Rows {
    /// Begins with the first row again, because less is kept around deaths.
    pub(super) fn downsample_anew(&mut self) {
        *self = Self::default();
    }

    /// Checks some rows from before `until`. Returns whether those were the last.
    pub(super) fn downsample(
        &mut self,
        (connection, most): (&Connection, usize),
        until: i64,
        detail_spans: &DetailSpans,
    ) -> rusqlite::Result<bool> {
        let mut statement = connection.prepare_cached(
            "SELECT id, time, kind, pid, body FROM events WHERE id > ?1 ORDER BY id LIMIT ?2",
        )?;
        let most = most.min(ROWS);
        let mut found =
            statement.query(params![self.mark, i64::try_from(most).unwrap_or(i64::MAX)])?;
        let (mut gone, mut count, mut latest) = (Vec::new(), 0, i64::MIN);
        while let Some(row) = found.next()? {
            let (id, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let kind = row.get_ref(2)?.as_str().unwrap_or("");
            let is_mass = HIGH_VOLUME_KINDS.contains(&kind);
            // The time of a log record is that of the log, which may be any. Other kinds that are
            // not listed may have such times too.
            let is_timed = is_mass && kind != "ray_log";
            if is_timed && time >= until {
                count = 0;
                break;
            }
            (self.mark, count) = (id, count + 1);
            let parsed = || row::read(row.get_ref(4).ok()?.as_str().ok()?);
            if !is_mass {
                let of: Option<i64> = row.get(3)?;
                if let Some(pid) = of.and_then(|pid| u32::try_from(pid).ok()) {
                    self.short_lived.keep(Pid(pid));
                }
                if kind == "signal"
                    && let Some(Observation::Signal(signal)) = parsed()
                {
                    self.short_lived.keep(signal.sender.process.pid);
                }
                continue;
            }
            if is_timed {
                latest = latest.max(time);
            } else if time >= until {
                continue;
            }
            if let Some(what) = parsed() {
                gone.extend(self.look(id, time, &what, detail_spans));
            }
        }
        let finished = self.short_lived.take_finished(latest, most);
        gone.extend(&finished);
        let finished = finished.len();
        delete(connection, "events", &gone)?;
        // So many may have been found to be over that they take several steps.
        Ok(count < most && finished < most)
    }

    /// Returns the rows to delete: this one, or earlier ones that it replaces.
    fn look(
        &mut self,
        id: i64,
        time: i64,
        what: &Observation,
        detail_spans: &DetailSpans,
    ) -> Vec<i64> {
        match what {
            Observation::Call(call) => {
                self.short_lived.keep(call.process.pid);
                let kept = detail_spans.keeps(time);
                self.called(id, call.process, kept).into_iter().collect()
            }
            Observation::Fork { .. } | Observation::Exec(_) | Observation::Exit(_) => {
                if let Observation::Exit(exit) = what {
                    self.calls.remove(&exit.process.truncated());
                }
                self.short_lived.take(id, time, what, detail_spans);
                Vec::new()
            }
            Observation::Ledger(row) => self.counted(id, time, &row.hook).into_iter().collect(),
            Observation::Clock { wall, .. } => {
                let is_old_news = self.is_old_news(time, wall.0);
                is_old_news.then_some(id).into_iter().collect()
            }
            Observation::RayLog(log) => {
                let gone = !detail_spans.explains(time) && !lasts(log);
                gone.then_some(id).into_iter().collect()
            }
            _ if detail_spans.keeps(time) => Vec::new(),
            Observation::SharedMemory(state) => {
                let thing = Thing::SharedMemory(state.raylet.truncated());
                self.sampled(id, time, thing, state.used.0)
            }
            Observation::Gpu(state) => {
                self.sampled(id, time, Thing::Gpu(state.device), state.used.0)
            }
            Observation::SharedFile(file) => {
                let thing = Thing::File(file.device, file.inode);
                self.sampled(id, time, thing, file.bytes.0)
            }
            Observation::Outside(outside) => {
                let thing = Thing::Process(outside.process.truncated());
                let anon = outside.memory.anon.unwrap_or_default();
                self.sampled(id, time, thing, anon.0)
            }
            Observation::Monitor(count) => {
                let thing = Thing::Monitor(count.raylet.truncated());
                self.sampled(id, time, thing, count.used.0)
            }
            // Rare rows stay. Memory has tables of its own.
            Observation::RecordingStarted(_)
            | Observation::RecordingEnded
            | Observation::Probe(_)
            | Observation::Cluster(_)
            | Observation::Process(_)
            | Observation::Worker(_)
            | Observation::Title { .. }
            | Observation::Signal(_)
            | Observation::Delivered { .. }
            | Observation::Interference(_)
            | Observation::OomVictim(_)
            | Observation::Kmsg(_)
            | Observation::Cgroup(_)
            | Observation::DriverSettings { .. }
            | Observation::Mapped(_)
            | Observation::Steps { .. }
            | Observation::Memory(_)
            | Observation::Node(_)
            | Observation::LimitWarning(_)
            | Observation::Stack(_)
            | Observation::Freed { .. }
            | Observation::NoStack { .. } => Vec::new(),
        }
    }

    /// Returns the earlier row of the same hook and hour. This one includes its counts.
    fn counted(&mut self, id: i64, time: i64, hook: &str) -> Option<i64> {
        let hour = time / HOUR_NS;
        let before = self.ledger.insert(hook.to_owned(), (hour, id));
        before.filter(|(of, _)| *of == hour).map(|(_, id)| id)
    }

    /// Whether an earlier row of the clock in the same hour says the same.
    fn is_old_news(&mut self, time: i64, wall: i64) -> bool {
        let (hour, ahead) = (time / HOUR_NS, wall.saturating_sub(time));
        let known = self.clock.is_some_and(|(of, before)| {
            of == hour && ahead.abs_diff(before) < STEP_NS.unsigned_abs()
        });
        if !known {
            self.clock = Some((hour, ahead));
        }
        known
    }

    fn called(&mut self, id: i64, process: ProcessKey, kept: bool) -> Option<i64> {
        if self.calls.len() >= MOST {
            self.calls.clear();
        }
        let Some(last) = self.calls.get_mut(&process.truncated()) else {
            self.calls.insert(process.truncated(), VecDeque::new());
            return None;
        };
        if kept {
            return None;
        }
        last.push_back(id);
        if last.len() > CALLS {
            last.pop_front()
        } else {
            None
        }
    }

    fn sampled(&mut self, id: i64, time: i64, thing: Thing, figure: u64) -> Vec<i64> {
        if self.samples.len() >= MOST {
            self.samples.clear();
        }
        let minute = time / MINUTE_NS;
        let new = Minute {
            minute,
            highest: (id, figure),
            last: id,
        };
        let Some(before) = self.samples.insert(thing, new) else {
            return Vec::new();
        };
        if before.minute != minute {
            return Vec::new();
        }
        let mut gone = vec![before.last];
        if figure > before.highest.1 {
            gone.push(before.highest.0);
        } else {
            self.samples.insert(
                thing,
                Minute {
                    highest: before.highest,
                    ..new
                },
            );
            gone.retain(|id| *id != before.highest.0);
        }
        gone.dedup();
        gone
    }
}

/// Whether what a log said stays true, so that it may explain a death at any later time.
fn lasts(log: &RayLog) -> bool {
    matches!(
        log.fact,
        RayFact::MonitorStarted { .. }
            | RayFact::MonitorDisabled
            | RayFact::Marker { .. }
            | RayFact::Configuration { .. }
            | RayFact::JobStarted { .. }
            | RayFact::Gcs { .. }
    )
}

/// Deletes the oldest rows of the first kind that is given up for deaths. Returns false if there are
/// none.
pub(super) fn drop_oldest(connection: &Connection, most: usize) -> rusqlite::Result<bool> {
    for rows in BEFORE_DEATHS {
        let table = rows.split(' ').next().unwrap_or(rows);
        let oldest = format!("SELECT id FROM {rows} ORDER BY id LIMIT {most}");
        let delete = format!("DELETE FROM {table} WHERE id IN ({oldest})");
        if connection.execute(&delete, [])? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
