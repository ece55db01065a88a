//! Defines what a line of the kernel log or of Ray's logs says.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{Bytes, Pid, ProcessKey},
    ray::facts::RayFact,
};

/// A parsed line of the kernel log. Pids are those of the initial namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum KernelLog {
    /// `NAME invoked oom-killer: gfp_mask=…, order=…, oom_score_adj=…`
    Invoked {
        /// The name of the process that asked for memory.
        comm: String,
        /// The request.
        gfp_mask: String,
    },
    /// `oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=…,task_memcg=…,task=…,pid=…,uid=…`
    OomKill {
        /// `CONSTRAINT_MEMCG`, `CONSTRAINT_NONE`, `CONSTRAINT_CPUSET`, `CONSTRAINT_MEMORY_POLICY`.
        constraint: String,
        /// The cgroup that was at its limit; `None` for a global kill.
        oom_memcg: Option<String>,
        /// The victim's cgroup.
        task_memcg: Option<String>,
        /// The victim's name; may hold any character.
        comm: String,
        /// The victim.
        pid: Pid,
        /// Its user.
        uid: u32,
    },
    /// `Killed process …`, with `Memory cgroup out of memory:` or `Out of memory:` before it.
    Killed {
        /// The victim.
        pid: Pid,
        /// Its name.
        comm: String,
        /// Whether the line says "Memory cgroup out of memory".
        memcg: bool,
        /// `anon-rss`.
        anon: Bytes,
        /// `file-rss`.
        file: Bytes,
        /// `shmem-rss`; `None` before Linux 4.4.
        shmem: Option<Bytes>,
        /// `oom_score_adj`; `None` before Linux 5.4.
        score_adj: Option<i32>,
    },
    /// `Tasks in … are going to be killed due to memory.oom.group set`
    OomGroup {
        /// The cgroup. Every process in it dies.
        cgroup: String,
    },
    /// `NAME[PID]: segfault at …` and the like.
    Fault {
        /// The name of the process.
        comm: String,
        /// Its thread id.
        pid: Pid,
        /// The line.
        text: String,
    },
    /// `NVRM: Xid (PCI:0000:65:00): 31, pid=1234, name=python, Ch 00000008, …`: NVIDIA's driver
    /// reports an error of a GPU.
    Xid {
        /// The GPU's PCI address: `0000:65:00`.
        gpu: String,
        /// The part of a partitioned GPU: `GPU-I:05`, `GPU-I:05 GPU-CI:02`.
        instance: Option<String>,
        /// NVIDIA's code.
        code: u32,
        /// The process that the error belongs to, where the driver names it.
        pid: Option<Pid>,
        /// That process's name, which the driver took when the process first used the GPU.
        comm: Option<String>,
        /// What the driver says about the error.
        text: String,
    },
}

/// A parsed record of one of Ray's logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RayLog {
    /// The cluster whose session has the file; `None` in `explain`.
    pub cluster: Option<ProcessKey>,
    /// File name below the session's `logs` folder; `GCS ADDRESS` for a row of a GCS table.
    pub file: String,
    /// Local time as printed, in nanoseconds since 1970 without a zone; `None` where the line has
    /// none.
    pub local_time: Option<i64>,
    /// The record's first line, at most 1000 bytes. It is shown as evidence.
    pub text: String,
    /// What it says.
    pub fact: RayFact,
}
