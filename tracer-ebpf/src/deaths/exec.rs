//! `sched/sched_process_exec(task, old_pid, bprm)`: the command line of a tracked process, read in the kernel.
//!
//! Format (6.18): `__data_loc filename, pid, old_pid`. A program named `raylet` or `gcs_server` is tracked from its exec on, whoever
//! started it. Of every program of the machine its command line is kept, in case that it sends a signal: what it shows later may have been
//! rewritten. Rate: one per program start. Without it, roles of processes that end before /proc is read are unknown.

use raytrace_ebpf::records::{ARGV, COMMAND, Exec, Hook, Kind, Process, Tracked, ledger};

use super::{
    hook,
    kernel::{arguments, executable, header, leader_comm, ns_pid, parent, process, tgid, uid},
    maps::{COMMAND_SCRATCH, COMMANDS, EXEC_SCRATCH, TRACKED, count, one_cluster, send},
};

hook!(exec_btf, exec_raw, "sched_process_exec", executed, [0]);

#[inline(always)]
fn executed<C>(_context: &C, task: u64) {
    count(Hook::Exec, ledger::SEEN);
    let Some(scratch) = EXEC_SCRATCH.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's own slot; the same program does not run twice at once on a CPU.
    let record = unsafe { &mut *scratch };
    leader_comm(task, record.comm.as_mut_ptr());
    let key = process(task);
    keep(task, &key);
    if TRACKED.get_ptr(key.tgid).is_none() {
        let rays = record.comm.starts_with(b"raylet\0") || record.comm.starts_with(b"gcs_server\0");
        if !rays || one_cluster() {
            return count(Hook::Exec, ledger::FILTERED);
        }
        if TRACKED
            .insert(key.tgid, Tracked { start: key.start }, 0)
            .is_err()
        {
            return count(Hook::Exec, ledger::MAP_FULL);
        }
    }
    record.header = header(Kind::Exec);
    record.process = key;
    record.parent = tgid(parent(task));
    record.ns_pid = ns_pid(task);
    record.uid = uid(task);
    record.file = executable(task);
    record.argv_length = arguments(task, record.argv.as_mut_ptr(), ARGV as u32);
    let mut size = record.argv_length as usize;
    if size > ARGV {
        size = ARGV;
    }
    size += core::mem::offset_of!(Exec, argv);
    // SAFETY: `size` is at most the size of the record.
    unsafe { send(Hook::Exec, scratch.cast(), size) }
}

/// Keeps what a process was started as.
#[inline(always)]
fn keep(task: u64, key: &Process) {
    let Some(scratch) = COMMAND_SCRATCH.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's own slot; the same program does not run twice at once on a CPU.
    let command = unsafe { &mut *scratch };
    command.start = key.start;
    command.reserved = 0;
    command.length = arguments(task, command.argv.as_mut_ptr(), COMMAND as u32);
    // Where there is no room the signal is sent by one whose start was not seen.
    let _ = COMMANDS.insert(key.tgid, &*command, 0);
}
