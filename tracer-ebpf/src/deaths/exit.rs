//! `sched/sched_process_exit(task[, group_dead])`: reports the end of a process, once.
//!
//! Format (6.18): `comm, pid, prio, group_dead`. The record has the memory and the title of the
//! process. When no thread is left, the thread that removes the process from the tracked set
//! reports it: a leader may exit first, and before 6.16 two threads can both appear to be the last
//! one. Rate: one per thread exit. Without this hook there are no deaths to judge.
//!
//! Two programs are attached to the hook. Since Linux 7.0 a program at a tracepoint may be
//! preempted, and the kernel then skips the same program for another exit on that CPU
//! (`recursion_misses`). The second program finds that process still in the tracked set, and
//! reports it.

use aya_ebpf::helpers::generated;
use raytrace_ebpf::records::{ENDING, Exit, Hook, Kind, TITLE, Tracked, ledger};

use super::{
    caught, hook,
    kernel::{
        comm, header, leader, ns_pid, parent_of, process_of, signal_struct, tgid, tracer, uid,
    },
    maps::{
        DEATHS, EXIT_SCRATCH, NO_WAKEUP, SNAPSHOTS, TRACKED, UNSENT, WAKEUP, count_second,
        count_seen, offsets,
    },
    memory,
};
use crate::read::{field, read};

hook!(exit_btf, exit_raw, "sched_process_exit", exited, [0]);
hook!(
    exit_second_btf,
    exit_second_raw,
    "sched_process_exit",
    exited_second,
    [0]
);

const SIGNAL_GROUP_EXIT: u32 = 4;

/// [`ENDING`] as a set: signal 1 is bit 0.
const ENDING_BITS: u64 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14;

/// `BPF_RB_AVAIL_DATA`.
const AVAILABLE: u64 = 0;
/// If the ring (8 MiB) has more unread data than this, a normal exit wakes the reader too.
const FILLED: u64 = 512 << 10;

#[inline(always)]
fn exited<const TYPED: bool, C>(_context: &C, task: u64) {
    match emit::<TYPED>(task, 0) {
        // The second program tries again.
        ledger::MAP_FULL => {}
        outcome => count_seen(Hook::Exit, outcome),
    }
}

#[inline(always)]
fn exited_second<const TYPED: bool, C>(_context: &C, task: u64) {
    match emit::<TYPED>(task, 1) {
        // The first program has reported the exit and counted it.
        ledger::FILTERED => {}
        outcome => count_second(Hook::Exit, outcome),
    }
}

/// Emits the end of the process if no thread is left and its end was not emitted yet. Returns the
/// column of the ledger. `scratch` is the slot of the calling program.
#[inline(always)]
fn emit<const TYPED: bool>(task: u64, scratch: u32) -> u32 {
    let shared = signal_struct::<TYPED>(task);
    let live = field::<i32, TYPED>(shared, offsets().signal_live);
    let thread_pending = field::<u64, TYPED>(task, offsets().task_pending);
    if live != 0 {
        keep_pending(tgid::<TYPED>(task), thread_pending);
        return ledger::FILTERED;
    }
    let leader = leader::<TYPED>(task);
    let key = process_of::<TYPED>(task, leader);
    let Some(scratch) = EXIT_SCRATCH.get_ptr_mut(scratch) else {
        return ledger::FILTERED;
    };
    // SAFETY: the pointer is to this CPU's slot of this program, and the kernel does not run the
    // same program twice at once on a CPU.
    let record: &mut Exit = unsafe { &mut *scratch };
    let of_others = kept_pending(key.tgid);
    record.lost = caught::copy(&key, &mut record.caught);
    record.reserved = 0;
    if TRACKED.remove(key.tgid).is_err() {
        return ledger::FILTERED;
    }
    caught::forget(&record.caught);
    record.header = header(Kind::Exit);
    record.process = key;
    record.parent = tgid::<TYPED>(parent_of::<TYPED>(leader));
    record.ns_pid = ns_pid::<TYPED>(leader);
    record.uid = uid(task);
    record.status = status::<TYPED>(leader, shared);
    comm(leader, record.comm.as_mut_ptr());
    tracer::<TYPED>(task, leader, &mut record.tracer);
    record.pending = field::<u64, TYPED>(shared, offsets().signal_pending);
    record.thread_pending = thread_pending & ENDING_BITS | of_others;
    record.blocked = field::<u64, TYPED>(task, offsets().task_blocked);
    fill(record, task, shared);
    let mut size = if record.title_length < 0 {
        0
    } else {
        record.title_length as usize
    };
    if size > TITLE {
        size = TITLE;
    }
    size += core::mem::offset_of!(Exit, title);
    // SAFETY: `size` is at most the size of the record.
    let sent = unsafe {
        generated::bpf_ringbuf_output(
            core::ptr::addr_of!(DEATHS).cast_mut().cast(),
            core::ptr::from_mut(record).cast(),
            size as u64,
            wakeup(record.status),
        )
    };
    if sent == 0 {
        return ledger::SUBMITTED;
    }
    if UNSENT.insert(key.tgid, &*record, 0).is_ok() {
        return ledger::RING_FULL;
    }
    // The process goes back into the set. User space searches for processes that are in the set but
    // not in `/proc`: their exits were missed.
    let _ = TRACKED.insert(key.tgid, Tracked::new(key.start), 0);
    ledger::MAP_FULL
}

/// Keeps which of [`ENDING`] are pending for a thread that ends before its process does. No thread
/// takes them any more.
#[inline(always)]
fn keep_pending(tgid: u32, pending: u64) {
    if pending & ENDING_BITS == 0 {
        return;
    }
    let Some(known) = TRACKED.get_ptr_mut(tgid) else {
        return;
    };
    for (at, number) in ENDING.iter().enumerate() {
        if pending & 1 << (number - 1) != 0 {
            // SAFETY: a map value stays writable while the program runs. Other CPUs write the same
            // byte.
            unsafe { (*known).thread_pending[at] = 1 };
        }
    }
}

/// Returns which of [`ENDING`] were pending for threads that have ended.
#[inline(always)]
fn kept_pending(tgid: u32) -> u64 {
    let mut pending = 0;
    if let Some(known) = TRACKED.get_ptr(tgid) {
        for (at, number) in ENDING.iter().enumerate() {
            // SAFETY: a map value stays readable while the program runs.
            pending |= u64::from(unsafe { (*known).thread_pending[at] } & 1) << (number - 1);
        }
    }
    pending
}

/// Returns the wakeup flag for a wait status. An exit with status 0 can wait until the reader
/// polls: a wakeup for each `/bin/true` would be most of the cost of tracking it.
#[inline(always)]
fn wakeup(status: i32) -> u64 {
    let ring = core::ptr::addr_of!(DEATHS).cast_mut().cast();
    // SAFETY: the ring is a map of this object. The helper only reads its positions.
    if status != 0 || unsafe { generated::bpf_ringbuf_query(ring, AVAILABLE) } > FILLED {
        WAKEUP
    } else {
        NO_WAKEUP
    }
}

/// Fills in memory and title: from the mm if the task still has it (≥ 6.16), else from the
/// snapshot.
#[inline(always)]
fn fill(record: &mut Exit, task: u64, shared: u64) {
    let mm: u64 = read(task, offsets().task_mm);
    record.mm = mm;
    if mm != 0 {
        record.memory = memory::of(mm, shared);
        record.title_length = memory::title(mm, record.title.as_mut_ptr());
        let _ = SNAPSHOTS.remove(record.process.tgid);
        return;
    }
    record.memory = memory::of(0, shared);
    record.title_length = -1;
    if let Some(known) = SNAPSHOTS.get_ptr(record.process.tgid) {
        // SAFETY: a map value stays readable while the program runs.
        let known = unsafe { &*known };
        if known.start == record.process.start {
            let peak = record.memory.peak;
            record.mm = known.mm;
            record.memory = known.memory;
            if peak > record.memory.peak {
                record.memory.peak = peak;
            }
            record.title_length = known.title_length;
            record.title = known.title;
        }
        let _ = SNAPSHOTS.remove(record.process.tgid);
    }
}

/// Returns the wait status: that of the group if the process exits as a group, else that of the
/// leader.
#[inline(always)]
fn status<const TYPED: bool>(leader: u64, shared: u64) -> i32 {
    let flags = field::<u32, TYPED>(shared, offsets().signal_flags);
    if flags & SIGNAL_GROUP_EXIT != 0 {
        return field::<i32, TYPED>(shared, offsets().signal_group_exit_code);
    }
    field::<i32, TYPED>(leader, offsets().task_exit_code)
}
