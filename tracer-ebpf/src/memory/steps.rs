//! The last steps of processes that grow. Those that only run have none here, so that thousands of them displace nobody's.

use raytrace_ebpf::records::{MEMBERS, MemoryHook, STEPS as KEPT, Step, Watched, ledger};

use super::{
    maps::{STEPS, STEPS_SCRATCH, count},
    same_start,
};

/// Pages of 1 MiB, at 4 KiB a page.
pub(crate) const SMALLEST: i64 = 256;

/// Takes the steps since the last look.
#[inline(always)]
pub(crate) fn take(tgid: u32, watched: &mut Watched, now: &[i64; MEMBERS], time: u64) {
    let mut member = 0;
    while member < MEMBERS {
        step(tgid, watched, member, now[member & 3], time);
        member += 1;
    }
}

/// Takes a step where a counter has moved by so much.
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
    // Where every place is being written to at once there is no room: no event, the next samples have the growth.
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
        // SAFETY: a map value stays valid during the program; threads of one process may take a step at once and one of the two is
        // then lost: the next one has the sum.
        let steps = unsafe { &mut *steps };
        if same_start(steps.start, start) {
            let at = (steps.taken as usize) & (KEPT - 1);
            steps.steps[at] = step;
            steps.taken = steps.taken.wrapping_add(1);
            return true;
        }
        // An earlier process's, whose end was missed.
    }
    let Some(scratch) = STEPS_SCRATCH.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: this CPU's own slot.
    let first = unsafe { &mut *scratch };
    first.start = start;
    first.taken = 1;
    first.steps[0] = step;
    STEPS.insert(tgid, &*first, 0).is_ok()
}
