//! Defines what led to a death: the calls of the process, and the last minute of memory.

use serde::Serialize;

use super::CgroupUse;
use crate::ids::{Bytes, Pid};

/// The calls of one method or task in a worker that died.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallsReport {
    /// `Class.method` or the task: what ran at death, else what grew most.
    pub task: String,
    /// The number of the call that it died in; `None` for one that died between calls.
    pub died_in: Option<u32>,
    /// Whether calls are counted from the start of the process; if not, from that of the recording.
    pub from_start: bool,
    /// How long that call had run.
    pub running_ms: Option<u64>,
    /// Private memory when that call began.
    pub before_bytes: Option<Bytes>,
    /// Highest private memory in that call.
    pub peak_bytes: Option<Bytes>,
    /// Complete calls before it.
    pub complete: u32,
    /// What each left behind, if most of them left memory that was not given back.
    pub per_call_bytes: Option<Bytes>,
}

impl CallsReport {
    /// Returns whether the process died in its first call.
    pub fn died_in_first(&self) -> bool {
        self.died_in == Some(1) && self.from_start
    }
}

/// The node at a death.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AtDeath {
    /// What Ray's monitor counted.
    pub ray_used_bytes: Option<Bytes>,
    /// Its threshold.
    pub ray_threshold_bytes: Option<Bytes>,
    /// The memory of which the threshold is a part, as Ray says it; not part of the contract.
    #[serde(skip)]
    pub ray_total: Option<Bytes>,
    /// The limits of the cgroups on its path.
    pub limits: Vec<CgroupUse>,
    /// What the object store held.
    pub object_store_bytes: Option<Bytes>,
}

/// The last minute before a death. Each list has a figure for each of `seconds`, or `None` if
/// nothing was known yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastMinute {
    /// The moments, relative to the death: −60 to 0.
    pub seconds: Vec<f64>,
    /// Private memory of the process that died.
    pub victim_bytes: Vec<Option<Bytes>>,
    /// The biggest others at the death.
    pub top: Vec<TopBefore>,
    /// Shared memory of the machine: the object store, `/dev/shm`, memfds.
    pub shared_memory_bytes: Vec<Option<Bytes>>,
    /// `MemTotal` − `MemAvailable`.
    pub node_used_bytes: Vec<Option<Bytes>>,
    /// The limits on its path, the innermost first.
    pub limits: Vec<LimitBefore>,
    /// What it mapped, in order of time.
    pub mapped: Vec<MappedBefore>,
}

/// Another process before a death.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopBefore {
    /// Its pid.
    pub pid: Pid,
    /// Its title.
    pub title: String,
    /// Its private memory.
    pub private_bytes: Vec<Option<Bytes>>,
}

/// A cgroup's limit before a death.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitBefore {
    /// The cgroup.
    pub cgroup: String,
    /// Its limit.
    pub limit_bytes: Bytes,
    /// Its use, page cache included.
    pub usage_bytes: Vec<Option<Bytes>>,
}

/// What a thread mapped before a death. Mapped memory need not have been touched.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MappedBefore {
    /// When, relative to the death.
    pub seconds: f64,
    /// The thread.
    pub tid: Pid,
    /// How much.
    pub bytes: Bytes,
    /// In how many calls.
    pub calls: u32,
}
