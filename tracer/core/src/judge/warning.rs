//! Names what a log may warn of that is no kill.

use std::sync::LazyLock;

use serde::Deserialize;

/// Words of lines, and what they warn of, in the order in which they are searched. GPU memory comes
/// first: torch before and after 2.5, CUDA itself, XLA, vLLM.
#[expect(clippy::expect_used, reason = "the file is read in tests")]
pub static WORDS: LazyLock<Vec<(String, Warning)>> =
    LazyLock::new(|| serde_json::from_str(include_str!("warnings.json")).expect("a valid file"));

/// Something that a text warns of and that is no kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warning {
    /// Memory of a GPU ran out.
    GpuMemory,
    /// Too little of a GPU's memory is left for vLLM's KV cache.
    KvCache,
    /// `/dev/shm` is too small or full.
    SharedMemory,
    /// The object store is short of room: spilling, fallback allocation, a refused put.
    ObjectStore,
    /// A disk is full or nearly full.
    Disk,
    /// An allocation was refused (`MemoryError`): nobody was killed.
    Allocation,
    /// Ray up to 1.13 raised an error before a task, because the node's memory was nearly full.
    NodeMemory,
    /// No thread or process could be started, at a limit on their number.
    Threads,
    /// A setting was refused or has no effect.
    Setting,
    /// Ray's monitor wanted to kill and found no process.
    NoVictim,
}
