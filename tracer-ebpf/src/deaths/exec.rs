//! `sched/sched_process_exec(task, old_pid, bprm)`: reports the command line of tracked processes.
//!
//! Format (6.18): `__data_loc filename, pid, old_pid`. The command line is read in the kernel. A
//! program named `raylet` or `gcs_server` is tracked from its exec on, whichever process started
//! it. The command line of every program of the machine is kept, in case the process sends a
//! signal: what it shows later may have been rewritten. Rate: one per program start. Without this
//! hook, the roles of processes that end before `/proc` is read are unknown.

use raytrace_ebpf::records::{ARGV, Exec, Hook, Kind, Tracked, ledger};

use super::{
    commands, hook, interference,
    kernel::{
        argument_range, arguments, comm, executable, header, leader, ns_pid, parent_of, process_of,
        tgid, uid,
    },
    maps::{EXEC_SCRATCH, TRACKED, count, count_seen, offsets, one_cluster, send},
};
use crate::read::read;

hook!(exec_btf, exec_raw, "sched_process_exec", executed, [0]);

#[inline(always)]
fn executed<const TYPED: bool, C>(_context: &C, task: u64) {
    count(Hook::Exec, ledger::SEEN);
    let Some(scratch) = EXEC_SCRATCH.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: the pointer is to this CPU's slot, and the kernel does not run the same program twice
    // at once on a CPU.
    let record = unsafe { &mut *scratch };
    let leader = leader::<TYPED>(task);
    comm(leader, record.comm.as_mut_ptr());
    let key = process_of::<TYPED>(task, leader);
    let mm: u64 = read(task, offsets().task_mm);
    let range = argument_range(mm);
    commands::keep(&key, range);
    if TRACKED.get_ptr(key.tgid).is_none() {
        let rays = record.comm.starts_with(b"raylet\0") || record.comm.starts_with(b"gcs_server\0");
        if !rays || one_cluster() {
            return count(Hook::Exec, ledger::FILTERED);
        }
        if TRACKED
            .insert(key.tgid, Tracked::new(key.start), 0)
            .is_err()
        {
            return count(Hook::Exec, ledger::MAP_FULL);
        }
    }
    record.header = header(Kind::Exec);
    record.process = key;
    record.parent = tgid::<TYPED>(parent_of::<TYPED>(leader));
    record.ns_pid = ns_pid::<TYPED>(leader);
    record.uid = uid(task);
    record.file = executable(mm);
    record.argv_length = arguments(range, record.argv.as_mut_ptr(), ARGV as u32);
    let mut size = record.argv_length as usize;
    if size > ARGV {
        size = ARGV;
    }
    size += core::mem::offset_of!(Exec, argv);
    // SAFETY: `size` is at most the size of the record.
    unsafe { send(Hook::Exec, scratch.cast(), size) }
    if let Some(outcome) = interference::tracer_of(Kind::TracedAtExec, task) {
        count_seen(Hook::Exec, outcome);
    }
}
