//! `timer/hrtimer_expire_entry(timer, now)`: checks whether the running process has grown.
//!
//! Format (6.18): `hrtimer, now, function, softexpires`; no argument is read. The timers of a CPU
//! are mostly its tick. Rate: `CONFIG_HZ` (100 to 1000 per second) for each busy CPU, plus other
//! high-resolution timers. The program handles one timer per half millisecond. An idle CPU has no
//! tick. A process that is not watched costs one lookup, and a page fault costs nothing: a
//! tracepoint there (`kmem/rss_stat`) costs 3 to 4 % of each fault, whatever its program does.
//!
//! A step is a change by max(1 MiB, 1/64 of the resident memory), or by what was faulted in between
//! two ticks. The last 64 steps are kept in the map, and none is sent. Without ticks (`nohz_full`,
//! no high-resolution timers) growth is known only from samples.
//!
//! When a thread of a Python process has grown private and shared memory by 16 MiB, the program
//! reports this growth with the thread's stack. Growth is assigned to the running thread if it took
//! the page faults: another thread may run on another CPU, or may have run just before. If a
//! different thread grew before, the sum starts again: the growth of two threads is never added up.
//! A thread that runs no Python works for another thread, mostly the main thread. The stack of the
//! main thread is then reported, and marked as such.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_get_current_task, bpf_ktime_get_boot_ns};
use raytrace_ebpf::records::{
    Growth, GrowthWithNative, GrowthWithPython, Header, Kind, MemoryHook, Process, Python, Watched,
    ledger,
};

use super::{
    hook, levels,
    maps::{FAULTS, FOLLOWED, MAPPINGS, SECOND_NS, WAKEUP, WATCHED, count, offset},
    native,
    python::{self, is_own, stack},
    steps::{self, SMALLEST},
};
use crate::read::read;

hook!(tick_btf, tick_raw, "hrtimer_expire_entry", ticked);

/// The minimum time between two timers that are handled. Ticks are 1 to 10 ms apart. A timer that
/// expires sooner after the last one is not the tick: audio, storage and some runtimes have 50,000
/// per second.
const APART_NS: u64 = 500_000;
/// The number of pages in 16 MiB, at 4 KiB a page.
const LARGE: i64 = 4096;
/// The number of pages in a huge page, which takes one fault.
const HUGE: u64 = 512;
/// The maximum number of records of growth of one process per second.
const A_SECOND: u64 = 100;
/// `MM_ANONPAGES` and `MM_SHMEMPAGES` (include/linux/mm_types_task.h).
const ANON: usize = 1;
const SHMEM: usize = 3;

#[inline(always)]
fn ticked<const TYPED: bool>(_timer: u64, _now: u64) {
    // SAFETY: the helper takes no arguments and cannot fail.
    let time = unsafe { bpf_ktime_get_boot_ns() };
    if !is_apart(time) {
        return;
    }
    let ids = bpf_get_current_pid_tgid();
    let tgid = (ids >> 32) as u32;
    let Some(watched) = WATCHED.get_ptr_mut(tgid) else {
        return;
    };
    // SAFETY: a map value stays valid while the program runs. Threads of one process may be checked
    // at once: what one of them writes is then lost, and the next check contains the sum.
    let watched = unsafe { &mut *watched };
    // SAFETY: the helper takes no arguments and cannot fail.
    let task = unsafe { bpf_get_current_task() };
    let mm: u64 = read(task, offset!(task_mm));
    if mm == 0 {
        return;
    }
    let python = python::of(tgid, watched.start);
    let faults = match python {
        Some(_) => faults(task, ids as u32),
        None => 0,
    };
    let now = [
        counter(mm, 0),
        counter(mm, 1),
        counter(mm, 2),
        counter(mm, 3),
    ];
    levels::looked(watched, now);
    if watched.is_known == 0 {
        watched.is_known = 1;
        watched.last = now;
        watched.seen = [now[ANON], now[SHMEM]];
        watched.told = watched.seen;
        return;
    }
    steps::take(tgid, watched, &now, time);
    if let Some(python) = python {
        grown(watched, [now[ANON], now[SHMEM]], faults, ids, python, time);
    }
}

/// Returns whether the program has handled no other timer of this CPU just before.
#[inline(always)]
fn is_apart(time: u64) -> bool {
    let Some(last) = FOLLOWED.get_ptr_mut(0) else {
        return true;
    };
    // SAFETY: the pointer is to this CPU's slot, which only this program uses.
    unsafe {
        if time.wrapping_sub(*last) < APART_NS {
            return false;
        }
        *last = time;
    }
    true
}

/// Assigns the growth of the process to the running thread, if that thread took the page faults.
///
/// Calls [`emit`], which reports the growth if it is large, together with the thread's earlier
/// growth.
#[inline(always)]
fn grown(steps: &mut Watched, now: [i64; 2], faults: u64, ids: u64, python: &Python, time: u64) {
    // Memory that is given back and taken again counts as growth.
    lower(&mut steps.seen, now);
    lower(&mut steps.told, now);
    let moved = since(steps.seen, now, 0) + since(steps.seen, now, 1);
    if moved < SMALLEST {
        steps.settled = time;
        return;
    }
    // Faults that explain half of the growth are enough: the counters are sums over the CPUs, and
    // lag by a batch.
    if faults * HUGE * 2 < moved as u64 {
        // The growth belongs to another thread, which ticks within a second, or to no thread: the
        // pages came from outside. After a second it is dropped.
        if time.wrapping_sub(steps.settled) >= SECOND_NS {
            steps.seen = now;
            steps.told = now;
            steps.settled = time;
        }
        return;
    }
    let (tgid, tid) = (ids >> 32, ids & 0xffff_ffff);
    // A thread that runs no Python works for the main thread.
    if steps.grower != tid {
        let grower = if is_own(python) { tid } else { tgid };
        if steps.grower != grower {
            steps.grower = grower;
            steps.told = steps.seen;
        }
    }
    steps.seen = now;
    steps.settled = time;
    emit(ids, python, time, steps);
}

/// Lowers the levels to the present memory: after a decrease, growth is counted from there.
#[inline(always)]
fn lower(levels: &mut [i64; 2], now: [i64; 2]) {
    if levels[0] > now[0] {
        levels[0] = now[0];
    }
    if levels[1] > now[1] {
        levels[1] = now[1];
    }
}

/// Returns the growth since `levels`, in pages.
#[inline(always)]
fn since(levels: [i64; 2], now: [i64; 2], of: usize) -> i64 {
    now[of] - levels[of]
}

/// Returns the faults that a thread took since the program last saw it.
///
/// Returns 0 the first time: the faults of its whole life say nothing about the last growth.
#[inline(always)]
fn faults(task: u64, tid: u32) -> u64 {
    let now: u64 = read(task, offset!(task_min_flt));
    let Some(known) = FAULTS.get_ptr_mut(tid) else {
        let _full = FAULTS.insert(tid, now, 0);
        return 0;
    };
    // SAFETY: a map value stays valid while the program runs, and a thread runs on one CPU at a
    // time.
    let before = unsafe { core::mem::replace(&mut *known, now) };
    // A smaller number than before means that the entry is of an earlier thread with this tid.
    if now < before { now } else { now - before }
}

/// Emits the growth of a process, with its stack, if it is 16 MiB or more; at most [`A_SECOND`]
/// times per second.
#[inline(always)]
fn emit(ids: u64, python: &Python, time: u64, steps: &mut Watched) {
    let private = since(steps.told, steps.seen, 0);
    let shared = since(steps.told, steps.seen, 1);
    if private + shared < LARGE {
        return;
    }
    // Growth that is not sent now is not added to the next record.
    steps.told = steps.seen;
    count(MemoryHook::Tick, ledger::SEEN);
    if time.wrapping_sub(steps.grew_window) >= SECOND_NS {
        steps.grew_window = time;
        steps.grew_sent = 0;
    }
    if steps.grew_sent >= A_SECOND {
        return count(MemoryHook::Tick, ledger::FILTERED);
    }
    let growth = Growth {
        header: Header {
            kind: Kind::Growth as u32,
            reserved: 0,
            time,
        },
        process: Process {
            tgid: (ids >> 32) as u32,
            tid: ids as u32,
            start: steps.start,
        },
        private: private as u64,
        shared: shared as u64,
        frames: 0,
        of_main: 0,
    };
    if !send(growth, python) {
        return count(MemoryHook::Tick, ledger::RING_FULL);
    }
    steps.grew_sent += 1;
    count(MemoryHook::Tick, ledger::SUBMITTED);
}

#[inline(always)]
fn send(growth: Growth, python: &Python) -> bool {
    if native::is_here()
        && let Some(mut record) = MAPPINGS.reserve::<GrowthWithNative>(0)
    {
        let place = record.as_mut_ptr();
        // SAFETY: `place` points into a reserved record.
        unsafe {
            fill(&raw mut (*place).by, growth, python);
            native::take(&raw mut (*place).native);
        }
        record.submit(WAKEUP);
        return true;
    }
    let Some(mut record) = MAPPINGS.reserve::<GrowthWithPython>(0) else {
        return false;
    };
    // SAFETY: `place` points into a reserved record.
    unsafe { fill(record.as_mut_ptr(), growth, python) };
    record.submit(WAKEUP);
    true
}

/// Writes the growth and the stack into a reserved record.
///
/// # Safety
/// `place` points into a reserved record.
#[inline(always)]
unsafe fn fill(place: *mut GrowthWithPython, growth: Growth, python: &Python) {
    // SAFETY: the caller guarantees that `place` points into a reserved record.
    unsafe {
        let (frames, own) = stack(python, &raw mut (*place).stack);
        let of_main = u32::from(!own);
        (&raw mut (*place).growth).write(Growth {
            frames,
            of_main,
            ..growth
        });
    }
}

/// Returns a counter of an mm. Since 6.2 it is a `percpu_counter`: its batched total is off by up
/// to one batch (1 MiB on 128 CPUs) for each CPU that changed it.
#[inline(always)]
fn counter(mm: u64, member: usize) -> i64 {
    // Each counter has its own constant, so that the verifier knows the offset.
    let offset = match member {
        0 => offset!(mm_counts[0]),
        1 => offset!(mm_counts[1]),
        2 => offset!(mm_counts[2]),
        _ => offset!(mm_counts[3]),
    };
    read(mm, offset)
}
