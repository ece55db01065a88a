//! `sched/sched_process_fork(parent, child)`: the child of a tracked process is tracked from its first instant.
//!
//! Format (6.18): `__data_loc parent_comm, parent_pid, __data_loc child_comm, child_pid`; the arguments are the two tasks on
//! every kernel. Rate: one per process or thread start. Without it, processes that live for a millisecond are missed.

use raytrace_ebpf::records::{Fork, Tracked, kind, ledger};

use super::{
    hook,
    kernel::{header, process, read},
    maps::{DEATHS, NO_WAKEUP, TRACKED, count, offsets, row},
};

hook!(fork_btf, fork_raw, "sched_process_fork", forked, [0, 1]);

#[inline(always)]
fn forked<C>(_context: &C, parent: u64, child: u64) {
    count(row::FORK, ledger::SEEN);
    let child_tgid: u32 = read(child, offsets().task_tgid);
    let child_tid: u32 = read(child, offsets().task_pid);
    let parent_tgid: u32 = read(parent, offsets().task_tgid);
    if child_tgid != child_tid || TRACKED.get_ptr(parent_tgid).is_none() {
        return count(row::FORK, ledger::FILTERED);
    }
    let child = process(child);
    if TRACKED
        .insert(child.tgid, Tracked { start: child.start }, 0)
        .is_err()
    {
        return count(row::FORK, ledger::MAP_FULL);
    }
    let Some(mut record) = DEATHS.reserve::<Fork>(0) else {
        return count(row::FORK, ledger::RING_FULL);
    };
    record.write(Fork {
        header: header(kind::FORK),
        parent: process(parent),
        child,
    });
    record.submit(NO_WAKEUP);
    count(row::FORK, ledger::SUBMITTED);
}
