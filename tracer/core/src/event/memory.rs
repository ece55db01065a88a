//! Memory: of processes, cgroups, `/dev/shm` and the machine.

use crate::ids::{BootTime, Bytes, Pid, ProcessKey};

/// A process's memory, as the kernel counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemorySplit {
    /// Anonymous pages.
    pub anon: Option<Bytes>,
    /// File pages.
    pub file: Option<Bytes>,
    /// Shared memory that it has mapped and touched.
    pub shmem: Option<Bytes>,
    /// Swap entries.
    pub swap: Option<Bytes>,
    /// Highest resident size.
    pub peak: Option<Bytes>,
    /// Of the anonymous pages, those that count as this process's: a page that a forked child
    /// shares with its parent counts once, as the parent's. `None` where nothing is shared so, or
    /// nobody looked.
    pub own: Option<Bytes>,
}

impl MemorySplit {
    /// Private memory: the anonymous pages that are its own.
    #[must_use]
    pub fn private(&self) -> Option<Bytes> {
        self.own.or(self.anon)
    }

    /// Resident memory, if any part is known.
    #[must_use]
    pub fn resident(&self) -> Option<Bytes> {
        let parts = [self.anon, self.file, self.shmem];
        parts
            .iter()
            .any(Option::is_some)
            .then(|| Bytes(parts.iter().flatten().map(|part| part.0).sum()))
    }
}

/// The file system at `/dev/shm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedMemory {
    /// The raylet in whose mounts it was looked at.
    pub raylet: ProcessKey,
    /// Its size.
    pub total: Bytes,
    /// In use.
    pub used: Bytes,
}

/// A file that is shared memory, mapped by many or by nobody: of tmpfs, a memfd, a shared mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedFile {
    /// Device and inode: the object store is one file, however many have mapped it.
    pub device: u64,
    /// See `device`.
    pub inode: u64,
    /// Its path as its process sees it, or `memfd:NAME`.
    pub name: String,
    /// Its pages; 0 once it is gone.
    pub bytes: Bytes,
    /// Tracked processes that have it open or mapped, the likeliest owner first: a raylet, then who has it open, then the oldest. Four at
    /// most.
    pub holders: Vec<ProcessKey>,
    /// How many there are.
    pub holder_count: u32,
    /// µs of CPU time that all looks for such files have taken so far.
    pub looked_us: u64,
}

/// A memory cgroup's figures, those of the cgroups below it included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CgroupState {
    /// Path from the root of the memory hierarchy.
    pub path: String,
    /// Bytes charged.
    pub usage: Bytes,
    /// Limit; `None` for no limit.
    pub limit: Option<Bytes>,
    /// Kills by its OOM killer so far; `None` where the file is not readable.
    pub oom_kills: Option<u64>,
    /// Anonymous memory.
    pub anon: Option<Bytes>,
    /// Page cache on the file lists: the kernel takes it back before it kills.
    pub file: Option<Bytes>,
    /// Shared memory and tmpfs files, mapped or not.
    pub shmem: Option<Bytes>,
    /// Kernel memory charged to it.
    pub kernel: Option<Bytes>,
    /// In swap.
    pub swap: Option<Bytes>,
    /// µs in which at least one of its tasks waited for memory, since boot; `None` where the kernel does not count.
    pub stalled_us: Option<u64>,
}

impl CgroupState {
    /// Its limit, where it can be met: below all that the machine has.
    #[must_use]
    pub fn binding(&self, node: &NodeMemory) -> Option<Bytes> {
        self.limit.filter(|limit| *limit < node.total)
    }

    /// What the kernel cannot take back: it kills when that meets the limit.
    #[must_use]
    pub fn needed(&self) -> Bytes {
        Bytes(self.usage.0.saturating_sub(self.file.unwrap_or_default().0))
    }
}

/// What the memory monitor of a raylet counts, read by raytrace as that version of Ray computes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonitorCount {
    /// The raylet.
    pub raylet: ProcessKey,
    /// In use.
    pub used: Bytes,
    /// It kills above this, by the settings in the raylet's environment.
    pub threshold: Bytes,
}

/// Memory of one process, sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    /// The process.
    pub process: ProcessKey,
    /// Its memory; `peak` only where /proc/PID/status was read.
    pub memory: MemorySplit,
}

/// `mmap/vm_unmapped_area`: what a thread maps, from 1 MiB up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapped {
    /// Which process.
    pub process: ProcessKey,
    /// The thread.
    pub tid: Pid,
    /// How much, by this call.
    pub bytes: Bytes,
    /// And by all calls of the process since its last event, this one included.
    pub all_bytes: Bytes,
    /// How many these were.
    pub calls: u32,
}

/// A part of a process's memory, as the kernel counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// A move of one part by max(1 MiB, 1/64 of what was resident).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The time.
    pub time: BootTime,
    /// What moved.
    pub part: MemoryPart,
    /// To where.
    pub bytes: Bytes,
}

/// Memory of a process that is not tracked, one of the machine's biggest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideMemory {
    /// The process.
    pub process: ProcessKey,
    /// Its name: the program and what it runs, without arguments that may be secret.
    pub name: String,
    /// Path of its memory cgroup.
    pub cgroup: Option<String>,
    /// Its memory.
    pub memory: MemorySplit,
}

/// Memory of the machine and what Ray's monitor makes of it, sampled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    /// `AnonPages`.
    pub anon: Option<Bytes>,
    /// Page cache without shared memory: `Buffers` + `Cached` + `SwapCached` − `Shmem`.
    pub file: Option<Bytes>,
    /// Slab, page tables, per-CPU and vmalloc memory (stacks are there).
    pub kernel: Option<Bytes>,
    /// Set aside as huge pages of hugetlbfs, used or not.
    pub huge: Option<Bytes>,
    /// Free pages in the lists of CPUs, which `MemFree` leaves out.
    pub cpu_lists: Option<Bytes>,
    /// µs in which at least one task of the machine waited for memory, since boot.
    pub stalled_us: Option<u64>,
    /// Private memory of all processes outside Ray, counted one by one; `None` where that was not
    /// done for this row.
    pub others: Option<Bytes>,
}

impl NodeMemory {
    /// What is in use.
    #[must_use]
    pub fn used(&self) -> Bytes {
        Bytes(self.total.0.saturating_sub(self.available.0))
    }

    /// What is in use and under none of the counted heads: drivers' pages, mostly. `None` where a head is unknown; negative only
    /// while figures move between two files.
    #[must_use]
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
