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
pub(crate) struct Snapshot {
    /// The biggest processes of the machine, then those of each cgroup that may have been full.
    pub(crate) biggest: Vec<Biggest>,
    pub(crate) memory: MemoryReport,
    /// `None` if nobody asks.
    pub(crate) live_processes: Option<Box<LiveProcesses>>,
    pub(crate) minute: Option<Box<LastMinute>>,
    pub(crate) gpu: Vec<GpuUse>,
    pub(crate) shared: Vec<SharedFileUse>,
    /// The most that the monitor of its raylet counted in the last seconds, and its threshold.
    pub(crate) monitor: Option<(Bytes, Bytes)>,
}

/// The biggest processes at a death, and what the other ones held.
#[derive(Debug, Clone, Default)]
pub(crate) struct Biggest {
    /// The cgroup that they are in; `None` for those of the machine.
    pub(crate) cgroup: Option<String>,
    pub(crate) top: Vec<TopProcess>,
    pub(crate) rest: Option<TopRest>,
    /// What the processes outside the cgroup held.
    pub(crate) outside: Option<OutsideCgroup>,
}

impl Snapshot {
    /// Whether the live processes were known, and are not kept.
    pub(crate) fn live_processes_dropped(&self) -> bool {
        self.live_processes
            .as_ref()
            .is_some_and(|live| live.dropped)
    }

    /// Returns the biggest processes in `cgroup`; those of the machine if it was not taken for one
    /// that may have been full.
    pub(crate) fn biggest_in(&self, cgroup: Option<&str>) -> Biggest {
        let of = |one: &&Biggest| one.cgroup.as_deref() == cgroup;
        let found = self.biggest.iter().find(of).or(self.biggest.first());
        found.cloned().unwrap_or_default()
    }
}

/// The live processes at a death.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveProcesses {
    /// The biggest processes, in order. The dying one is among them.
    pub(crate) members: Vec<Member>,
    /// Private memory of everything that is tracked.
    pub(crate) tracked: Bytes,
    /// Shared memory that is charged to the limited cgroup of the dying process that has the least.
    pub(crate) shared: Option<Bytes>,
    /// The machine, as sampled last.
    pub(crate) node: Option<NodeMemory>,
    /// Whether they were known, and are not kept.
    pub(crate) dropped: bool,
}

impl LiveProcesses {
    /// Stands for processes that are not kept.
    pub(crate) fn dropped() -> Box<Self> {
        Box::new(Self {
            dropped: true,
            ..Self::default()
        })
    }
}

/// One process. Each death keeps dozens of these. So names are shared, and what most processes do
/// not have is boxed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: Pid,
    pub(crate) role: Role,
    /// The actor's class, else the task that runs.
    pub(crate) class: Option<Arc<str>>,
    pub(crate) cluster: Option<ProcessKey>,
    pub(crate) cgroup: Option<Arc<str>>,
    /// What it runs: `WorkerDict.save_checkpoint`.
    pub(crate) doing: Option<Arc<str>>,
    pub(crate) private: Bytes,
    /// Shared memory that it has mapped and touched.
    pub(crate) shared: Bytes,
    /// What it held when it began what it runs.
    pub(crate) before: Option<Bytes>,
    /// The method that left most behind in each of several calls.
    pub(crate) growth: Option<Box<Growth>>,
    /// What its tasks left resident and used again.
    pub(crate) reused: Option<Box<ReusedMemory>>,
    /// Since when it had nothing to do.
    pub(crate) idle: Option<Box<IdleWorker>>,
    /// Whether it holds, or has held, memory of a GPU.
    pub(crate) on_gpu: bool,
}

impl Member {
    /// Returns the method whose calls left memory behind, the number of calls, and how much each
    /// left.
    pub(crate) fn leak(&self) -> Option<(&str, u32, Bytes)> {
        let growth = self.growth.as_deref()?;
        let method = growth.title.trim_start_matches("ray::");
        Some((method, growth.calls, growth.per_call?))
    }

    /// Returns how much more it holds than when it began what it runs.
    pub(crate) fn grown(&self) -> Option<Bytes> {
        Some(Bytes(self.private.0.saturating_sub(self.before?.0)))
    }
}

/// Names of classes, methods and cgroups, each kept once.
#[derive(Debug, Default)]
pub(crate) struct Names(FxHashSet<Arc<str>>);

/// At most this many names are kept. A job that gives each task its own name has as many names as
/// tasks.
const MOST_NAMES: usize = 4_096;

impl Names {
    /// Returns the name as it is kept.
    pub(crate) fn kept(&mut self, name: &str) -> Arc<str> {
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
