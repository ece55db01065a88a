//! The other rows that come in masses: calls, short lives, and samples that have no table of their own.

use std::collections::{HashMap, VecDeque};

use rusqlite::Connection;

use super::{MINUTE_NS, delete, ends::Ends, lives::Lives};
use crate::{
    event::Observation,
    ids::{Pid, ProcessKey},
};

/// Rows of one step.
const ROWS: usize = 1000;
/// The last calls of each process stay, and its first: they tell what a call adds.
const CALLS: usize = 64;
/// Processes whose calls are followed, and things that have samples; of more, those so far stay.
const MOST: usize = 4096;
/// Kinds of which rows are given up.
const MASSES: [&str; 7] = [
    "call",
    "fork",
    "exec",
    "exit",
    "gpu",
    "shared_file",
    "outside",
];

/// What a sample is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Thing {
    Gpu(u32),
    File(u64, u64),
    Process(ProcessKey),
}

/// What stays of the samples of a minute: the highest and the last, which is how it is from then on.
#[derive(Debug, Clone, Copy)]
struct Minute {
    minute: i64,
    highest: (i64, u64),
    last: i64,
}

/// How far the rows were thinned.
pub(super) struct Rows {
    mark: i64,
    calls: HashMap<ProcessKey, VecDeque<i64>>,
    samples: HashMap<Thing, Minute>,
    lives: Lives,
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            mark: i64::MIN,
            calls: HashMap::new(),
            samples: HashMap::new(),
            lives: Lives::default(),
        }
    }
}

impl Rows {
    /// Looks at some rows of before `until`; whether those were the last.
    pub(super) fn thin(
        &mut self,
        connection: &Connection,
        until: i64,
        ends: &Ends,
    ) -> rusqlite::Result<bool> {
        let mut statement = connection.prepare_cached(
            "SELECT id, time, kind, pid, body FROM events WHERE id > ?1 ORDER BY id LIMIT ?2",
        )?;
        let limit = i64::try_from(ROWS).unwrap_or(i64::MAX);
        let mut found = statement.query([self.mark, limit])?;
        let (mut gone, mut count, mut latest) = (Vec::new(), 0, i64::MIN);
        while let Some(row) = found.next()? {
            let (id, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let kind = row.get_ref(2)?.as_str().unwrap_or("");
            let is_mass = MASSES.contains(&kind);
            // Of the other kinds some have the time of a log, which may be any.
            if is_mass && time >= until {
                count = 0;
                break;
            }
            (self.mark, count) = (id, count + 1);
            let parsed = || serde_json::from_str(row.get_ref(4).ok()?.as_str().ok()?).ok();
            if !is_mass {
                let of: Option<i64> = row.get(3)?;
                if let Some(pid) = of.and_then(|pid| u32::try_from(pid).ok()) {
                    self.lives.said_of(Pid(pid));
                }
                if kind == "signal"
                    && let Some(Observation::Signal(signal)) = parsed()
                {
                    self.lives.said_of(signal.sender.process.pid);
                }
                continue;
            }
            latest = latest.max(time);
            if let Some(what) = parsed() {
                gone.extend(self.look(id, time, &what, ends));
            }
        }
        gone.extend(self.lives.over(latest));
        delete(connection, "events", &gone)?;
        Ok(count < ROWS)
    }

    /// The rows that are given up for this one, or this one.
    fn look(&mut self, id: i64, time: i64, what: &Observation, ends: &Ends) -> Vec<i64> {
        match what {
            Observation::Call(call) => {
                self.lives.said_of(call.process.pid);
                let kept = ends.keep(time);
                self.called(id, call.process, kept).into_iter().collect()
            }
            Observation::Fork { .. } | Observation::Exec(_) | Observation::Exit(_) => {
                if let Observation::Exit(exit) = what {
                    self.calls.remove(&exit.process.truncated());
                }
                self.lives.take(id, time, what, ends);
                Vec::new()
            }
            _ if ends.keep(time) => Vec::new(),
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
            _ => Vec::new(),
        }
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
