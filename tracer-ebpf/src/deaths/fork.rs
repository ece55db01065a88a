//! `sched/sched_process_fork(parent, child)`: tracks the children of tracked processes.
//!
//! Format (6.18): `__data_loc parent_comm, parent_pid, __data_loc child_comm, child_pid`. The
//! arguments are the two tasks on every kernel. A child is tracked from its start. Rate: one per
//! process or thread start. Without this hook, processes that live for a millisecond are missed.
//!
//! Two programs are attached to the hook, for the reason given in `exit`: the second program
//! reports what the first one was skipped for.

use raytrace_ebpf::records::{Fork, Hook, Kind, Tracked, ledger};

use super::{
    hook, interference,
    kernel::{header, leader, process_of, tgid},
    maps::{DEATHS, NO_WAKEUP, TRACKED, count_second, count_seen, offsets},
};
use crate::read::field;

hook!(fork_btf, fork_raw, "sched_process_fork", forked, [0, 1]);
hook!(
    fork_second_btf,
    fork_second_raw,
    "sched_process_fork",
    forked_second,
    [0, 1]
);

#[inline(always)]
fn forked<const TYPED: bool, C>(_context: &C, parent: u64, child: u64) {
    if is_ours::<TYPED>(parent, child) {
        emit::<TYPED>(parent, child, count_seen);
    } else {
        count_seen(Hook::Fork, ledger::FILTERED);
    }
}

#[inline(always)]
fn forked_second<const TYPED: bool, C>(_context: &C, parent: u64, child: u64) {
    if !is_ours::<TYPED>(parent, child) {
        return;
    }
    let process = process_of::<TYPED>(child, child);
    if let Some(known) = TRACKED.get_ptr(process.tgid) {
        // SAFETY: a map value stays readable while the program runs.
        if unsafe { (*known).start } == process.start {
            return;
        }
    }
    emit::<TYPED>(parent, child, count_second);
}

/// Returns whether the child is a process, not a thread, and its parent is tracked. A process leads
/// its own thread group.
#[inline(always)]
fn is_ours<const TYPED: bool>(parent: u64, child: u64) -> bool {
    let child_tid = field::<u32, TYPED>(child, offsets().task_pid);
    child_tid == tgid::<TYPED>(child) && TRACKED.get_ptr(tgid::<TYPED>(parent)).is_some()
}

/// Tracks the child and emits its fork, and the tracer that the kernel attached to it
/// (`PTRACE_O_TRACEFORK`).
#[inline(always)]
fn emit<const TYPED: bool>(parent: u64, child: u64, count: impl Fn(Hook, u32)) {
    let process = process_of::<TYPED>(child, child);
    let mut tracked = Tracked::new(process.start);
    if let Some(of_parent) = TRACKED.get_ptr(tgid::<TYPED>(parent)) {
        // SAFETY: a map value stays readable while the program runs.
        tracked.lost_interference = unsafe { (*of_parent).lost_interference };
    }
    if TRACKED.insert(process.tgid, tracked, 0).is_err() {
        return count(Hook::Fork, ledger::MAP_FULL);
    }
    let Some(mut record) = DEATHS.reserve::<Fork>(0) else {
        return count(Hook::Fork, ledger::RING_FULL);
    };
    record.write(Fork {
        header: header(Kind::Fork),
        parent: process_of::<TYPED>(parent, leader::<TYPED>(parent)),
        child: process,
    });
    record.submit(NO_WAKEUP);
    count(Hook::Fork, ledger::SUBMITTED);
    if let Some(outcome) = interference::tracer_of(Kind::TracedAtFork, child) {
        count(Hook::Fork, outcome);
    }
}
