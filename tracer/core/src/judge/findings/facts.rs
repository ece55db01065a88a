//! Holds what rules read besides the report.
//!
//! Facts are made from a recording or from texts, so the same rules serve both.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    event::{Cluster, NodeMemory, SharedMemory},
    ids::{BootTime, Bytes, EventId, HexId, Pid, ProcessKey},
    judge::{query::headroom::Headroom, state::calls::IdleWorker, warning::Warning},
    ray::{start::Start, version::Version},
};

pub(crate) use crate::judge::state::snapshot::Member;

/// All facts of a run.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The processes that counted against the limit of each memory kill.
    pub(crate) limit_members: BTreeMap<EventId, LimitMembers>,
    /// Memory kills beyond the number whose surroundings are kept.
    pub(crate) not_kept: BTreeSet<EventId>,
    /// Memory that the machine had in use when the recording began: `MemTotal` − `MemAvailable`.
    pub(crate) used_before: Option<Bytes>,
    /// The raylets, by the number of their cluster in the report.
    pub(crate) nodes: Vec<Node>,
    /// The drivers.
    pub(crate) drivers: Vec<Driver>,
    /// The resolved configurations that frameworks printed.
    pub(crate) printed: Vec<PrintedConfiguration>,
    /// Warnings found in logs.
    pub(crate) log_warnings: Vec<LogWarning>,
    /// Log lines that follow from sudden deaths.
    pub(crate) effects: Vec<Effect>,
    /// Memory that was moved off a GPU.
    pub(crate) offloads: Vec<Offload>,
    /// `/dev/shm` over time.
    pub(crate) shared_memory: Vec<(BootTime, SharedMemory)>,
    /// Methods that keep more memory with each call.
    pub(crate) growing: Vec<GrowingMethod>,
    /// Workers that are alive and idle at the end, by the number of their cluster.
    pub(crate) idle: Vec<IdleCluster>,
    /// Processes that outlived their raylet.
    pub(crate) left_over: Vec<LeftOverProcess>,
    /// Processes that hold GPU memory at the end, have no parent, and belong to no cluster.
    pub(crate) gpu_orphans: Vec<GpuOrphan>,
    /// Command lines that contain bad advice.
    pub(crate) lines: Vec<(Pid, String)>,
}

/// The processes that count against the limit that a death hit.
#[derive(Debug, Default)]
pub(crate) struct LimitMembers {
    /// Biggest first; the victim is among them.
    pub(crate) inside: Vec<Member>,
    /// Shared memory that is charged to the limited cgroup of the victim that has the least.
    pub(crate) shared: Option<Bytes>,
    /// Private memory of all tracked processes, and the machine's memory. `None` if a text does not
    /// say.
    pub(crate) sums: Option<(Bytes, NodeMemory)>,
}

/// A raylet and how its node was set up.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) raylet: Option<ProcessKey>,
    pub(crate) argv: Vec<String>,
    pub(crate) cgroup: Option<String>,
    /// `RAY_*` variables of its environment.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) version: Option<Version>,
    pub(crate) started: Start,
    pub(crate) head: bool,
    /// When it ended.
    pub(crate) ended: Option<BootTime>,
    /// Whether its memory monitor watches only the user cgroup (resource isolation).
    pub(crate) isolated: bool,
    pub(crate) object_store: Option<Bytes>,
    /// The user of its raylet.
    pub(crate) uid: Option<u32>,
    /// The Slurm job of its raylet.
    pub(crate) slurm_job: Option<String>,
}

/// A driver.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    /// Where its settings were found: `command line of driver 50`, `driver.log:3`.
    pub(crate) source: String,
    pub(crate) pid: Option<Pid>,
    /// The number of its cluster.
    pub(crate) cluster: Option<u32>,
    pub(crate) job: Option<HexId>,
    pub(crate) argv: Vec<String>,
    /// `RAY_*` variables of its environment.
    pub(crate) settings: Vec<(String, String)>,
}

/// A configuration as a framework printed it.
#[derive(Debug, Clone)]
pub(crate) struct PrintedConfiguration {
    /// `printed by TaskRunner (pid 7), worker-….out`.
    pub(crate) source: String,
    /// The number of the printer's cluster.
    pub(crate) cluster: Option<u32>,
    /// The printer's job.
    pub(crate) job: Option<HexId>,
    pub(crate) settings: Vec<(String, String)>,
}

/// A warning found in logs.
#[derive(Debug, Clone)]
pub(crate) struct LogWarning {
    pub(crate) warning: Warning,
    /// How often it was logged.
    pub(crate) count: u64,
    /// The number of bytes that belongs to it, if any.
    pub(crate) bytes: Option<Bytes>,
    /// The lines, each with the file that has it.
    pub(crate) lines: Vec<String>,
    /// Whether the affected process itself logged it.
    pub(crate) first_hand: bool,
}

/// A log line of a worker about the end of another process: a lost connection, a time-out.
#[derive(Debug, Clone)]
pub(crate) struct Effect {
    pub(crate) time: BootTime,
    pub(crate) cluster: Option<u32>,
    /// The worker that logged it.
    pub(crate) worker: Option<HexId>,
    /// `NCCL timeout`.
    pub(crate) kind: &'static str,
    /// The line, with the file that has it.
    pub(crate) line: String,
}

/// GPU memory that a process gave up.
#[derive(Debug, Clone)]
pub(crate) struct Offload {
    /// Who gave it up: a pid, or the worker of a log.
    pub(crate) who: String,
    /// Whether an inference engine gave it up, by its log or its name. Otherwise the training
    /// framework did.
    pub(crate) by_engine: bool,
    /// `vllm offload in sharding manager`, `sleep`.
    pub(crate) what: String,
    /// Bytes given up on the GPU.
    pub(crate) freed: Bytes,
    /// Bytes of that which were copied to the host, if known.
    pub(crate) to_host: Option<Bytes>,
    /// The lines.
    pub(crate) lines: Vec<String>,
}

/// A method that keeps more memory with each call, in the workers of one cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct GrowingMethod {
    /// `Class.method` or the task.
    pub(crate) task: String,
    pub(crate) workers: u32,
    /// Complete calls, in the worker that made the most.
    pub(crate) calls: u32,
    /// What a call keeps, in the worker where that is the most.
    pub(crate) per_call: Bytes,
    /// What one call keeps, summed over all workers that are alive at the end.
    pub(crate) alive: Bytes,
    /// What the next call of each of these workers takes on top of what they hold, arguments
    /// included.
    pub(crate) ahead: i64,
    /// The deaths of such workers.
    pub(crate) ended: Vec<EventId>,
    /// The nearest limit.
    pub(crate) headroom: Option<Headroom>,
    /// What all of these workers have kept since they warmed up.
    pub(crate) kept: Bytes,
}

/// The workers of a cluster that are idle at the end.
#[derive(Debug, Clone)]
pub(crate) struct IdleCluster {
    /// Each worker with its private memory and how long it has been idle.
    pub(crate) workers: Vec<(Pid, Bytes, IdleWorker)>,
    /// The nearest limit.
    pub(crate) headroom: Option<Headroom>,
}

/// A process that outlived its raylet.
#[derive(Debug, Clone)]
pub(crate) struct LeftOverProcess {
    pub(crate) pid: Pid,
    pub(crate) title: String,
    pub(crate) uid: Option<u32>,
    pub(crate) private: Bytes,
    pub(crate) raylet: Pid,
    /// How long it has outlived the raylet.
    pub(crate) seconds: i64,
}

/// A process without a parent that holds GPU memory.
#[derive(Debug, Clone)]
pub(crate) struct GpuOrphan {
    pub(crate) device: u32,
    pub(crate) pid: Pid,
    pub(crate) name: String,
    pub(crate) used: Bytes,
}

impl Node {
    /// Creates a node from a cluster of a recording.
    pub(crate) fn of(cluster: &Cluster) -> Self {
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
