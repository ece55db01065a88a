//! Attributes growth to lines of Python, by actor class and task.
//!
//! It counts growth in all, and what was still held at the end.

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
    event::{NativeFrame, PythonFrame, PythonStack, Unsampled},
    ids::{BootTime, Bytes, ProcessKey},
    judge::report::{Growth, UnreadStacks},
    phrase, python,
    ray::identify::Title,
};
use pieces::{MEASUREMENT_ERROR_DIVISOR, Pieces};
pub(crate) use waiting::Owner;
use waiting::{Row, RowKind, WaitingRows};

/// At most this many stacks are told apart. Later ones are attributed only to their owner. A job
/// has some hundreds.
const MOST_SITES: usize = 20_000;
/// For at most this many processes, the reason is kept why their stacks cannot be read.
const MOST_REFUSED: usize = 4096;

/// The frames of one stack, the running one first, without Ray's own.
type Frames = Arc<[PythonFrame]>;
/// Native frames that the running frame called, the innermost first.
type CalledFrames = Arc<[NativeFrame]>;

/// One stack of one owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Site {
    owner: Arc<str>,
    /// The worker, if it had no title yet. Its growth belongs to the class that it gets later.
    of: Option<ProcessKey>,
    frames: Frames,
    called: CalledFrames,
    /// Why there are no frames.
    unsampled: Option<Unsampled>,
}

/// What grew through a stack.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Private memory.
    private: u64,
    /// How much of that is held; `None` if that is not known.
    held: Option<u64>,
    /// Shared memory that was touched.
    shared: u64,
}

/// What became of memory that grew through a stack.
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    held: u64,
    unknown: u64,
}

/// A stack with everything that grew through it.
#[derive(Debug, Clone, Default)]
struct SiteGrowth {
    site: Site,
    private: u64,
    shared: u64,
    growers: HashSet<ProcessKey>,
}

/// What is known of one process.
#[derive(Debug, Clone, Default)]
struct Grower {
    frames: Frames,
    called: CalledFrames,
    skipped: usize,
    /// When the last stack with frames was seen.
    seen: Option<BootTime>,
    ended: Option<BootTime>,
    pieces: Pieces,
}

/// All growth that was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct GrowthAttribution {
    waiting: WaitingRows,
    sites: Vec<SiteGrowth>,
    index: HashMap<Site, usize>,
    processes: HashMap<ProcessKey, Grower>,
    refused: BTreeMap<ProcessKey, String>,
}

impl GrowthAttribution {
    /// Records one look at a process. `owner` is its owner, as far as its events tell so far.
    /// [`Self::settle`] attributes the growth.
    pub(crate) fn observe(&mut self, time: BootTime, stack: &PythonStack, owner: Owner) {
        let key = stack.process.truncated();
        let process = self.processes.entry(key).or_default();
        if !stack.repeats {
            process.frames = of_the_job(&stack.frames);
            // Without a line of the job, there is no caller of native frames.
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
            unsampled: stack.unsampled,
            private: stack.grown,
            shared: stack.shared,
        };
        self.waiting.push(Row {
            time,
            process: key,
            mapping: stack.mapping,
            what: RowKind::Grew(growth),
        });
    }

    /// Records that a process gave memory back, of one of its large mappings or other memory.
    pub(crate) fn freed(
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
            what: RowKind::Freed(bytes),
        });
    }

    /// Attributes the rows that waited, if their call is known at `now`. Without `now` nothing more
    /// comes, and all rows are attributed. `called` returns the title of the call that a process
    /// ran at a moment.
    pub(crate) fn settle(
        &mut self,
        now: Option<BootTime>,
        called: impl Fn(ProcessKey, BootTime) -> Option<Title>,
    ) {
        while let Some(row) = self.waiting.next(now) {
            match row.what {
                RowKind::Grew(growth) => {
                    let owner = called(row.process, row.time);
                    self.grew(row.process, row.mapping, growth, owner);
                }
                RowKind::Freed(bytes) => {
                    if let Some(process) = self.processes.get_mut(&row.process) {
                        process.pieces.freed(row.time, row.mapping, bytes.0);
                    }
                }
            }
        }
    }

    /// Returns the same with all waiting rows attributed.
    pub(crate) fn settled(
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
            unsampled: growth.unsampled,
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

    /// Records the end of a process.
    pub(crate) fn ended(&mut self, time: BootTime, process: ProcessKey) {
        if let Some(process) = self.processes.get_mut(&process.truncated()) {
            process.ended = Some(time);
        }
    }

    /// Records that the stacks of a process cannot be read.
    pub(crate) fn refused(&mut self, process: ProcessKey, reason: &str) {
        if self.refused.len() < MOST_REFUSED {
            self.refused.insert(process.truncated(), reason.to_owned());
        }
    }

    /// Returns the processes without a single stack that could be read, and the reason.
    pub(crate) fn unread(&self) -> Vec<UnreadStacks> {
        let seen = |key: &ProcessKey| {
            self.processes
                .get(key)
                .is_some_and(|one| one.seen.is_some())
        };
        // A process with one failed look may still have stacks.
        let refused = self.refused.iter().filter(|(key, _)| !seen(key));
        let refused = refused.map(|(key, reason)| UnreadStacks {
            pid: key.pid,
            reason: reason.clone(),
        });
        refused.collect()
    }

    /// Returns the number of a stack. A new stack gets a new number.
    fn site(&mut self, mut site: Site) -> usize {
        if self.sites.len() >= MOST_SITES && !self.index.contains_key(&site) {
            (site.frames, site.called) = Default::default();
            site.unsampled = Some(Unsampled::TooMany);
        }
        let next = self.sites.len();
        let at = *self.index.entry(site.clone()).or_insert(next);
        if at == next {
            self.sites.push(SiteGrowth {
                site,
                ..SiteGrowth::default()
            });
        }
        at
    }

    /// Returns the last stack of a process, and when it was read.
    pub(crate) fn last(&self, process: ProcessKey) -> Option<(BootTime, String)> {
        let known = self.processes.get(&process.truncated())?;
        let mut lines: Vec<String> = known.frames.iter().map(lines::named).collect();
        if known.skipped > 0 {
            let frames = phrase::count(known.skipped, "frame", "frames");
            lines.push(format!("({frames} inside Ray)"));
        }
        Some((known.seen?, lines.join("\n")))
    }

    /// Returns the line of the user's own code in the last stack of a process: `train.py:33 step`.
    /// Without one, it is the innermost line that is not a library's.
    pub(crate) fn last_line(&self, process: ProcessKey) -> Option<String> {
        let known = self.processes.get(&process.truncated())?;
        python::user_or_framework_frame(&known.frames).map(lines::named)
    }

    /// Returns the growth by owner, the largest first. `becomes` is the class of a worker that had
    /// none when it grew.
    pub(crate) fn growth(&self, becomes: impl Fn(ProcessKey) -> Option<String>) -> Vec<Growth> {
        lines::growth(&self.named(becomes), &self.sums())
    }

    /// Returns folded stacks, the outermost frame first, below what became of the memory.
    pub(crate) fn folded(&self, becomes: impl Fn(ProcessKey) -> Option<String>) -> Vec<String> {
        lines::folded(&self.named(becomes), &self.sums())
    }

    /// Returns the owner of each stack.
    fn named(&self, becomes: impl Fn(ProcessKey) -> Option<String>) -> Vec<Arc<str>> {
        let owner = |attributed: &SiteGrowth| {
            let class = attributed.site.of.and_then(&becomes);
            class.map_or_else(|| Arc::clone(&attributed.site.owner), Arc::from)
        };
        self.sites.iter().map(owner).collect()
    }

    /// Returns each stack with what grew through it.
    fn sums(&self) -> Vec<(&SiteGrowth, Sums)> {
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
            let known = fate.unknown <= attributed.private / MEASUREMENT_ERROR_DIVISOR;
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

/// Removes the frames that run and wrap what users wrote.
fn of_the_job(frames: &[PythonFrame]) -> Frames {
    let of_job = frames
        .iter()
        .filter(|frame| !python::is_ray_code(&frame.file));
    of_job.cloned().collect()
}

#[cfg(test)]
mod tests;
