//! Names what a log may warn of that is no kill.

/// Something that a text warns of and that is no kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warning {
    /// Memory of a GPU ran out.
    GpuMemory,
    /// Too little of a GPU's memory is left for vLLM's KV cache.
    KvCache,
    /// `/dev/shm` is too small or full.
    SharedMemory,
    /// The object store is full: spilling, fallback allocation.
    ObjectStore,
    /// A disk is full.
    Disk,
    /// An allocation was refused (`MemoryError`): nobody was killed.
    Allocation,
    /// A setting was refused or has no effect.
    Setting,
    /// Ray's monitor wanted to kill and found no process.
    NoVictim,
}
