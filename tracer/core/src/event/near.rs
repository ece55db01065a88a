//! A limit that is about to be met, as the recorder foresaw it: what it told is kept beside what happened.

use crate::ids::{Bytes, ProcessKey};

/// Who kills at a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LimitName {
    /// Ray's memory monitor, at its threshold.
    RayMonitor,
    /// The kernel, at the limit of this cgroup.
    Cgroup(String),
    /// The kernel, when the machine is full.
    Machine,
}

/// In how many ms from the event's time the limit is met: from the 10th percentile to the 90th.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Within {
    /// The 10th percentile.
    pub soonest_ms: u64,
    /// The 90th percentile.
    pub latest_ms: u64,
}

/// A process that has to do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearProcess {
    /// Which.
    pub process: ProcessKey,
    /// The actor's class, else the task that runs, else the part that it plays; no arguments.
    pub name: String,
    /// The call whose peaks are expected to meet the limit.
    pub call: Option<String>,
    /// By how much its private memory rose, or, once the approach is over, fell.
    pub moved: Bytes,
}

/// An approach to a limit: told when it is foreseen, and once more when it has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitWarning {
    /// Which limit.
    pub limit: LimitName,
    /// It kills above this.
    pub at: Bytes,
    /// What counts against it.
    pub used: Bytes,
    /// When it is met; `None` once the approach is over.
    pub within: Option<Within>,
    /// Whose growth it is, or who gave back most.
    pub doer: Option<NearProcess>,
    /// Whom the killer would take now.
    pub victim: Option<NearProcess>,
    /// Over so many ms the growth was seen.
    pub seen_ms: u64,
    /// Workers that ran the doer's task then and grew, the doer included; 0 where it is no task: fewer at once need no restart.
    pub at_once: u32,
}
