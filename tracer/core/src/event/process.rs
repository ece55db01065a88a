//! Defines clusters, processes and the roles that processes have in Ray.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{Bytes, HexId, Pid, ProcessKey},
    ray::role::Role,
};

/// A raylet and the session that it serves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// The raylet; it names the cluster on this machine.
    pub raylet: ProcessKey,
    /// The raylet's pid in its own pid namespace: the one that Ray's logs name.
    pub raylet_ns_pid: Pid,
    /// Session name, `session_2026-11-21_00-11-24_…`.
    pub session: Option<String>,
    /// The session's folder as the raylet sees it.
    pub session_dir: Option<String>,
    /// Ray's version, from the installed package's metadata beside the raylet's executable.
    pub ray_version: Option<String>,
    /// `--node_id` (or from the log).
    pub node_id: Option<HexId>,
    /// `--gcs-address`.
    pub gcs_address: Option<String>,
    /// Whether this node runs the GCS (`--head`).
    pub head: bool,
    /// `--object_store_memory`.
    pub object_store_bytes: Option<Bytes>,
    /// The container that the raylet runs in, from its cgroup path.
    pub container_id: Option<String>,
    /// The `RAY_*` variables of the raylet's environment. Only those that tune Ray have their
    /// values.
    pub settings: Vec<(String, String)>,
    /// The offset of the raylet's local time, in seconds east of UTC (from its TZ and zone files).
    /// Its logs use local time.
    pub log_utc_offset_s: Option<i32>,
    /// Paths by which somebody ran the `ray` script of this raylet's installation and then sent a
    /// signal: links to the script, or the installation by another path.
    #[serde(default)]
    pub commands: Vec<String>,
    /// The names of its pod, as far as the node shows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodNames>,
}

/// The names of a pod and of one container in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodNames {
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub pod: Option<String>,
    /// The name of the raylet's container.
    pub container: Option<String>,
}

impl Cluster {
    /// Returns the cluster of a raylet when nothing else is known about it.
    pub fn new(raylet: ProcessKey) -> Self {
        Self {
            raylet,
            raylet_ns_pid: raylet.pid,
            ..Self::default()
        }
    }
}

/// A process as /proc shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its pid and start time.
    pub process: ProcessKey,
    /// The pid in the innermost pid namespace (`NSpid`), when it differs.
    pub ns_pid: Option<Pid>,
    /// Its parent.
    pub parent: Option<Pid>,
    /// Its process group.
    pub process_group: Option<Pid>,
    /// Name of the leader thread, 15 bytes at most.
    pub comm: String,
    /// argv, at most 4 KiB of it; empty for kernel threads, and when it cannot be read.
    pub argv: Vec<String>,
    /// Path of the executable.
    pub exe: Option<String>,
    /// Real user id.
    pub uid: Option<u32>,
    /// Path of its memory cgroup (v2: of its cgroup).
    pub cgroup: Option<String>,
    /// Container id, from the cgroup path.
    pub container_id: Option<String>,
    /// The raylet that it belongs to or descends from.
    pub cluster: Option<ProcessKey>,
    /// Its role in Ray, as far as its command line shows it.
    pub role: Role,
    /// Its Slurm job, if the path in `cgroup` does not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<Box<SlurmJob>>,
}

/// The Slurm job of a process: by a cgroup of another hierarchy than memory, or by its environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlurmJob {
    /// The job's id.
    pub job: String,
    /// Its step: a number, `batch`, `extern` or `interactive`.
    pub step: Option<String>,
    /// The memory that the job requested on this node, by its environment.
    pub memory: Option<Bytes>,
    /// When its time limit is reached, in seconds since 1970, by its environment.
    pub ends: Option<u64>,
}

/// What ties a process to a Ray worker id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// The process.
    pub process: ProcessKey,
    /// Its worker id; a driver has one too.
    pub worker_id: HexId,
    /// Job id, where a file name or marker has it.
    pub job_id: Option<HexId>,
    /// The actor's class, from a `:actor_name:` marker or the title.
    pub actor_class: Option<String>,
    /// Whether it is the worker of a driver.
    pub driver: bool,
    /// Where this was read: a path or `argv`.
    pub from: String,
}

/// A new program in a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exec {
    /// The process.
    pub process: ProcessKey,
    /// Its parent at that moment.
    pub parent: Option<Pid>,
    /// The pid in its own pid namespace, when it differs.
    pub ns_pid: Option<Pid>,
    /// Name after exec.
    pub comm: String,
    /// argv as read in the kernel, at most 4 KiB.
    pub argv: Vec<String>,
    /// Real user id.
    pub uid: Option<u32>,
    /// The file of the executable. For a script, that of its interpreter.
    pub file: Option<super::FileId>,
}
