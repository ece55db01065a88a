//! Defines memory of processes, of cgroups, of `/dev/shm` and of the machine.

use serde::{Deserialize, Serialize};

use super::figures::{Figure, Figures, figures, is_required};
use crate::ids::{BootTime, Bytes, Pid, ProcessKey};

/// A process's memory, as the kernel counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemorySplit {
    /// Anonymous pages.
    pub anon: Option<Bytes>,
    /// File pages.
    pub file: Option<Bytes>,
    /// Shared memory that the process has mapped and touched.
    pub shmem: Option<Bytes>,
    /// Swap entries.
    pub swap: Option<Bytes>,
    /// Highest resident size.
    pub peak: Option<Bytes>,
    /// The anonymous pages that count as this process's own: a page that a forked child shares with
    /// its parent counts once, as the parent's. `None` where no page is shared that way, or where
    /// it was not looked up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<Bytes>,
}

figures!(MemorySplit: anon, file, shmem, swap, peak, own);

impl MemorySplit {
    /// Returns private memory: the anonymous pages that are its own.
    pub fn private(&self) -> Option<Bytes> {
        self.own.or(self.anon)
    }

    /// Returns resident memory, if any part is known.
    pub fn resident(&self) -> Option<Bytes> {
        let parts = [self.anon, self.file, self.shmem];
        parts
            .iter()
            .any(Option::is_some)
            .then(|| Bytes(parts.iter().flatten().map(|part| part.0).sum()))
    }
}

/// The file system at `/dev/shm`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedMemory {
    /// The raylet. `/dev/shm` is looked up in its mounts.
    pub raylet: ProcessKey,
    /// Its size.
    pub total: Bytes,
    /// In use.
    pub used: Bytes,
}

/// A file that is shared memory, whether or not processes map it: of tmpfs, a memfd, a shared
/// mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFile {
    /// Its device. With the inode it identifies the file: the object store is one file, however
    /// many processes map it.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Its path as the process that has it open sees it, or `memfd:NAME`.
    pub name: String,
    /// The size of its pages; 0 once it is gone.
    pub bytes: Bytes,
    /// Tracked processes that have it open or mapped, four at most, the likeliest owner first: a
    /// raylet, then processes that have it open, then the oldest.
    pub holders: Vec<ProcessKey>,
    /// How many processes there are.
    pub holder_count: u32,
    /// CPU time that all searches for such files have taken until now, in µs.
    pub looked_us: u64,
}

/// A memory cgroup's figures, including those of the cgroups below it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CgroupState {
    /// Path from the root of the memory hierarchy.
    pub path: String,
    /// Bytes charged.
    pub usage: Bytes,
    /// Limit; `None` for no limit.
    pub limit: Option<Bytes>,
    /// Kills by its OOM killer until now; `None` where the file is not readable.
    pub oom_kills: Option<u64>,
    /// Anonymous memory.
    pub anon: Option<Bytes>,
    /// Page cache on the file lists. The kernel takes it back before it kills.
    pub file: Option<Bytes>,
    /// Shared memory and tmpfs files, mapped or not.
    pub shmem: Option<Bytes>,
    /// Kernel memory charged to it.
    pub kernel: Option<Bytes>,
    /// In swap.
    pub swap: Option<Bytes>,
    /// Time in which at least one of its tasks waited for memory, since boot, in µs; `None` where
    /// the kernel does not count it.
    pub stalled_us: Option<u64>,
}

figures!(CgroupState: usage, limit as "max", oom_kills, anon, file, shmem, kernel, swap, stalled_us);

impl CgroupState {
    /// Returns its limit, if it can be hit: if it is below the memory of the machine.
    pub fn binding(&self, node: &NodeMemory) -> Option<Bytes> {
        self.limit.filter(|limit| *limit < node.total)
    }

    /// Returns what the kernel cannot take back. The kernel kills when this reaches the limit.
    pub fn needed(&self) -> Bytes {
        Bytes(self.usage.0.saturating_sub(self.file.unwrap_or_default().0))
    }
}

/// What a raylet's memory monitor counts. raytrace reads it in the way in which that version of Ray
/// computes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonitorCount {
    /// The raylet.
    pub raylet: ProcessKey,
    /// In use.
    pub used: Bytes,
    /// The monitor kills above this, according to the settings in the raylet's environment.
    pub threshold: Bytes,
}

/// A sample of one process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMemory {
    /// The process.
    pub process: ProcessKey,
    /// Its memory. `peak` is set only where /proc/PID/status was read.
    pub memory: MemorySplit,
}

/// `mmap/vm_unmapped_area`: a mapping that a thread asks for, from 1 MiB up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// The process.
    pub process: ProcessKey,
    /// The thread.
    pub tid: Pid,
    /// The size in this call.
    pub bytes: Bytes,
    /// The size in all calls of the process since its last event, this one included.
    pub all_bytes: Bytes,
    /// How many calls these were.
    pub calls: u32,
}

/// A part of a process's memory, as the kernel counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryPart {
    /// File pages.
    File,
    /// Anonymous pages.
    Anon,
    /// Swap entries.
    Swap,
    /// Shared memory.
    Shmem,
}

/// A change of one part by at least max(1 MiB, 1/64 of what was resident).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The time.
    pub time: BootTime,
    /// The part that changed.
    pub part: MemoryPart,
    /// Its size afterwards.
    pub bytes: Bytes,
}

/// Memory of a process that is not tracked and is one of the machine's largest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideMemory {
    /// The process.
    pub process: ProcessKey,
    /// Its name: the program and what it runs, without arguments, which may be secret.
    pub name: String,
    /// Path of its memory cgroup.
    pub cgroup: Option<String>,
    /// Its memory.
    pub memory: MemorySplit,
}

/// A sample of the machine's memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeMemory {
    /// `MemTotal`.
    pub total: Bytes,
    /// `MemAvailable`.
    pub available: Bytes,
    /// `MemFree`.
    pub free: Bytes,
    /// `Shmem`.
    pub shmem: Bytes,
    /// `SwapTotal` − `SwapFree`.
    pub swap_used: Bytes,
    /// `SwapTotal`; `None` where it was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_total: Option<Bytes>,
    /// `AnonPages`.
    pub anon: Option<Bytes>,
    /// Page cache without shared memory: `Buffers` + `Cached` + `SwapCached` − `Shmem`.
    pub file: Option<Bytes>,
    /// Slab, page tables, per-CPU and vmalloc memory (vmalloc includes stacks).
    pub kernel: Option<Bytes>,
    /// Reserved as huge pages of hugetlbfs, used or not.
    pub huge: Option<Bytes>,
    /// Free pages in the per-CPU lists, which `MemFree` leaves out.
    pub cpu_lists: Option<Bytes>,
    /// Time in which at least one task of the machine waited for memory, since boot, in µs.
    pub stalled_us: Option<u64>,
    /// Private memory of all processes outside Ray, counted one by one; `None` if that was not done
    /// for this row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<Bytes>,
}

figures!(NodeMemory: total, available, free, shmem, swap_used, anon, file, kernel, huge, cpu_lists,
    stalled_us, others, swap_total);

impl NodeMemory {
    /// Returns the memory in use.
    pub fn used(&self) -> Bytes {
        Bytes(self.total.0.saturating_sub(self.available.0))
    }

    /// Returns the size of swap. Where it was not recorded, it is at least what is in use.
    pub fn swap_size(&self) -> Bytes {
        self.swap_total.unwrap_or(self.swap_used)
    }

    /// Returns the memory in use that none of the counted fields covers: mostly pages of drivers.
    /// `None` where a field is unknown. It is negative only while figures move between two files.
    pub fn remainder(&self) -> Option<i64> {
        let heads = [
            self.anon?,
            self.file?,
            self.kernel?,
            self.huge?,
            self.cpu_lists?,
        ];
        let known: u64 = heads.iter().map(|head| head.0).sum();
        let used = self.total.0.saturating_sub(self.free.0);
        Some(used.cast_signed() - (known + self.shmem.0).cast_signed())
    }
}
