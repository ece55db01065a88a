//! `kmem/rss_stat(mm, member[, count])`: resident memory of a watched process moved: its last steps are kept, for its death.
//!
//! Format (6.18): `mm_id, curr, member, size`; `count` was an argument before 6.2. Rate: one per page fault (61 ns each), so it is attached
//! only while something is near a limit. A step is a move of max(1 MiB, 1/64 of what is resident); the last 64 are kept in the map, and
//! nothing is sent. Absent before 5.5. Without it the last moments before a death are known from samples alone.
//!
//! Since 6.2 the total that is read moves once in a batch of pages (32, or twice the CPUs): a fault that leaves it as this CPU saw it last is let
//! go before anything is looked up.
//!
//! Each 16 MiB of private and shared memory that a Python process has grown by are told, with the stack of the thread that took the step, as `vm_unmapped_area` has it.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_get_current_task, bpf_ktime_get_boot_ns};
use raytrace_ebpf::records::{
    Grew, GrewBy, GrewDeep, Header, MEMBERS, Process, Python, STEPS as KEPT, Step, Steps, kind,
    ledger,
};

use super::{
    field, hook,
    maps::{
        MAPPINGS, PYTHONS, SECOND_NS, SEEN, STEPS, STEPS_SCRATCH, WAKEUP, WATCHED, count, offset,
        row,
    },
    native,
    python::stack,
};
use crate::read::read;

hook!(rss_btf, rss_raw, "rss_stat", moved);

/// Pages of 1 MiB, at 4 KiB a page.
const SMALLEST: i64 = 256;
/// And of 16 MiB.
const LARGE: i64 = 4096;
/// Of one process so many are told in a second.
const A_SECOND: u64 = 100;
/// `MM_ANONPAGES`, `MM_SHMEMPAGES` (include/linux/mm_types_task.h).
const ANON: usize = 1;
const SHMEM: usize = 3;

#[inline(always)]
fn moved<const TYPED: bool>(mm: u64, member: u64) {
    let member = member as u32;
    if member >= MEMBERS as u32 {
        return;
    }
    let value = counter::<TYPED>(mm, member);
    let Some(seen) = SEEN.get_ptr_mut(member) else {
        return;
    };
    // Volatile: one comparison of both would take bits of a pointer, which the verifier allows to nobody.
    // SAFETY: this CPU's own slot; the program does not run twice at once on a CPU.
    unsafe {
        let (whose, pages) = (&raw mut (*seen)[0], &raw mut (*seen)[1]);
        if whose.read_volatile() == mm && pages.read_volatile() == value as u64 {
            return;
        }
        whose.write(mm);
        pages.write(value as u64);
    }
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    if WATCHED.get_ptr(tgid).is_none() {
        return;
    }
    // SAFETY: the helper takes nothing and always answers.
    let task = unsafe { bpf_get_current_task() };
    // At fork the parent counts up the child's.
    let own: u64 = read(task, offset!(task_mm));
    if own != mm {
        return;
    }
    let Some(steps) = STEPS.get_ptr_mut(tgid) else {
        return begin::<TYPED>(tgid, mm);
    };
    // SAFETY: a map value stays valid during the program; threads of one process may take a step at once and one of the two is
    // then lost: the next one has the sum.
    let steps = unsafe { &mut *steps };
    let resident = steps.last[0] + steps.last[1] + steps.last[3];
    let least = if resident / 64 > SMALLEST {
        resident / 64
    } else {
        SMALLEST
    };
    let before = steps.last[(member & 3) as usize];
    let by = if value > before {
        value - before
    } else {
        before - value
    };
    if by < least {
        return;
    }
    steps.last[(member & 3) as usize] = value;
    let at = (steps.taken as usize) & (KEPT - 1);
    // SAFETY: the helper takes nothing and always answers.
    let time = unsafe { bpf_ktime_get_boot_ns() };
    steps.steps[at] = Step {
        time,
        pages: (value << 2) | i64::from(member),
    };
    steps.taken = steps.taken.wrapping_add(1);
    count(row::RSS, ledger::SEEN);
    count(row::RSS, ledger::SUBMITTED);
    tell(tgid, time, steps);
}

/// Tells who grew by much, with its stack; at most so often a second.
#[inline(always)]
fn tell(tgid: u32, time: u64, steps: &mut Steps) {
    let (private, shared) = (since(steps, ANON), since(steps, SHMEM));
    if private + shared < LARGE {
        return;
    }
    let (Some(watched), Some(python)) = (WATCHED.get_ptr(tgid), PYTHONS.get_ptr(tgid)) else {
        return;
    };
    // SAFETY: map values stay readable during the program.
    let (watched, python) = unsafe { (&*watched, &*python) };
    if python.start != watched.start {
        return;
    }
    // What is not told now is not the next one's.
    steps.told = steps.last;
    count(row::RSS, ledger::SEEN);
    if time.wrapping_sub(steps.window) >= SECOND_NS {
        steps.window = time;
        steps.sent = 0;
    }
    if steps.sent >= A_SECOND {
        return count(row::RSS, ledger::FILTERED);
    }
    let grew = Grew {
        header: Header {
            kind: kind::GREW,
            reserved: 0,
            time,
        },
        process: Process {
            tgid,
            tid: bpf_get_current_pid_tgid() as u32,
            start: watched.start,
        },
        private: private as u64,
        shared: shared as u64,
        frames: 0,
        reserved: 0,
    };
    if !send(grew, python) {
        return count(row::RSS, ledger::RING_FULL);
    }
    steps.sent += 1;
    count(row::RSS, ledger::SUBMITTED);
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
        let frames = stack(python, &raw mut (*place).stack);
        (&raw mut (*place).grew).write(Grew { frames, ..grew });
    }
}

/// What a counter has grown by since that was told; one that fell begins anew.
#[inline(always)]
fn since(steps: &mut Steps, member: usize) -> i64 {
    let grown = steps.last[member] - steps.told[member];
    if grown < 0 {
        steps.told[member] = steps.last[member];
        return 0;
    }
    grown
}

/// A process's first figures; from them on steps are taken.
#[inline(always)]
fn begin<const TYPED: bool>(tgid: u32, mm: u64) {
    count(row::RSS, ledger::SEEN);
    let (Some(scratch), Some(watched)) = (STEPS_SCRATCH.get_ptr_mut(0), WATCHED.get_ptr(tgid))
    else {
        return;
    };
    // SAFETY: this CPU's own slot, and a map value that stays readable during the program.
    let (first, watched) = unsafe { (&mut *scratch, &*watched) };
    first.start = watched.start;
    first.taken = 0;
    first.last = [
        counter::<TYPED>(mm, 0),
        counter::<TYPED>(mm, 1),
        counter::<TYPED>(mm, 2),
        counter::<TYPED>(mm, 3),
    ];
    first.told = first.last;
    first.window = 0;
    first.sent = 0;
    let kept = STEPS.insert(tgid, &*first, 0).is_ok();
    count(
        row::RSS,
        if kept {
            ledger::SUBMITTED
        } else {
            ledger::MAP_FULL
        },
    );
}

/// A counter of an mm: since 6.2 a `percpu_counter`, whose batched total errs by a batch (1 MiB on 128 CPUs) a CPU that moved it.
#[inline(always)]
fn counter<const TYPED: bool>(mm: u64, member: u32) -> i64 {
    // Each member has an offset of its own that the verifier knows.
    let offset = match member {
        0 => offset!(mm_counts[0]),
        1 => offset!(mm_counts[1]),
        2 => offset!(mm_counts[2]),
        _ => offset!(mm_counts[3]),
    };
    field::<i64, TYPED>(mm, offset)
}
