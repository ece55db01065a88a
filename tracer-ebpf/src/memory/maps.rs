//! The maps: watched processes, their last steps, the ring, the ledger; all preallocated.

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf},
};
use raytrace_ebpf::records::{
    self, Level, MEMBERS, MemoryHook, MemoryOffsets, Python, Steps, Watched, ledger,
};

/// Offsets in this kernel's structs, set before the load; the verifier then takes them for constants.
#[unsafe(no_mangle)]
pub(crate) static OFFSETS: MemoryOffsets = MemoryOffsets {
    task_mm: 0,
    mm_counts: [0; MEMBERS],
    unmapped_length: 0,
    task_thread_pointer: 0,
    task_min_flt: 0,
    has_registers: 0,
};

/// An offset, read so that the compiler cannot fold the zeros above.
macro_rules! offset {
    ($($field:tt)+) => {{
        let field = &raw const $crate::memory::maps::OFFSETS.$($field)+;
        // SAFETY: the static is initialised and never written by programs.
        unsafe { core::ptr::read_volatile(field) }
    }};
}

pub(crate) use offset;

/// Watched processes by tgid, added and removed by user space: 16,384 × about 200 bytes = 3.1 MiB of kernel memory.
#[map]
pub(crate) static WATCHED: HashMap<u32, Watched> =
    HashMap::with_max_entries(records::WATCHED as u32, 0);

/// `BPF_F_MMAPABLE` (5.5): user space reads the values where they are.
const MMAPABLE: u32 = 1 << 10;

/// What each of them had at its last look, in the place that user space gave it: 16,384 × 48 bytes = 0.8 MiB.
#[map]
pub(crate) static LEVELS: Array<Level> = Array::with_max_entries(records::WATCHED as u32, MMAPABLE);

/// When a timer of each CPU was last followed.
#[map]
pub(crate) static FOLLOWED: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Python processes whose interpreter is known, by tgid, added and removed by user space: 2,048 × about 100 bytes = 0.2 MiB.
#[map]
pub(crate) static PYTHONS: HashMap<u32, Python> = HashMap::with_max_entries(2_048, 0);

/// The last steps of those that took one; of more, those whose last step is the oldest give up theirs: 2,048 × about 1.1 KiB = 2.2 MiB.
#[map]
pub(crate) static STEPS: LruHashMap<u32, Steps> = LruHashMap::with_max_entries(2_048, 0);

/// A process's first step is put together here before it is copied into the map.
#[map]
pub(crate) static STEPS_SCRATCH: PerCpuArray<Steps> = PerCpuArray::with_max_entries(1, 0);

/// The faults of each thread of a Python process when it was last seen: 16,384 × about 80 bytes = 1.3 MiB. Each CPU takes 128 of them at
/// a time, so that fewer would be given up early where there are 100.
#[map]
pub(crate) static FAULTS: LruHashMap<u32, u64> = LruHashMap::with_max_entries(16_384, 0);

/// The ring for mappings and growth: 1 MiB, room for 116 records with a native stack; deaths have their own.
#[map]
pub(crate) static MAPPINGS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// `BPF_RB_FORCE_WAKEUP`
pub(crate) const WAKEUP: u64 = 2;

/// The loss ledger: a row a hook.
#[map]
pub(crate) static LEDGER: PerCpuArray<u64> =
    PerCpuArray::with_max_entries(MemoryHook::COUNT as u32 * ledger::COLUMNS, 0);

/// Adds one to a column of a hook's row.
#[inline(always)]
pub(crate) fn count(hook: MemoryHook, column: u32) {
    if let Some(counter) = LEDGER.get_ptr_mut(hook.row() * ledger::COLUMNS + column) {
        // SAFETY: the pointer is this CPU's own slot, of one program alone, which the kernel does not run twice at once on a CPU.
        unsafe { *counter += 1 };
    }
}
