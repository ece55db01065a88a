//! Which lines of Python grew the memory, by actor class and task: growth in all, and what of it was still held at the end.

mod lines;
mod native;
mod pieces;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use crate::{
    event::{NativeFrame, PythonFrame, PythonStack},
    ids::{BootTime, Bytes, ProcessKey},
    judge::report::{Growth, UnreadStacks},
    ray::python,
};
use pieces::{ERROR, Pieces};

/// Stacks that are told apart; later ones are blamed by their owner alone. A job has some hundreds.
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
#[derive(Debug)]
struct Blamed {
    site: Site,
    private: u64,
    shared: u64,
    growers: HashSet<ProcessKey>,
}

/// One process.
#[derive(Debug, Default)]
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
#[derive(Debug, Default)]
pub(super) struct Blame {
    sites: Vec<Blamed>,
    index: HashMap<Site, usize>,
    processes: HashMap<ProcessKey, Grower>,
    refused: BTreeMap<ProcessKey, String>,
}

impl Blame {
    /// Folds one look in; `owner` is whose process it was then.
    pub(super) fn observe(&mut self, time: BootTime, stack: &PythonStack, owner: String) {
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
        let site = Site {
            owner: owner.into(),
            frames: Arc::clone(&process.frames),
            called: Arc::clone(&process.called),
        };
        let site = self.site(site);
        let blamed = &mut self.sites[site];
        blamed.private += stack.grown.0;
        blamed.shared += stack.shared.0;
        blamed.growers.insert(key);
        if let Some(process) = self.processes.get_mut(&key) {
            process.pieces.grew(stack.mapping, site, stack.grown.0);
        }
    }

    /// A process gave memory back: of one of its large mappings, or other memory.
    pub(super) fn freed(
        &mut self,
        time: BootTime,
        process: ProcessKey,
        mapping: Option<u32>,
        bytes: Bytes,
    ) {
        if let Some(process) = self.processes.get_mut(&process.truncated()) {
            process.pieces.freed(time, mapping, bytes.0);
        }
    }

    /// It ended.
    pub(super) fn ended(&mut self, time: BootTime, process: ProcessKey) {
        if let Some(process) = self.processes.get_mut(&process.truncated()) {
            process.ended = Some(time);
        }
    }

    /// Its stacks cannot be read.
    pub(super) fn refused(&mut self, process: ProcessKey, reason: &str) {
        if self.refused.len() < MOST_REFUSED {
            self.refused.insert(process.truncated(), reason.to_owned());
        }
    }

    /// Why the stacks of some processes are not known.
    pub(super) fn unread(&self) -> Vec<UnreadStacks> {
        let refused = self.refused.iter().map(|(key, reason)| UnreadStacks {
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
            self.sites.push(Blamed {
                site,
                private: 0,
                shared: 0,
                growers: HashSet::new(),
            });
        }
        at
    }

    /// The last stack of a process, and when it was read.
    pub(super) fn last(&self, process: ProcessKey) -> Option<(BootTime, String)> {
        let known = self.processes.get(&process.truncated())?;
        let mut lines: Vec<String> = known.frames.iter().map(lines::named).collect();
        if known.skipped > 0 {
            lines.push(format!("({} frames of Ray's own)", known.skipped));
        }
        Some((known.seen?, lines.join("\n")))
    }

    /// By owner, the largest growth first.
    pub(super) fn growth(&self) -> Vec<Growth> {
        lines::growth(&self.sums())
    }

    /// Folded stacks, the outermost frame first, below what became of the memory.
    pub(super) fn folded(&self) -> Vec<String> {
        lines::folded(&self.sums())
    }

    /// Each stack with what grew through it.
    fn sums(&self) -> Vec<(&Blamed, Sums)> {
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
        let sums = self.sites.iter().zip(fates).map(|(blamed, fate)| {
            let known = fate.unknown <= blamed.private / ERROR;
            let held = known.then_some(fate.held);
            let sums = Sums {
                private: blamed.private,
                held,
                shared: blamed.shared,
            };
            (blamed, sums)
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
