//! `timer/hrtimer_expire_entry(timer, now)`: a timer of this CPU has expired, mostly its tick: whether the process that runs here has grown since
//! it was looked at last.
//!
//! Format (6.18): `hrtimer, now, function, softexpires`; no argument is read. Rate: `CONFIG_HZ` (100 to 1000 a second) for each busy CPU, and
//! timers of high resolution; an idle CPU has none. What is not watched costs one lookup, and a page fault costs nothing: a
//! tracepoint there (`kmem/rss_stat`) costs 3 to 4 % of each fault, whatever its program does. A step is a move of max(1 MiB, 1/64 of what is
//! resident), or what was faulted in between two ticks; the last 64 are kept in the map, and nothing is sent. Without ticks
//! (`nohz_full`, no timers of high resolution) growth is known from samples alone.
//!
//! Each 16 MiB of private and shared memory that a thread of a Python process has grown are told, with its stack. What grew is the running thread's
//! if that took the faults: another one may run elsewhere, or have run just before. Where it is another one's than the growth before, it begins anew:
//! what two threads grew never adds up. A thread that runs no Python works for another one, mostly the main thread, whose stack is told as that.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_get_current_task, bpf_ktime_get_boot_ns};
use raytrace_ebpf::records::{
    Grew, GrewBy, GrewDeep, Header, MEMBERS, Process, Python, STEPS as KEPT, Step, Steps, kind,
    ledger,
};

use super::{
    hook,
    maps::{
        FAULTS, MAPPINGS, SECOND_NS, STEPS, STEPS_SCRATCH, WAKEUP, WATCHED, count, offset, row,
    },
    native,
    python::{self, is_own, stack},
    same_start,
};
use crate::read::read;

hook!(tick_btf, tick_raw, "hrtimer_expire_entry", ticked);

/// Pages of 1 MiB, at 4 KiB a page.
const SMALLEST: i64 = 256;
/// And of 16 MiB.
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
    let ids = bpf_get_current_pid_tgid();
    let tgid = (ids >> 32) as u32;
    let Some(watched) = WATCHED.get_ptr(tgid) else {
        return;
    };
    // SAFETY: a map value stays readable during the program.
    let start = unsafe { (*watched).start };
    // SAFETY: the helper takes nothing and always answers.
    let task = unsafe { bpf_get_current_task() };
    let mm: u64 = read(task, offset!(task_mm));
    if mm == 0 {
        return;
    }
    let python = python::of(tgid, start);
    let faults = match python {
        Some(_) => faults(task, ids as u32),
        None => 0,
    };
    let Some(steps) = STEPS.get_ptr_mut(tgid) else {
        return begin(tgid, start, mm);
    };
    // SAFETY: a map value stays valid during the program; threads of one process may take a step at once and one of the two is
    // then lost: the next one has the sum.
    let steps = unsafe { &mut *steps };
    if !same_start(steps.start, start) {
        // An earlier process's, whose end was missed.
        return begin(tgid, start, mm);
    }
    // SAFETY: the helper takes nothing and always answers.
    let time = unsafe { bpf_ktime_get_boot_ns() };
    let mut member = 0;
    while member < MEMBERS {
        step(steps, member, counter(mm, member), time);
        member += 1;
    }
    if let Some(python) = python {
        grown(steps, mm, faults, ids, python, time);
    }
}

/// Whether the running thread has grown the process since a thread was last seen to, and if that is much with what it grew before: tells it.
#[inline(always)]
fn grown(steps: &mut Steps, mm: u64, faults: u64, ids: u64, python: &Python, time: u64) {
    let now = [counter(mm, ANON), counter(mm, SHMEM)];
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
    tell(ids, python, time, steps);
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

/// Takes a step where a counter has moved by so much.
#[inline(always)]
fn step(steps: &mut Steps, member: usize, value: i64, time: u64) {
    let resident = steps.last[0] + steps.last[ANON] + steps.last[SHMEM];
    let least = if resident / 64 > SMALLEST {
        resident / 64
    } else {
        SMALLEST
    };
    let before = steps.last[member & 3];
    let by = if value > before {
        value - before
    } else {
        before - value
    };
    if by < least {
        return;
    }
    steps.last[member & 3] = value;
    let at = (steps.taken as usize) & (KEPT - 1);
    steps.steps[at] = Step {
        time,
        pages: (value << 2) | member as i64,
    };
    steps.taken = steps.taken.wrapping_add(1);
    count(row::TICK, ledger::SEEN);
    count(row::TICK, ledger::SUBMITTED);
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

/// Tells who grew by much, with its stack; at most so often a second.
#[inline(always)]
fn tell(ids: u64, python: &Python, time: u64, steps: &mut Steps) {
    let private = since(steps.told, steps.seen, 0);
    let shared = since(steps.told, steps.seen, 1);
    if private + shared < LARGE {
        return;
    }
    // What is not told now is not the next one's.
    steps.told = steps.seen;
    count(row::TICK, ledger::SEEN);
    if time.wrapping_sub(steps.window) >= SECOND_NS {
        steps.window = time;
        steps.sent = 0;
    }
    if steps.sent >= A_SECOND {
        return count(row::TICK, ledger::FILTERED);
    }
    let grew = Grew {
        header: Header {
            kind: kind::GREW,
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
    if !send(grew, python) {
        return count(row::TICK, ledger::RING_FULL);
    }
    steps.sent += 1;
    count(row::TICK, ledger::SUBMITTED);
}

#[inline(always)]
fn send(grew: Grew, python: &Python) -> bool {
    if native::is_here()
        && let Some(mut record) = MAPPINGS.reserve::<GrewDeep>(0)
    {
        let place = record.as_mut_ptr();
        // SAFETY: the record is reserved.
        unsafe {
            fill(&raw mut (*place).by, grew, python);
            native::take(&raw mut (*place).native);
        }
        record.submit(WAKEUP);
        return true;
    }
    let Some(mut record) = MAPPINGS.reserve::<GrewBy>(0) else {
        return false;
    };
    // SAFETY: the record is reserved.
    unsafe { fill(record.as_mut_ptr(), grew, python) };
    record.submit(WAKEUP);
    true
}

/// SAFETY: `place` is of a reserved record.
#[inline(always)]
unsafe fn fill(place: *mut GrewBy, grew: Grew, python: &Python) {
    // SAFETY: as said above.
    unsafe {
        let (frames, own) = stack(python, &raw mut (*place).stack);
        let of_main = u32::from(!own);
        (&raw mut (*place).grew).write(Grew {
            frames,
            of_main,
            ..grew
        });
    }
}

/// A process's first figures; from them on steps are taken.
#[inline(always)]
fn begin(tgid: u32, start: u64, mm: u64) {
    count(row::TICK, ledger::SEEN);
    let Some(scratch) = STEPS_SCRATCH.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's own slot.
    let first = unsafe { &mut *scratch };
    first.start = start;
    first.taken = 0;
    first.last = [
        counter(mm, 0),
        counter(mm, 1),
        counter(mm, 2),
        counter(mm, 3),
    ];
    first.seen = [first.last[ANON], first.last[SHMEM]];
    first.told = first.seen;
    first.grower = 0;
    first.settled = 0;
    first.window = 0;
    first.sent = 0;
    let kept = STEPS.insert(tgid, &*first, 0).is_ok();
    count(
        row::TICK,
        if kept {
            ledger::SUBMITTED
        } else {
            ledger::MAP_FULL
        },
    );
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
