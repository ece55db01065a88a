//! Defines a warning that a limit is about to be hit, as the recorder gave it.

use serde::{Deserialize, Serialize};

use crate::ids::{Bytes, ProcessKey};

/// The owner of a limit: it kills when the limit is hit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitOwner {
    /// Ray's memory monitor, at its threshold.
    RayMonitor,
    /// The kernel, at the limit of this cgroup.
    Cgroup(String),
    /// The kernel, when the machine is full.
    Machine,
}

/// The time until the limit is hit, in ms from the event's time: from the 10th percentile to the
/// 90th.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Within {
    /// The 10th percentile.
    pub soonest_ms: u64,
    /// The 90th percentile.
    pub latest_ms: u64,
}

/// A process in a warning: the one that grows, or the likely victim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForecastProcess {
    /// Its pid and start.
    pub process: ProcessKey,
    /// The actor's class, else the task that runs, else its role; no arguments.
    pub name: String,
    /// The call that is expected to hit the limit at its peak.
    pub call: Option<String>,
    /// By how much its private memory rose. In the row that ends a warning: by how much it fell.
    pub moved: Bytes,
}

/// A warning: written when the limit is expected to be hit, and once more when it no longer is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitWarning {
    /// The limit.
    pub limit: LimitOwner,
    /// Where it kills: above this many bytes.
    pub at: Bytes,
    /// How much is in use, as this limit counts.
    pub used: Bytes,
    /// When it is hit; `None` in the row that ends the warning.
    #[serde(rename = "forecast", alias = "within")]
    pub within: Option<Within>,
    /// The process that grows. At the end of a warning: the one that gave back most.
    #[serde(alias = "doer")]
    pub grower: Option<ForecastProcess>,
    /// The process that the killer would take now.
    pub victim: Option<ForecastProcess>,
    /// The span in which the growth was seen, in ms.
    pub seen_ms: u64,
    /// How many workers ran the grower's task then and grew, the grower included; 0 where it runs
    /// no task. Running fewer at once needs no restart.
    #[serde(default, rename = "tasks_at_once", alias = "at_once")]
    pub at_once: u32,
}
