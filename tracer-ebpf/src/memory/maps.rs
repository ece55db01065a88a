//! The maps: watched processes, their levels and last steps, the ring and the ledger.
//!
//! All of them are preallocated.

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf},
};
use raytrace_ebpf::records::{
    self, Level, MEMBERS, MemoryHook, MemoryOffsets, Python, Steps, Watched, ledger,
};

/// Offsets in the structs of the running kernel, set before the load. For the verifier they are
/// constants.
#[unsafe(no_mangle)]
pub(crate) static OFFSETS: MemoryOffsets = MemoryOffsets {
    task_mm: 0,
    mm_counts: [0; MEMBERS],
    unmapped_length: 0,
    task_thread_pointer: 0,
    task_min_flt: 0,
    has_registers: 0,
};

/// Reads an offset so that the compiler cannot fold the zeroes above.
macro_rules! offset {
    ($($field:tt)+) => {{
        let field = &raw const $crate::memory::maps::OFFSETS.$($field)+;
        // SAFETY: the static is initialized, and no program writes it.
        unsafe { core::ptr::read_volatile(field) }
    }};
}

pub(crate) use offset;

/// The watched processes by tgid: 16,384 × about 200 bytes = 3.1 MiB of kernel memory. User space
/// adds and removes them.
#[map]
pub(crate) static WATCHED: HashMap<u32, Watched> =
    HashMap::with_max_entries(records::WATCHED as u32, 0);

/// `BPF_F_MMAPABLE` (5.5): user space can map the values and read them in place.
const MMAPABLE: u32 = 1 << 10;

/// The last counters of each watched process, in the slot that user space chose: 16,384 × 48 bytes
/// = 0.8 MiB.
#[map]
pub(crate) static LEVELS: Array<Level> = Array::with_max_entries(records::WATCHED as u32, MMAPABLE);

/// The time of the last timer that the program handled on each CPU.
#[map]
pub(crate) static FOLLOWED: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Python processes whose interpreter is known, by tgid: 2,048 × about 100 bytes = 0.2 MiB. User
/// space adds and removes them.
#[map]
pub(crate) static PYTHONS: HashMap<u32, Python> = HashMap::with_max_entries(2_048, 0);

/// The last steps of processes that took one: 2,048 × about 1.1 KiB = 2.2 MiB. If there are more
/// processes, those whose last step is the oldest are evicted.
#[map]
pub(crate) static STEPS: LruHashMap<u32, Steps> = LruHashMap::with_max_entries(2_048, 0);

/// Scratch space for the first step of a process, before it is copied into the map.
#[map]
pub(crate) static STEPS_SCRATCH: PerCpuArray<Steps> = PerCpuArray::with_max_entries(1, 0);

/// The page faults of each thread of a Python process when the program last saw it: 16,384 × about
/// 80 bytes = 1.3 MiB. Each CPU reserves 128 entries at a time, so a smaller map would evict
/// entries too early on a machine with 100 CPUs.
#[map]
pub(crate) static FAULTS: LruHashMap<u32, u64> = LruHashMap::with_max_entries(16_384, 0);

/// The ring of mappings and growth: 1 MiB, room for 116 records with a native stack. Deaths have
/// another ring.
#[map]
pub(crate) static MAPPINGS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// `BPF_RB_FORCE_WAKEUP`.
pub(crate) const WAKEUP: u64 = 2;

/// The loss ledger: one row for each hook.
#[map]
pub(crate) static LEDGER: PerCpuArray<u64> =
    PerCpuArray::with_max_entries(MemoryHook::COUNT as u32 * ledger::COLUMNS, 0);

/// Adds 1 to a column of a hook's row.
#[inline(always)]
pub(crate) fn count(hook: MemoryHook, column: u32) {
    if let Some(counter) = LEDGER.get_ptr_mut(hook.row() * ledger::COLUMNS + column) {
        // SAFETY: the pointer is to this CPU's slot of a counter that only one program writes. The
        // kernel does not run this program twice at once on a CPU.
        unsafe { *counter += 1 };
    }
}
