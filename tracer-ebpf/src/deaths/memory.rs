//! Reads the memory counters and the title of a process from its mm.

use aya_ebpf::helpers::generated;
use raytrace_ebpf::records::{Memory, TITLE};

use super::{kernel::argument_range, maps::offsets};
use crate::read::read;

/// The counters of a process of which nothing could be read.
pub(crate) const UNKNOWN: Memory = Memory {
    file: -1,
    anon: -1,
    swap: -1,
    shmem: -1,
    peak: -1,
};

/// The maximum number of CPUs whose slots are summed. What further CPUs hold back stays in the
/// error.
const MAX_CPUS: u32 = 512;
/// The maximum number of CPUs with which a hook that runs at each call of Ray reads all slots. With
/// more, it reads only the slots of its own CPU.
const FEW_CPUS: u32 = 2;
/// The number of counters: `MM_FILEPAGES` 0, `MM_ANONPAGES` 1, `MM_SWAPENTS` 2, `MM_SHMEMPAGES` 3
/// (since 4.5).
const MEMBERS: usize = 4;

/// Returns the counters of an mm, in pages.
#[inline(always)]
pub(crate) fn of(mm: u64, signal: u64) -> Memory {
    read_all(mm, signal, false)
}

/// Returns the same in a time that does not grow with the number of CPUs.
///
/// With more than two CPUs it reads only the slots of the current CPU. What the other CPUs hold
/// back is in the error: less than a batch each, max(32, 2 × CPUs) pages
/// (include/linux/percpu_counter.h).
#[inline(always)]
pub(crate) fn quickly(mm: u64, signal: u64) -> Memory {
    read_all(mm, signal, offsets().cpus > FEW_CPUS)
}

#[inline(always)]
fn read_all(mm: u64, signal: u64, this_cpu: bool) -> Memory {
    if mm == 0 {
        let peak: u64 = read(signal, offsets().signal_maxrss);
        return Memory {
            peak: peak as i64,
            ..UNKNOWN
        };
    }
    let base = mm + u64::from(offsets().mm_rss_stat);
    let [file, anon, swap, shmem] = if offsets().percpu_counter_size == 0 {
        read(base, 0)
    } else {
        percpu_counters(base, this_cpu)
    };
    let resident = file + anon + shmem;
    let high: u64 = read(mm, offsets().mm_hiwater_rss);
    let high = high as i64;
    Memory {
        file,
        anon,
        swap,
        shmem,
        peak: if high > resident { high } else { resident },
    }
}

/// Returns the values of the `percpu_counter`s: the batched totals plus what each CPU, or only the
/// current one, holds back.
#[inline(always)]
fn percpu_counters(base: u64, this_cpu: bool) -> [i64; MEMBERS] {
    let (mut totals, slots) = totals_and_slots(base);
    let table = offsets().per_cpu_offset;
    if table == 0 || slots[0] == 0 {
        return totals;
    }
    if this_cpu {
        // SAFETY: the helper takes no arguments and cannot fail.
        let cpu = unsafe { generated::bpf_get_smp_processor_id() };
        add_slots(&mut totals, &slots, read(table, cpu * 8));
        return totals;
    }
    for cpu in 0..MAX_CPUS {
        if cpu >= offsets().cpus {
            break;
        }
        add_slots(&mut totals, &slots, read(table, cpu * 8));
    }
    totals
}

/// Returns the batched totals and the addresses of their per-CPU slots. A counter of the usual 40
/// bytes is `{lock, count, list[2], counters}`; four of them are read at once.
#[inline(always)]
fn totals_and_slots(base: u64) -> ([i64; MEMBERS], [u64; MEMBERS]) {
    let (size, count) = (
        offsets().percpu_counter_size,
        offsets().percpu_counter_count,
    );
    let counters = offsets().percpu_counter_counters;
    if size == 40 && count == 8 && counters == 32 {
        let all: [[u64; 5]; MEMBERS] = read(base, 0);
        return (all.map(|one| one[1] as i64), all.map(|one| one[4]));
    }
    let mut totals = [0; MEMBERS];
    let mut slots = [0; MEMBERS];
    for member in 0..MEMBERS {
        let counter = base + u64::from(size * member as u32);
        totals[member] = read(counter, count);
        slots[member] = read(counter, counters);
    }
    (totals, slots)
}

/// Adds what one CPU holds back; its per-CPU memory is at `offset`. The four slots are adjacent
/// because they are allocated together (`percpu_counter_init_many`, 6.6).
#[inline(always)]
fn add_slots(totals: &mut [i64; MEMBERS], slots: &[u64; MEMBERS], offset: u64) {
    let first = slots[0].wrapping_add(offset);
    let held: [i32; MEMBERS] = if slots[MEMBERS - 1].wrapping_sub(slots[0]) == 12 {
        read(first, 0)
    } else {
        slots.map(|slot| read(slot.wrapping_add(offset), 0))
    };
    for member in 0..MEMBERS {
        totals[member] += i64::from(held[member]);
    }
}

/// Reads the first bytes at `arg_start` of the current process. Returns the number of valid bytes,
/// or −1 if they are unreadable.
#[inline(always)]
pub(crate) fn title(mm: u64, to: *mut u8) -> i32 {
    let (start, end) = argument_range(mm);
    if start == 0 || end <= start {
        return -1;
    }
    let mut length = end - start;
    if length > TITLE as u64 {
        length = TITLE as u64;
    }
    // SAFETY: the destination has `TITLE` bytes. The helper checks the source.
    let failed =
        unsafe { generated::bpf_probe_read_user(to.cast(), length as u32, start as *const _) };
    if failed != 0 { -1 } else { length as i32 }
}
