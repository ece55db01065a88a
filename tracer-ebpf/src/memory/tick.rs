//! `timer/hrtimer_expire_entry(timer, now)`: a timer of this CPU has expired, mostly its tick: whether the process that runs here has grown since
//! it was looked at last.
//!
//! Format (6.18): `hrtimer, now, function, softexpires`; no argument is read. Rate: `CONFIG_HZ` (100 to 1000 a second) for each busy CPU, and
//! timers of high resolution, of which one each half millisecond is followed; an idle CPU has none. What is not watched costs one lookup, and a page fault costs nothing: a
//! tracepoint there (`kmem/rss_stat`) costs 3 to 4 % of each fault, whatever its program does. A step is a move of max(1 MiB, 1/64 of what is
//! resident), or what was faulted in between two ticks; the last 64 are kept in the map, and nothing is sent. Without ticks
//! (`nohz_full`, no timers of high resolution) growth is known from samples alone.
//!
//! Each 16 MiB of private and shared memory that a thread of a Python process has grown are told, with its stack. What grew is the running thread's
//! if that took the faults: another one may run elsewhere, or have run just before. Where it is another one's than the growth before, it begins anew:
//! what two threads grew never adds up. A thread that runs no Python works for another one, mostly the main thread, whose stack is told as that.

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

/// Ticks are 1 to 10 ms apart. A timer that expires so soon after the last one is another one: audio, storage and some runtimes have 50,000 a second.
const APART_NS: u64 = 500_000;
/// Pages of 16 MiB, at 4 KiB a page.
const LARGE: i64 = 4096;
/// And of a huge page, which is one fault.
const HUGE: u64 = 512;
/// Of one process so many are told in a second.
const A_SECOND: u64 = 100;
/// `MM_ANONPAGES`, `MM_SHMEMPAGES` (include/linux/mm_types_task.h).
const ANON: usize = 1;
const SHMEM: usize = 3;

#[inline(always)]
fn ticked<const TYPED: bool>(_timer: u64, _now: u64) {
    // SAFETY: the helper takes nothing and always answers.
    let time = unsafe { bpf_ktime_get_boot_ns() };
    if !is_apart(time) {
        return;
    }
    let ids = bpf_get_current_pid_tgid();
    let tgid = (ids >> 32) as u32;
    let Some(watched) = WATCHED.get_ptr_mut(tgid) else {
        return;
    };
    // SAFETY: a map value stays valid during the program. Threads of one process may be looked at at once: what one of them writes
    // is lost then, and the next look has the sum.
    let watched = unsafe { &mut *watched };
    // SAFETY: the helper takes nothing and always answers.
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

/// Whether no other timer of this CPU was followed just before.
#[inline(always)]
fn is_apart(time: u64) -> bool {
    let Some(last) = FOLLOWED.get_ptr_mut(0) else {
        return true;
    };
    // SAFETY: this CPU's own slot.
    unsafe {
        if time.wrapping_sub(*last) < APART_NS {
            return false;
        }
        *last = time;
    }
    true
}

/// Whether the running thread has grown the process since a thread was last seen to, and if that is much with what it grew before: tells it.
#[inline(always)]
fn grown(steps: &mut Watched, now: [i64; 2], faults: u64, ids: u64, python: &Python, time: u64) {
    // What was given back and is taken again has grown.
    lower(&mut steps.seen, now);
    lower(&mut steps.told, now);
    let moved = since(steps.seen, now, 0) + since(steps.seen, now, 1);
    if moved < SMALLEST {
        steps.settled = time;
        return;
    }
    // Half of it would do: the counters are sums of each CPU's, a batch late.
    if faults * HUGE * 2 < moved as u64 {
        // It is another thread's, which comes by within a second, or nobody's: pages that were put there from outside.
        if time.wrapping_sub(steps.settled) >= SECOND_NS {
            steps.seen = now;
            steps.told = now;
            steps.settled = time;
        }
        return;
    }
    let (tgid, tid) = (ids >> 32, ids & 0xffff_ffff);
    // What runs no Python works for the main thread.
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

/// What fell begins anew.
#[inline(always)]
fn lower(levels: &mut [i64; 2], now: [i64; 2]) {
    if levels[0] > now[0] {
        levels[0] = now[0];
    }
    if levels[1] > now[1] {
        levels[1] = now[1];
    }
}

/// What has grown since that, in pages.
#[inline(always)]
fn since(levels: [i64; 2], now: [i64; 2], of: usize) -> i64 {
    now[of] - levels[of]
}

/// The faults that a thread took since it was last seen here; none where that was never: those of its whole life are no news.
#[inline(always)]
fn faults(task: u64, tid: u32) -> u64 {
    let now: u64 = read(task, offset!(task_min_flt));
    let Some(known) = FAULTS.get_ptr_mut(tid) else {
        let _full = FAULTS.insert(tid, now, 0);
        return 0;
    };
    // SAFETY: a map value stays valid during the program, and a thread runs on one CPU.
    let before = unsafe { core::mem::replace(&mut *known, now) };
    // A smaller number is another thread's.
    if now < before { now } else { now - before }
}

/// Emits which process grew by much, with its stack; at most so often a second.
#[inline(always)]
fn emit(ids: u64, python: &Python, time: u64, steps: &mut Watched) {
    let private = since(steps.told, steps.seen, 0);
    let shared = since(steps.told, steps.seen, 1);
    if private + shared < LARGE {
        return;
    }
    // What is not told now is not the next one's.
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
        // SAFETY: the record is reserved.
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
    // SAFETY: the record is reserved.
    unsafe { fill(record.as_mut_ptr(), growth, python) };
    record.submit(WAKEUP);
    true
}

/// SAFETY: `place` is of a reserved record.
#[inline(always)]
unsafe fn fill(place: *mut GrowthWithPython, growth: Growth, python: &Python) {
    // SAFETY: as said above.
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

/// A counter of an mm: since 6.2 a `percpu_counter`, whose batched total errs by a batch (1 MiB on 128 CPUs) a CPU that moved it.
#[inline(always)]
fn counter(mm: u64, member: usize) -> i64 {
    // Each member has an offset of its own that the verifier knows.
    let offset = match member {
        0 => offset!(mm_counts[0]),
        1 => offset!(mm_counts[1]),
        2 => offset!(mm_counts[2]),
        _ => offset!(mm_counts[3]),
    };
    read(mm, offset)
}
