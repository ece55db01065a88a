//! The last steps of the memory of processes that grow.
//!
//! A process that runs without growing has no entry, so that thousands of them evict no other
//! entry.

use raytrace_ebpf::records::{MEMBERS, MemoryHook, STEPS as KEPT, Step, Watched, ledger};

use super::{
    maps::{STEPS, STEPS_SCRATCH, count},
    same_start,
};

/// The number of pages in 1 MiB, at 4 KiB a page.
pub(crate) const SMALLEST: i64 = 256;

/// Records the steps of all counters since the last check.
#[inline(always)]
pub(crate) fn take(tgid: u32, watched: &mut Watched, now: &[i64; MEMBERS], time: u64) {
    let mut member = 0;
    while member < MEMBERS {
        step(tgid, watched, member, now[member & 3], time);
        member += 1;
    }
}

/// Records a step if a counter has moved by max(1 MiB, 1/64 of the resident memory) or more.
#[inline(always)]
fn step(tgid: u32, watched: &mut Watched, member: usize, value: i64, time: u64) {
    let resident = watched.last[0] + watched.last[1] + watched.last[3];
    let least = if resident / 64 > SMALLEST {
        resident / 64
    } else {
        SMALLEST
    };
    let before = watched.last[member & 3];
    let by = if value > before {
        value - before
    } else {
        before - value
    };
    if by < least {
        return;
    }
    watched.last[member & 3] = value;
    count(MemoryHook::Tick, ledger::SEEN);
    let step = Step {
        time,
        pages: (value << 2) | member as i64,
    };
    let kept = keep(tgid, watched.start, step);
    // An insertion fails if every entry is being written at once. No event is lost then: the next
    // samples contain the growth.
    count(
        MemoryHook::Tick,
        if kept {
            ledger::SUBMITTED
        } else {
            ledger::FILTERED
        },
    );
}

#[inline(always)]
fn keep(tgid: u32, start: u64, step: Step) -> bool {
    if let Some(steps) = STEPS.get_ptr_mut(tgid) {
        // SAFETY: a map value stays valid while the program runs. If threads of one process record
        // a step at once, one of the steps is lost, and the next one contains the sum.
        let steps = unsafe { &mut *steps };
        if same_start(steps.start, start) {
            let at = (steps.taken as usize) & (KEPT - 1);
            steps.steps[at] = step;
            steps.taken = steps.taken.wrapping_add(1);
            return true;
        }
        // The entry is of an earlier process with this tgid, whose end was missed.
    }
    let Some(scratch) = STEPS_SCRATCH.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: the pointer is to this CPU's slot, which only this program uses.
    let first = unsafe { &mut *scratch };
    first.start = start;
    first.taken = 1;
    first.steps[0] = step;
    STEPS.insert(tgid, &*first, 0).is_ok()
}
