//! A process's memory and title, read from its mm.

use aya_ebpf::helpers::generated;
use raytrace_ebpf::records::{Memory, TITLE};

use super::maps::offsets;
use crate::read::read;

/// Nothing could be read.
pub(crate) const UNKNOWN: Memory = Memory {
    file: -1,
    anon: -1,
    swap: -1,
    shmem: -1,
    peak: -1,
};

/// More CPUs than this are not summed; their batch stays in the error.
const MAX_CPUS: u32 = 512;
/// Where a hook runs at each call of Ray, so many slots of CPUs are read at most, all counters together.
const FEW_SLOTS: u32 = 8;

/// The counters of an mm, in pages. `MM_FILEPAGES` 0, `MM_ANONPAGES` 1, `MM_SWAPENTS` 2, `MM_SHMEMPAGES` 3 (since 4.5).
#[inline(always)]
pub(crate) fn of(mm: u64, signal: u64) -> Memory {
    read_all(mm, signal, counter)
}

/// The same in a time that does not grow with the number of CPUs: of more than two only this one's slots are read. What the others hold back is
/// in the error: less than a batch each, max(32, 2 × CPUs) pages (include/linux/percpu_counter.h).
#[inline(always)]
pub(crate) fn quickly(mm: u64, signal: u64) -> Memory {
    read_all(mm, signal, quick_counter)
}

#[inline(always)]
fn read_all(mm: u64, signal: u64, counter: impl Fn(u64) -> i64) -> Memory {
    if mm == 0 {
        let peak: u64 = read(signal, offsets().signal_maxrss);
        return Memory {
            peak: peak as i64,
            ..UNKNOWN
        };
    }
    let mut memory = Memory {
        file: 0,
        anon: 0,
        swap: 0,
        shmem: 0,
        peak: 0,
    };
    let base = mm + u64::from(offsets().mm_rss_stat);
    let size = offsets().percpu_counter_size;
    if size == 0 {
        memory.file = read(base, 0);
        memory.anon = read(base, 8);
        memory.swap = read(base, 16);
        memory.shmem = read(base, 24);
    } else {
        memory.file = counter(base);
        memory.anon = counter(base + u64::from(size));
        memory.swap = counter(base + u64::from(size) * 2);
        memory.shmem = counter(base + u64::from(size) * 3);
    }
    let resident = memory.file + memory.anon + memory.shmem;
    let high: u64 = read(mm, offsets().mm_hiwater_rss);
    let high = high as i64;
    memory.peak = if high > resident { high } else { resident };
    memory
}

/// A `percpu_counter`: its batched total and what this CPU holds back; where there are few CPUs, what each of them does.
#[inline(always)]
fn quick_counter(base: u64) -> i64 {
    if offsets().cpus <= FEW_SLOTS / 4 {
        return counter(base);
    }
    let total: i64 = read(base, offsets().percpu_counter_count);
    let counters: u64 = read(base, offsets().percpu_counter_counters);
    let table = offsets().per_cpu_offset;
    if table == 0 || counters == 0 {
        return total;
    }
    // SAFETY: the helper takes nothing and always answers.
    let cpu = unsafe { generated::bpf_get_smp_processor_id() };
    let offset: u64 = read(table, cpu * 8);
    let held: i32 = read(counters.wrapping_add(offset), 0);
    total + i64::from(held)
}

/// A `percpu_counter`: its batched total and what each CPU holds back.
#[inline(always)]
fn counter(base: u64) -> i64 {
    let mut total: i64 = read(base, offsets().percpu_counter_count);
    let counters: u64 = read(base, offsets().percpu_counter_counters);
    let table = offsets().per_cpu_offset;
    if table == 0 || counters == 0 {
        return total;
    }
    for cpu in 0..MAX_CPUS {
        if cpu >= offsets().cpus {
            break;
        }
        let offset: u64 = read(table, cpu * 8);
        let held: i32 = read(counters.wrapping_add(offset), 0);
        total += i64::from(held);
    }
    total
}

/// The first bytes at `arg_start` of the current process; returns how many are valid, −1 when unreadable.
#[inline(always)]
pub(crate) fn title(mm: u64, to: *mut u8) -> i32 {
    if mm == 0 {
        return -1;
    }
    let start: u64 = read(mm, offsets().mm_arg_start);
    let end: u64 = read(mm, offsets().mm_arg_end);
    if start == 0 || end <= start {
        return -1;
    }
    let mut length = end - start;
    if length > TITLE as u64 {
        length = TITLE as u64;
    }
    // SAFETY: the destination has TITLE bytes; the helper checks the source.
    let failed =
        unsafe { generated::bpf_probe_read_user(to.cast(), length as u32, start as *const _) };
    if failed != 0 { -1 } else { length as i32 }
}
