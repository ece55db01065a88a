//! What logs say, line by line: the kernel's and Ray's.

use crate::{
    ids::{Bytes, Pid, ProcessKey},
    ray::facts::RayFact,
};

/// A parsed line of the kernel log. Pids are those of the initial namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelLog {
    /// `NAME invoked oom-killer: gfp_mask=…, order=…, oom_score_adj=…`
    Invoked {
        /// Who asked for memory.
        comm: String,
        /// The request.
        gfp_mask: String,
    },
    /// `oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=…,task_memcg=…,task=…,pid=…,uid=…`
    OomKill {
        /// `CONSTRAINT_MEMCG`, `CONSTRAINT_NONE`, `CONSTRAINT_CPUSET`, `CONSTRAINT_MEMORY_POLICY`.
        constraint: String,
        /// The cgroup at its limit; `None` for a global one.
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
        /// The cgroup whose every process dies.
        cgroup: String,
    },
    /// `NAME[PID]: segfault at …` and the like.
    Fault {
        /// The name of the process.
        comm: String,
        /// Thread id.
        pid: Pid,
        /// The line.
        text: String,
    },
    /// `NVRM: Xid (PCI:0000:65:00): 31, pid=1234, name=python, Ch 00000008, …`: NVIDIA's driver tells of an error of a GPU.
    Xid {
        /// Its PCI address: `0000:65:00`.
        gpu: String,
        /// The part of a partitioned GPU: `GPU-I:05`, `GPU-I:05 GPU-CI:02`.
        instance: Option<String>,
        /// NVIDIA's code.
        code: u32,
        /// Whose work it was, where the driver says so.
        pid: Option<Pid>,
        /// Its name, as the driver has it from the time when it first used the GPU.
        comm: Option<String>,
        /// What the driver says of the error.
        text: String,
    },
}

/// A parsed record of one of Ray's logs.
#[derive(Debug, Clone, PartialEq)]
pub struct RayLog {
    /// The cluster whose session holds the file; `None` in `explain`.
    pub cluster: Option<ProcessKey>,
    /// File name below the session's `logs` folder; `GCS ADDRESS` for a row of its tables.
    pub file: String,
    /// Local time as printed, nanoseconds since 1970 without zone; `None` where the line has none.
    pub local_time: Option<i64>,
    /// The record's first line, at most 300 bytes: the evidence that is shown.
    pub text: String,
    /// What it says.
    pub fact: RayFact,
}
