//! Holds what surrounded a death, as it was kept with its exit.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::{
    event::{NodeMemory, Role},
    ids::{Bytes, Pid, ProcessKey},
    judge::{
        report::{
            GpuUse, LastMinute, MemoryReport, OutsideCgroup, SharedFileUse, TopProcess, TopRest,
        },
        state::calls::{Growth, IdleWorker, ReusedMemory},
    },
};

/// What was known at a death.
#[derive(Debug, Clone, Default)]
pub(in crate::judge) struct Snapshot {
    /// The biggest processes of the machine, then those of each cgroup that may have been full.
    pub(in crate::judge) biggest: Vec<Biggest>,
    pub(in crate::judge) memory: MemoryReport,
    /// `None` if nobody asks.
    pub(in crate::judge) live_processes: Option<Box<LiveProcesses>>,
    pub(in crate::judge) minute: Option<Box<LastMinute>>,
    pub(in crate::judge) gpu: Vec<GpuUse>,
    pub(in crate::judge) shared: Vec<SharedFileUse>,
    /// The most that the monitor of its raylet counted in the last seconds, and its threshold.
    pub(in crate::judge) monitor: Option<(Bytes, Bytes)>,
}

/// The biggest processes at a death, and what the other ones held.
#[derive(Debug, Clone, Default)]
pub(in crate::judge) struct Biggest {
    /// The cgroup that they are in; `None` for those of the machine.
    pub(in crate::judge) cgroup: Option<String>,
    pub(in crate::judge) top: Vec<TopProcess>,
    pub(in crate::judge) rest: Option<TopRest>,
    /// What the processes outside the cgroup held.
    pub(in crate::judge) outside: Option<OutsideCgroup>,
}

impl Snapshot {
    /// Whether the live processes were known, and are not kept.
    pub(in crate::judge) fn live_processes_dropped(&self) -> bool {
        self.live_processes
            .as_ref()
            .is_some_and(|live| live.dropped)
    }

    /// Returns the biggest processes in `cgroup`; those of the machine if it was not taken for one
    /// that may have been full.
    pub(in crate::judge) fn biggest_in(&self, cgroup: Option<&str>) -> Biggest {
        let of = |one: &&Biggest| one.cgroup.as_deref() == cgroup;
        let found = self.biggest.iter().find(of).or(self.biggest.first());
        found.cloned().unwrap_or_default()
    }
}

/// The live processes at a death.
#[derive(Debug, Clone, Default)]
pub(in crate::judge) struct LiveProcesses {
    /// The biggest processes, in order. The dying one is among them.
    pub(in crate::judge) members: Vec<Member>,
    /// Private memory of everything that is tracked.
    pub(in crate::judge) tracked: Bytes,
    /// The machine, as sampled last.
    pub(in crate::judge) node: Option<NodeMemory>,
    /// Whether they were known, and are not kept.
    pub(in crate::judge) dropped: bool,
}

impl LiveProcesses {
    /// Stands for processes that are not kept.
    pub(in crate::judge) fn dropped() -> Box<Self> {
        Box::new(Self {
            dropped: true,
            ..Self::default()
        })
    }
}

/// One process. Each death keeps dozens of these. So names are shared, and what most processes do
/// not have is boxed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::judge) struct Member {
    pub(in crate::judge) pid: Pid,
    pub(in crate::judge) role: Role,
    /// The actor's class, else the task that runs.
    pub(in crate::judge) class: Option<Arc<str>>,
    pub(in crate::judge) cluster: Option<ProcessKey>,
    pub(in crate::judge) cgroup: Option<Arc<str>>,
    /// What it runs: `WorkerDict.save_checkpoint`.
    pub(in crate::judge) doing: Option<Arc<str>>,
    pub(in crate::judge) private: Bytes,
    /// Shared memory that it has mapped and touched.
    pub(in crate::judge) shared: Bytes,
    /// What it held when it began what it runs.
    pub(in crate::judge) before: Option<Bytes>,
    /// The method that left most behind in each of several calls.
    pub(in crate::judge) growth: Option<Box<Growth>>,
    /// What its tasks left resident and used again.
    pub(in crate::judge) reused: Option<Box<ReusedMemory>>,
    /// Since when it had nothing to do.
    pub(in crate::judge) idle: Option<Box<IdleWorker>>,
    /// Whether it holds, or has held, memory of a GPU.
    pub(in crate::judge) on_gpu: bool,
}

impl Member {
    /// Returns the method whose calls left memory behind, the number of calls, and how much each
    /// left.
    pub(in crate::judge) fn leak(&self) -> Option<(&str, u32, Bytes)> {
        let growth = self.growth.as_deref()?;
        let method = growth.title.trim_start_matches("ray::");
        Some((method, growth.calls, growth.per_call?))
    }

    /// Returns how much more it holds than when it began what it runs.
    pub(in crate::judge) fn grown(&self) -> Option<Bytes> {
        Some(Bytes(self.private.0.saturating_sub(self.before?.0)))
    }
}

/// Names of classes, methods and cgroups, each kept once.
#[derive(Debug, Default)]
pub(in crate::judge) struct Names(FxHashSet<Arc<str>>);

/// At most this many names are kept. A job that gives each task its own name has as many names as
/// tasks.
const MOST_NAMES: usize = 4_096;

impl Names {
    /// Returns the name as it is kept.
    pub(in crate::judge) fn kept(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return Arc::clone(known);
        }
        if self.0.len() >= MOST_NAMES {
            self.0.clear();
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name));
        name
    }
}
