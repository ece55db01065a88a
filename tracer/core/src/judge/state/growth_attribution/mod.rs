//! Attributes growth to lines of Python, by actor class and task: in all, and what was still held at the end.

mod lines;
mod native;
mod pieces;
mod waiting;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::owners::IDLE;
use crate::{
    event::{NativeFrame, PythonFrame, PythonStack},
    ids::{BootTime, Bytes, ProcessKey},
    judge::report::{Growth, UnreadStacks},
    python,
    ray::identify::Title,
};
use pieces::{ERROR, Pieces};
pub(in crate::judge) use waiting::Owner;
use waiting::{Row, Waiting, What};

/// Stacks that are told apart; later ones are attributed by their owner alone. A job has some hundreds.
const MOST_SITES: usize = 20_000;
/// Processes of which is told why they cannot be read.
const MOST_REFUSED: usize = 4096;

/// Frames of one stack, the running one first, without Ray's own.
type Frames = Arc<[PythonFrame]>;
/// What the running one called, the innermost first.
type Called = Arc<[NativeFrame]>;

/// One stack of one owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Site {
    owner: Arc<str>,
    /// A worker that had no title yet: what it grew by belongs to the class that it becomes.
    of: Option<ProcessKey>,
    frames: Frames,
    called: Called,
}

/// What grew through a stack.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Private memory.
    private: u64,
    /// Of that, what is held; `None` where that is not known.
    held: Option<u64>,
    /// Shared memory that was touched.
    shared: u64,
}

/// What became of what grew through a stack.
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    held: u64,
    unknown: u64,
}

/// A stack with all that grew through it.
#[derive(Debug, Clone)]
struct Attributed {
    site: Site,
    private: u64,
    shared: u64,
    growers: HashSet<ProcessKey>,
}

/// One process.
#[derive(Debug, Clone, Default)]
struct Grower {
    frames: Frames,
    called: Called,
    skipped: usize,
    /// The last stack that had frames, and when it was there.
    seen: Option<BootTime>,
    ended: Option<BootTime>,
    pieces: Pieces,
}

/// All growth that was seen.
#[derive(Debug, Clone, Default)]
pub(in crate::judge) struct GrowthAttribution {
    waiting: Waiting,
    sites: Vec<Attributed>,
    index: HashMap<Site, usize>,
    processes: HashMap<ProcessKey, Grower>,
    refused: BTreeMap<ProcessKey, String>,
}

impl GrowthAttribution {
    /// Takes one look; `owner` is whose process it is as far as its events tell so far. What grew is folded in by [`Self::settle`].
    pub(in crate::judge) fn observe(&mut self, time: BootTime, stack: &PythonStack, owner: Owner) {
        let key = stack.process.truncated();
        let process = self.processes.entry(key).or_default();
        if !stack.repeats {
            process.frames = of_the_job(&stack.frames);
            // Without a line of the job's nobody called.
            let called = stack.native.iter().filter(|_| !process.frames.is_empty());
            process.called = called.cloned().collect();
            process.skipped = stack.frames.len() - process.frames.len();
        }
        if !process.frames.is_empty() {
            process.seen = Some(time);
        }
        if stack.grown.0 == 0 && stack.shared.0 == 0 {
            return;
        }
        let growth = waiting::Growth {
            owner,
            frames: Arc::clone(&process.frames),
            called: Arc::clone(&process.called),
            private: stack.grown,
            shared: stack.shared,
        };
        self.waiting.push(Row {
            time,
            process: key,
            mapping: stack.mapping,
            what: What::Grew(growth),
        });
    }

    /// A process gave memory back: of one of its large mappings, or other memory.
    pub(in crate::judge) fn freed(
        &mut self,
        time: BootTime,
        process: ProcessKey,
        mapping: Option<u32>,
        bytes: Bytes,
    ) {
        self.waiting.push(Row {
            time,
            process: process.truncated(),
            mapping,
            what: What::Freed(bytes),
        });
    }

    /// Folds in what has waited until its call is known at `now`, or all of it where nothing more comes; `called` is the owner by the call
    /// that a process ran at a moment.
    pub(in crate::judge) fn settle(
        &mut self,
        now: Option<BootTime>,
        called: impl Fn(ProcessKey, BootTime) -> Option<Title>,
    ) {
        while let Some(row) = self.waiting.next(now) {
            match row.what {
                What::Grew(growth) => {
                    let owner = called(row.process, row.time);
                    self.grew(row.process, row.mapping, growth, owner);
                }
                What::Freed(bytes) => {
                    if let Some(process) = self.processes.get_mut(&row.process) {
                        process.pieces.freed(row.time, row.mapping, bytes.0);
                    }
                }
            }
        }
    }

    /// The same with all that waits folded in.
    pub(in crate::judge) fn settled(
        &self,
        called: impl Fn(ProcessKey, BootTime) -> Option<Title>,
    ) -> Cow<'_, Self> {
        let mut all = Cow::Borrowed(self);
        if !self.waiting.is_empty() {
            all.to_mut().settle(None, called);
        }
        all
    }

    fn grew(
        &mut self,
        key: ProcessKey,
        mapping: Option<u32>,
        growth: waiting::Growth,
        called: Option<Title>,
    ) {
        let owner: Arc<str> = growth.owner.by(called).into();
        let site = Site {
            of: (*owner == *IDLE).then_some(key),
            owner,
            frames: growth.frames,
            called: growth.called,
        };
        let site = self.site(site);
        let attributed = &mut self.sites[site];
        attributed.private += growth.private.0;
        attributed.shared += growth.shared.0;
        attributed.growers.insert(key);
        if let Some(process) = self.processes.get_mut(&key) {
            process.pieces.grew(mapping, site, growth.private.0);
        }
    }

    /// It ended.
    pub(in crate::judge) fn ended(&mut self, time: BootTime, process: ProcessKey) {
        if let Some(process) = self.processes.get_mut(&process.truncated()) {
            process.ended = Some(time);
        }
    }

    /// Its stacks cannot be read.
    pub(in crate::judge) fn refused(&mut self, process: ProcessKey, reason: &str) {
        if self.refused.len() < MOST_REFUSED {
            self.refused.insert(process.truncated(), reason.to_owned());
        }
    }

    /// Why the stacks of some processes are not known: of none was ever read.
    pub(in crate::judge) fn unread(&self) -> Vec<UnreadStacks> {
        let seen = |key: &ProcessKey| {
            self.processes
                .get(key)
                .is_some_and(|one| one.seen.is_some())
        };
        // One look that failed is no process without stacks.
        let refused = self.refused.iter().filter(|(key, _)| !seen(key));
        let refused = refused.map(|(key, reason)| UnreadStacks {
            pid: key.pid,
            reason: reason.clone(),
        });
        refused.collect()
    }

    /// The number of a stack.
    fn site(&mut self, mut site: Site) -> usize {
        if self.sites.len() >= MOST_SITES && !self.index.contains_key(&site) {
            (site.frames, site.called) = Default::default();
        }
        let next = self.sites.len();
        let at = *self.index.entry(site.clone()).or_insert(next);
        if at == next {
            self.sites.push(Attributed {
                site,
                private: 0,
                shared: 0,
                growers: HashSet::new(),
            });
        }
        at
    }

    /// The last stack of a process, and when it was read.
    pub(in crate::judge) fn last(&self, process: ProcessKey) -> Option<(BootTime, String)> {
        let known = self.processes.get(&process.truncated())?;
        let mut lines: Vec<String> = known.frames.iter().map(lines::named).collect();
        if known.skipped > 0 {
            let plural = if known.skipped == 1 { "" } else { "s" };
            lines.push(format!("({} frame{plural} inside Ray)", known.skipped));
        }
        Some((known.seen?, lines.join("\n")))
    }

    /// In the last stack of a process, the line of the user's own code: `train.py:33 step`, without one the innermost that is no library's.
    pub(in crate::judge) fn last_line(&self, process: ProcessKey) -> Option<String> {
        let known = self.processes.get(&process.truncated())?;
        python::users(&known.frames).map(lines::named)
    }

    /// By owner, the largest growth first. `becomes` is the class of a worker that had none when it
    /// grew.
    pub(in crate::judge) fn growth(
        &self,
        becomes: impl Fn(ProcessKey) -> Option<String>,
    ) -> Vec<Growth> {
        lines::growth(&self.named(becomes), &self.sums())
    }

    /// Folded stacks, the outermost frame first, below what became of the memory.
    pub(in crate::judge) fn folded(
        &self,
        becomes: impl Fn(ProcessKey) -> Option<String>,
    ) -> Vec<String> {
        lines::folded(&self.named(becomes), &self.sums())
    }

    /// The owner of each stack.
    fn named(&self, becomes: impl Fn(ProcessKey) -> Option<String>) -> Vec<Arc<str>> {
        let owner = |attributed: &Attributed| {
            let class = attributed.site.of.and_then(&becomes);
            class.map_or_else(|| Arc::clone(&attributed.site.owner), Arc::from)
        };
        self.sites.iter().map(owner).collect()
    }

    /// Each stack with what grew through it.
    fn sums(&self) -> Vec<(&Attributed, Sums)> {
        let mut fates = vec![Fate::default(); self.sites.len()];
        for process in self.processes.values() {
            process.pieces.held(process.ended, |site, bytes, held| {
                let fate = &mut fates[site];
                match held {
                    Some(held) => fate.held += held,
                    None => fate.unknown += bytes,
                }
            });
        }
        let sums = self.sites.iter().zip(fates).map(|(attributed, fate)| {
            let known = fate.unknown <= attributed.private / ERROR;
            let held = known.then_some(fate.held);
            let sums = Sums {
                private: attributed.private,
                held,
                shared: attributed.shared,
            };
            (attributed, sums)
        });
        sums.collect()
    }
}

/// Without the frames that run and wrap what users wrote.
fn of_the_job(frames: &[PythonFrame]) -> Frames {
    let of_job = frames
        .iter()
        .filter(|frame| !python::is_rays_own(&frame.file));
    of_job.cloned().collect()
}

#[cfg(test)]
mod tests;
