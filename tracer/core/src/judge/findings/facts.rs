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

pub(in crate::judge) use crate::judge::state::snapshot::Member;

/// All facts of a run.
#[derive(Debug, Default)]
pub(in crate::judge) struct Facts {
    /// The processes that counted against the limit of each memory kill.
    pub(in crate::judge) limit_members: BTreeMap<EventId, LimitMembers>,
    /// Memory kills beyond the number whose surroundings are kept.
    pub(in crate::judge) not_kept: BTreeSet<EventId>,
    /// Memory that the machine had in use when the recording began: `MemTotal` − `MemAvailable`.
    pub(in crate::judge) used_before: Option<Bytes>,
    /// The raylets, by the number of their cluster in the report.
    pub(in crate::judge) nodes: Vec<Node>,
    /// The drivers.
    pub(in crate::judge) drivers: Vec<Driver>,
    /// The resolved configurations that frameworks printed.
    pub(in crate::judge) printed: Vec<PrintedConfiguration>,
    /// Warnings found in logs.
    pub(in crate::judge) log_warnings: Vec<LogWarning>,
    /// Log lines that follow from sudden deaths.
    pub(in crate::judge) effects: Vec<Effect>,
    /// Memory that was moved off a GPU.
    pub(in crate::judge) offloads: Vec<Offload>,
    /// `/dev/shm` over time.
    pub(in crate::judge) shared_memory: Vec<(BootTime, SharedMemory)>,
    /// Methods that keep more memory with each call.
    pub(in crate::judge) growing: Vec<GrowingMethod>,
    /// Workers that are alive and idle at the end, by the number of their cluster.
    pub(in crate::judge) idle: Vec<IdleCluster>,
    /// Processes that outlived their raylet.
    pub(in crate::judge) left_over: Vec<LeftOverProcess>,
    /// Processes that hold GPU memory at the end, have no parent, and belong to no cluster.
    pub(in crate::judge) gpu_orphans: Vec<GpuOrphan>,
    /// Command lines that contain bad advice.
    pub(in crate::judge) lines: Vec<(Pid, String)>,
}

/// The processes that count against the limit that a death hit.
#[derive(Debug, Default)]
pub(in crate::judge) struct LimitMembers {
    /// Biggest first; the victim is among them.
    pub(in crate::judge) inside: Vec<Member>,
    /// Shared memory that is charged to the limited cgroup of the victim that has the least.
    pub(in crate::judge) shared: Option<Bytes>,
    /// Private memory of all tracked processes, and the machine's memory. `None` if a text does not
    /// say.
    pub(in crate::judge) sums: Option<(Bytes, NodeMemory)>,
}

/// A raylet and how its node was set up.
#[derive(Debug, Default)]
pub(in crate::judge) struct Node {
    pub(in crate::judge) raylet: Option<ProcessKey>,
    pub(in crate::judge) argv: Vec<String>,
    pub(in crate::judge) cgroup: Option<String>,
    /// `RAY_*` variables of its environment.
    pub(in crate::judge) settings: Vec<(String, String)>,
    pub(in crate::judge) version: Option<Version>,
    pub(in crate::judge) started: Start,
    pub(in crate::judge) head: bool,
    /// When it ended.
    pub(in crate::judge) ended: Option<BootTime>,
    /// Whether its memory monitor watches only the user cgroup (resource isolation).
    pub(in crate::judge) isolated: bool,
    pub(in crate::judge) object_store: Option<Bytes>,
    /// The user of its raylet.
    pub(in crate::judge) uid: Option<u32>,
    /// The Slurm job of its raylet.
    pub(in crate::judge) slurm_job: Option<String>,
}

/// A driver.
#[derive(Debug, Default)]
pub(in crate::judge) struct Driver {
    /// Where its settings were found: `command line of driver 50`, `driver.log:3`.
    pub(in crate::judge) source: String,
    pub(in crate::judge) pid: Option<Pid>,
    /// The number of its cluster.
    pub(in crate::judge) cluster: Option<u32>,
    pub(in crate::judge) job: Option<HexId>,
    pub(in crate::judge) argv: Vec<String>,
    /// `RAY_*` variables of its environment.
    pub(in crate::judge) settings: Vec<(String, String)>,
}

/// A configuration as a framework printed it.
#[derive(Debug, Clone)]
pub(in crate::judge) struct PrintedConfiguration {
    /// `printed by TaskRunner (pid 7), worker-….out`.
    pub(in crate::judge) source: String,
    /// The number of the printer's cluster.
    pub(in crate::judge) cluster: Option<u32>,
    /// The printer's job.
    pub(in crate::judge) job: Option<HexId>,
    pub(in crate::judge) settings: Vec<(String, String)>,
}

/// A warning found in logs.
#[derive(Debug, Clone)]
pub(in crate::judge) struct LogWarning {
    pub(in crate::judge) warning: Warning,
    /// How often it was logged.
    pub(in crate::judge) count: u64,
    /// The number of bytes that belongs to it, if any.
    pub(in crate::judge) bytes: Option<Bytes>,
    /// The lines, each with the file that has it.
    pub(in crate::judge) lines: Vec<String>,
    /// Whether the affected process itself logged it.
    pub(in crate::judge) first_hand: bool,
}

/// A log line of a worker about the end of another process: a lost connection, a time-out.
#[derive(Debug, Clone)]
pub(in crate::judge) struct Effect {
    pub(in crate::judge) time: BootTime,
    pub(in crate::judge) cluster: Option<u32>,
    /// The worker that logged it.
    pub(in crate::judge) worker: Option<HexId>,
    /// `NCCL timeout`.
    pub(in crate::judge) kind: &'static str,
    /// The line, with the file that has it.
    pub(in crate::judge) line: String,
}

/// GPU memory that a process gave up.
#[derive(Debug, Clone)]
pub(in crate::judge) struct Offload {
    /// Who gave it up: a pid, or the worker of a log.
    pub(in crate::judge) who: String,
    /// Whether an inference engine gave it up, by its log or its name. Otherwise the training
    /// framework did.
    pub(in crate::judge) by_engine: bool,
    /// `vllm offload in sharding manager`, `sleep`.
    pub(in crate::judge) what: String,
    /// Bytes given up on the GPU.
    pub(in crate::judge) freed: Bytes,
    /// Bytes of that which were copied to the host, if known.
    pub(in crate::judge) to_host: Option<Bytes>,
    /// The lines.
    pub(in crate::judge) lines: Vec<String>,
}

/// A method that keeps more memory with each call, in the workers of one cluster.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::judge) struct GrowingMethod {
    /// `Class.method` or the task.
    pub(in crate::judge) task: String,
    pub(in crate::judge) workers: u32,
    /// Complete calls, in the worker that made the most.
    pub(in crate::judge) calls: u32,
    /// What a call keeps, in the worker where that is the most.
    pub(in crate::judge) per_call: Bytes,
    /// What one call keeps, summed over all workers that are alive at the end.
    pub(in crate::judge) alive: Bytes,
    /// What the next call of each of these workers takes on top of what they hold, arguments
    /// included.
    pub(in crate::judge) ahead: i64,
    /// The deaths of such workers.
    pub(in crate::judge) ended: Vec<EventId>,
    /// The nearest limit.
    pub(in crate::judge) headroom: Option<Headroom>,
    /// What all of these workers have kept since they warmed up.
    pub(in crate::judge) kept: Bytes,
}

/// The workers of a cluster that are idle at the end.
#[derive(Debug, Clone)]
pub(in crate::judge) struct IdleCluster {
    /// Each worker with its private memory and how long it has been idle.
    pub(in crate::judge) workers: Vec<(Pid, Bytes, IdleWorker)>,
    /// The nearest limit.
    pub(in crate::judge) headroom: Option<Headroom>,
}

/// A process that outlived its raylet.
#[derive(Debug, Clone)]
pub(in crate::judge) struct LeftOverProcess {
    pub(in crate::judge) pid: Pid,
    pub(in crate::judge) title: String,
    pub(in crate::judge) uid: Option<u32>,
    pub(in crate::judge) private: Bytes,
    pub(in crate::judge) raylet: Pid,
    /// How long it has outlived the raylet.
    pub(in crate::judge) seconds: i64,
}

/// A process without a parent that holds GPU memory.
#[derive(Debug, Clone)]
pub(in crate::judge) struct GpuOrphan {
    pub(in crate::judge) device: u32,
    pub(in crate::judge) pid: Pid,
    pub(in crate::judge) name: String,
    pub(in crate::judge) used: Bytes,
}

impl Node {
    /// Creates a node from a cluster of a recording.
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
