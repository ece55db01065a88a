//! Notes lines that warn of full memory or look like a memory kill, and after-effects of deaths.
//!
//! Warnings concern GPU memory, `/dev/shm`, the object store, disks, refused allocations and
//! settings. After-effects follow any sudden death.

use super::line::LogLine;
use crate::{
    judge::{
        from_text::claim::{NotedLine, Place, TextRemarks},
        warning::Warning,
    },
    ray::log::after_effects,
};

/// Keywords of each warning. GPU memory comes first: torch before and after 2.5, CUDA itself, XLA,
/// vLLM.
pub(super) const KEYWORDS: [(&str, Warning); 37] = [
    ("CUDA out of memory", Warning::GpuMemory),
    ("OutOfMemoryError: CUDA", Warning::GpuMemory),
    ("HIP out of memory", Warning::GpuMemory),
    ("CUDA error: out of memory", Warning::GpuMemory),
    ("CUDA Error: out of memory", Warning::GpuMemory),
    ("CUDA driver error: out of memory", Warning::GpuMemory),
    ("Cuda failure 'out of memory'", Warning::GpuMemory),
    ("CUDA_ERROR_OUT_OF_MEMORY", Warning::GpuMemory),
    ("cudaErrorMemoryAllocation", Warning::GpuMemory),
    ("CUBLAS_STATUS_ALLOC_FAILED", Warning::GpuMemory),
    ("RESOURCE_EXHAUSTED: Out of memory", Warning::GpuMemory),
    ("No available memory for the cache blocks", Warning::KvCache),
    (
        "larger than the available KV cache memory",
        Warning::KvCache,
    ),
    (
        "less than desired GPU memory utilization",
        Warning::GpuMemory,
    ),
    (
        "instead of /dev/shm because /dev/shm has only",
        Warning::SharedMemory,
    ),
    ("insufficient shared memory (shm)", Warning::SharedMemory),
    ("unable to write to file </torch_", Warning::SharedMemory),
    ("unable to allocate shared memory", Warning::SharedMemory),
    ("are out of shared memory", Warning::SharedMemory),
    ("No space left on device: '/dev/shm", Warning::SharedMemory),
    ("Triggering object spilling because", Warning::ObjectStore),
    (":info_message:Spilled ", Warning::ObjectStore),
    (" objects, write throughput ", Warning::ObjectStore),
    ("Shared memory store full", Warning::ObjectStore),
    (
        "falling back to allocating from filesystem",
        Warning::ObjectStore,
    ),
    ("ObjectStoreFullError", Warning::ObjectStore),
    ("object store is full", Warning::ObjectStore),
    ("OutOfDiskError", Warning::Disk),
    ("No space left on device", Warning::Disk),
    (
        "Object creation will fail if spilling is required",
        Warning::Disk,
    ),
    ("MemoryError: Unable to allocate", Warning::Allocation),
    ("std::bad_alloc", Warning::Allocation),
    ("Cannot allocate memory", Warning::Allocation),
    ("Error: No such option", Warning::Setting),
    (
        "Attempting to cap object store memory usage",
        Warning::Setting,
    ),
    (
        "but no workers are available for killing",
        Warning::NoVictim,
    ),
    (
        "Worker killer did not select any workers",
        Warning::NoVictim,
    ),
];

/// The page that messages of Ray up to 2.57 link to (in `ray-core/scheduling/`); it has moved
/// since.
const OLD_PAGE: &str = "ray-oom-prevention.html";

/// Returns the keywords of these lines.
pub(super) fn keywords() -> impl Iterator<Item = &'static str> {
    let warnings = KEYWORDS.iter().map(|(words, _)| *words);
    let effects = after_effects::WORDS.iter().map(|(words, _)| *words);
    warnings.chain(effects).chain([OLD_PAGE])
}

/// Notes what a line warns of.
pub(super) fn line(line: &LogLine, place: Place, claimed: bool, remarks: &mut TextRemarks) {
    let text = line.text.as_str();
    remarks.old_page |= text.contains(OLD_PAGE);
    let weight = 1 + line.repeated;
    // earlyoom prints this at its own start, and goes on.
    let harmless = text.contains("Could not lock memory");
    let warning = line.keywords.warning.filter(|_| !harmless);
    if let Some((_, warning)) = warning.and_then(|number| KEYWORDS.get(number)) {
        note(
            remarks.warnings.entry(*warning).or_default(),
            text,
            place,
            weight,
        );
    }
    // A line that reports a death is not its after-effect.
    let effect = line.keywords.after_effect.filter(|_| !claimed);
    let effect = effect.and_then(|number| after_effects::WORDS.get(number - KEYWORDS.len()));
    if let Some((_, kind)) = effect {
        note(
            remarks.after_effects.entry(kind).or_default(),
            text,
            place,
            weight,
        );
    }
}

fn note(noted: &mut NotedLine, text: &str, place: Place, weight: u64) {
    if noted.count == 0 {
        noted.place = place;
        noted.quote = super::cut(text);
    }
    noted.count += weight;
}
