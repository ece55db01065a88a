//! Holds what rules read besides the report, made from a recording or from texts, so that both have the same rules.

use std::collections::BTreeMap;

use crate::{
    event::{Cluster, NodeMemory, Role, SharedMemory},
    ids::{BootTime, Bytes, EventId, HexId, Pid, ProcessKey},
    judge::{
        query::headroom::Headroom,
        state::calls::{Idle, Reused},
        warning::Warning,
    },
    ray::{start::Start, version::Version},
};

/// Everything.
#[derive(Debug, Default)]
pub(in crate::judge) struct Facts {
    /// The processes that counted against the limit of each memory kill.
    pub(in crate::judge) limit_members: BTreeMap<EventId, LimitMembers>,
    /// What the machine had in use when the recording began, `MemTotal` − `MemAvailable`.
    pub(in crate::judge) used_before: Option<Bytes>,
    /// The raylets, by the number of their cluster in the report.
    pub(in crate::judge) nodes: Vec<Node>,
    /// The drivers.
    pub(in crate::judge) drivers: Vec<Driver>,
    /// The configurations that frameworks printed of themselves, resolved.
    pub(in crate::judge) printed: Vec<Printed>,
    /// What logs warn of.
    pub(in crate::judge) log_warnings: Vec<LogWarning>,
    /// What sudden deaths have for a consequence.
    pub(in crate::judge) effects: Vec<Effect>,
    /// What was moved off a GPU.
    pub(in crate::judge) offloads: Vec<Offload>,
    /// `/dev/shm` over time.
    pub(in crate::judge) shared_memory: Vec<(BootTime, SharedMemory)>,
    /// Methods that keep more with each call.
    pub(in crate::judge) growing: Vec<Growing>,
    /// Workers that live and have nothing to do at the end, by the number of their cluster.
    pub(in crate::judge) idle: Vec<IdleCluster>,
    /// Processes that outlived their raylet.
    pub(in crate::judge) left_over: Vec<LeftOver>,
    /// Processes without a parent that hold memory of GPUs at the end, and are no part of a cluster.
    pub(in crate::judge) gpu_orphans: Vec<GpuOrphan>,
    /// Command lines that hold words of bad advice.
    pub(in crate::judge) lines: Vec<(Pid, String)>,
}

/// The processes that count against the limit that a death met.
#[derive(Debug, Default)]
pub(in crate::judge) struct LimitMembers {
    /// Biggest first; the victim is among them.
    pub(in crate::judge) inside: Vec<Held>,
    /// Private memory of all that is tracked, and the machine's; `None` where a text says nothing of it.
    pub(in crate::judge) sums: Option<(Bytes, NodeMemory)>,
}

/// A process and what it held.
#[derive(Debug, Clone)]
pub(in crate::judge) struct Held {
    pub(in crate::judge) pid: Pid,
    pub(in crate::judge) role: Role,
    /// The actor's class, else the task that it runs.
    pub(in crate::judge) class: Option<String>,
    /// What it runs: `WorkerDict.save_checkpoint`.
    pub(in crate::judge) doing: Option<String>,
    pub(in crate::judge) private: Bytes,
    /// Shared memory that it has mapped and touched; 0 where a text says nothing of it.
    pub(in crate::judge) shared: Bytes,
    /// What it held when it began that.
    pub(in crate::judge) before: Option<Bytes>,
    /// The method whose calls left something behind, how many there were, and what each left.
    pub(in crate::judge) leak: Option<(String, u32, Bytes)>,
    /// What its tasks left resident and used again.
    pub(in crate::judge) reused: Option<Reused>,
    /// Since when it had nothing to do.
    pub(in crate::judge) idle: Option<Idle>,
    /// Whether NVML has seen it hold memory of a GPU; a text does not say so.
    pub(in crate::judge) on_gpu: bool,
}

/// A raylet.
#[derive(Debug, Default)]
pub(in crate::judge) struct Node {
    pub(in crate::judge) raylet: Option<ProcessKey>,
    pub(in crate::judge) argv: Vec<String>,
    pub(in crate::judge) cgroup: Option<String>,
    /// `RAY_*` of its environment.
    pub(in crate::judge) settings: Vec<(String, String)>,
    pub(in crate::judge) version: Option<Version>,
    pub(in crate::judge) started: Start,
    pub(in crate::judge) head: bool,
    /// When it ended.
    pub(in crate::judge) ended: Option<BootTime>,
    /// Whether its monitor watches the user cgroup only.
    pub(in crate::judge) isolated: bool,
    pub(in crate::judge) object_store: Option<Bytes>,
}

/// A driver.
#[derive(Debug, Default)]
pub(in crate::judge) struct Driver {
    /// Where its settings stand: `command line of driver 50`, `driver.log:3`.
    pub(in crate::judge) source: String,
    pub(in crate::judge) pid: Option<Pid>,
    /// The number of its cluster.
    pub(in crate::judge) cluster: Option<u32>,
    pub(in crate::judge) argv: Vec<String>,
    /// `RAY_*` of its environment.
    pub(in crate::judge) settings: Vec<(String, String)>,
}

/// A configuration as a framework printed it.
#[derive(Debug, Clone)]
pub(in crate::judge) struct Printed {
    /// `printed by TaskRunner (pid 7), worker-….out`.
    pub(in crate::judge) source: String,
    pub(in crate::judge) settings: Vec<(String, String)>,
}

/// Something that logs warn of.
#[derive(Debug, Clone)]
pub(in crate::judge) struct LogWarning {
    pub(in crate::judge) warning: Warning,
    /// How often.
    pub(in crate::judge) count: u64,
    /// A figure that belongs to it.
    pub(in crate::judge) bytes: Option<Bytes>,
    /// Where, and the lines.
    pub(in crate::judge) lines: Vec<String>,
    /// Whether the process that it happened to says so itself.
    pub(in crate::judge) first_hand: bool,
}

/// A line of a worker that tells of somebody else's end: a lost connection, a time-out.
#[derive(Debug, Clone)]
pub(in crate::judge) struct Effect {
    pub(in crate::judge) time: BootTime,
    pub(in crate::judge) cluster: Option<u32>,
    /// The worker that says so.
    pub(in crate::judge) worker: Option<HexId>,
    /// `NCCL timeout`.
    pub(in crate::judge) kind: &'static str,
    /// Where, and the line.
    pub(in crate::judge) line: String,
}

/// GPU memory that was given up.
#[derive(Debug, Clone)]
pub(in crate::judge) struct Offload {
    /// Who: a pid, or the worker of a log.
    pub(in crate::judge) who: String,
    /// Whether an inference engine gave it up, by its own words or its name; else the framework that trains did.
    pub(in crate::judge) by_engine: bool,
    /// `vllm offload in sharding manager`, `sleep`.
    pub(in crate::judge) what: String,
    /// Given up on the GPU.
    pub(in crate::judge) freed: Bytes,
    /// Of it, copied to the host, where the log says so.
    pub(in crate::judge) to_host: Option<Bytes>,
    /// The lines.
    pub(in crate::judge) lines: Vec<String>,
}

/// A method that keeps more with each call, in the workers of one cluster.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::judge) struct Growing {
    /// `Class.method` or the task.
    pub(in crate::judge) task: String,
    pub(in crate::judge) workers: u32,
    /// Complete calls in the worker that has most.
    pub(in crate::judge) calls: u32,
    /// What a call keeps in the worker where that is most.
    pub(in crate::judge) per_call: Bytes,
    /// The same in all workers that live at the end, together.
    pub(in crate::judge) alive: Bytes,
    /// What the next call of each of these takes, arguments and all, on top of what they hold.
    pub(in crate::judge) ahead: i64,
    /// Those of the workers that died.
    pub(in crate::judge) ended: Vec<EventId>,
    /// The limit that is next.
    pub(in crate::judge) headroom: Option<Headroom>,
    /// What all of them have kept since they had warmed up.
    pub(in crate::judge) kept: Bytes,
}

/// The workers of a cluster that have nothing to do at the end.
#[derive(Debug, Clone)]
pub(in crate::judge) struct IdleCluster {
    /// Each with its private memory.
    pub(in crate::judge) workers: Vec<(Pid, Bytes, Idle)>,
    /// The limit that is next.
    pub(in crate::judge) headroom: Option<Headroom>,
}

/// A process that outlived its raylet.
#[derive(Debug, Clone)]
pub(in crate::judge) struct LeftOver {
    pub(in crate::judge) pid: Pid,
    pub(in crate::judge) title: String,
    pub(in crate::judge) uid: Option<u32>,
    pub(in crate::judge) private: Bytes,
    pub(in crate::judge) raylet: Pid,
    /// For so long.
    pub(in crate::judge) seconds: i64,
}

/// A process without a parent on a GPU.
#[derive(Debug, Clone)]
pub(in crate::judge) struct GpuOrphan {
    pub(in crate::judge) device: u32,
    pub(in crate::judge) pid: Pid,
    pub(in crate::judge) name: String,
    pub(in crate::judge) used: Bytes,
}

impl Node {
    /// Of a cluster of a recording.
    pub(in crate::judge) fn of(cluster: &Cluster) -> Self {
        Self {
            raylet: Some(cluster.raylet),
            settings: cluster.settings.clone(),
            version: cluster.ray_version.as_deref().and_then(Version::parse),
            head: cluster.head,
            object_store: cluster.object_store_bytes,
            ..Self::default()
        }
    }
}
