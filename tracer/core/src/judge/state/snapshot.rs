//! What surrounded a death, as it was kept with its exit.

use crate::{
    event::{NodeMemory, Role},
    ids::{Bytes, Pid, ProcessKey},
    judge::{
        report::{GpuUse, LastMinute, MemoryReport, SharedFileUse, TopProcess, TopRest},
        state::calls::{Growth, Idle, Reused},
    },
};

/// What was known at a death.
#[derive(Debug, Clone, Default)]
pub(in crate::judge) struct Snapshot {
    pub(in crate::judge) top: Vec<TopProcess>,
    pub(in crate::judge) top_rest: Option<TopRest>,
    pub(in crate::judge) memory: MemoryReport,
    pub(in crate::judge) crowd: LiveProcesses,
    pub(in crate::judge) minute: Option<LastMinute>,
    pub(in crate::judge) gpu: Vec<GpuUse>,
    pub(in crate::judge) shared: Vec<SharedFileUse>,
    /// The most that the monitor of its raylet counted in the last seconds, and what that kills above.
    pub(in crate::judge) monitor: Option<(Bytes, Bytes)>,
}

/// The live processes at a death.
#[derive(Debug, Clone, Default)]
pub(in crate::judge) struct LiveProcesses {
    /// The biggest, in their order; the dying one is among them.
    pub(in crate::judge) members: Vec<Member>,
    /// Private memory of everything that is tracked.
    pub(in crate::judge) tracked: Bytes,
    /// The machine, as sampled last.
    pub(in crate::judge) node: Option<NodeMemory>,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::judge) struct Member {
    pub(in crate::judge) pid: Pid,
    pub(in crate::judge) role: Role,
    /// The actor's class, else the task that runs.
    pub(in crate::judge) class: Option<String>,
    pub(in crate::judge) cluster: Option<ProcessKey>,
    pub(in crate::judge) cgroup: Option<String>,
    /// What it runs: `WorkerDict.save_checkpoint`.
    pub(in crate::judge) doing: Option<String>,
    pub(in crate::judge) private: Bytes,
    /// Shared memory that it has mapped and touched.
    pub(in crate::judge) shared: Bytes,
    /// What it held when it began that.
    pub(in crate::judge) before: Option<Bytes>,
    /// The method that left most behind in each of several calls.
    pub(in crate::judge) growth: Option<Growth>,
    /// What its tasks left resident and used again.
    pub(in crate::judge) reused: Option<Reused>,
    /// Since when it had nothing to do.
    pub(in crate::judge) idle: Option<Idle>,
}
