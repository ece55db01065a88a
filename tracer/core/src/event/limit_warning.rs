//! A warning that a limit is about to be hit, as the recorder gave it.

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

/// A process of a warning: the one that grows, or the likely victim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForecastProcess {
    /// Its pid and start.
    pub process: ProcessKey,
    /// The actor's class, else the task that runs, else the part that it plays; no arguments.
    pub name: String,
    /// The call whose peaks are expected to meet the limit.
    pub call: Option<String>,
    /// By how much its private memory rose, or, in the row that ends a warning, fell.
    pub moved: Bytes,
}

/// A warning: written when the limit is expected to be hit, and once more when it no longer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitWarning {
    /// The limit.
    pub limit: LimitName,
    /// It kills above this.
    pub at: Bytes,
    /// What counts against it.
    pub used: Bytes,
    /// When it is hit; `None` in the row that ends the warning.
    pub within: Option<Within>,
    /// The process that grows, or, at the end of a warning, gave back most.
    pub grower: Option<ForecastProcess>,
    /// The process that the killer would take now.
    pub victim: Option<ForecastProcess>,
    /// Over so many ms the growth was seen.
    pub seen_ms: u64,
    /// Workers that ran the grower's task then and grew, the grower included; 0 where it is no task: fewer at once need no restart.
    pub at_once: u32,
}
