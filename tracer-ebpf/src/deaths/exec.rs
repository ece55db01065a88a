//! `sched/sched_process_exec(task, old_pid, bprm)`: the command line of a tracked process, read in the kernel.
//!
//! Format (6.18): `__data_loc filename, pid, old_pid`. A program named `raylet` or `gcs_server` is tracked from its exec on, whoever
//! started it. Rate: one per program start. Without it, roles of processes that end before /proc is read are unknown.

use aya_ebpf::helpers::generated;
use raytrace_ebpf::records::{ARGV, Exec, Tracked, kind, ledger};

use super::{
    hook,
    kernel::{header, leader_comm, ns_pid, parent, process, tgid, uid},
    maps::{EXEC_SCRATCH, TRACKED, count, offsets, one_cluster, row, send},
};
use crate::read::read;

hook!(exec_btf, exec_raw, "sched_process_exec", executed, [0]);

#[inline(always)]
fn executed<C>(_context: &C, task: u64) {
    count(row::EXEC, ledger::SEEN);
    let Some(scratch) = EXEC_SCRATCH.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's own slot; the same program does not run twice at once on a CPU.
    let record = unsafe { &mut *scratch };
    leader_comm(task, record.comm.as_mut_ptr());
    let key = process(task);
    if TRACKED.get_ptr(key.tgid).is_none() {
        let rays = record.comm.starts_with(b"raylet\0") || record.comm.starts_with(b"gcs_server\0");
        if !rays || one_cluster() {
            return count(row::EXEC, ledger::FILTERED);
        }
        if TRACKED
            .insert(key.tgid, Tracked { start: key.start }, 0)
            .is_err()
        {
            return count(row::EXEC, ledger::MAP_FULL);
        }
    }
    record.header = header(kind::EXEC);
    record.process = key;
    record.parent = tgid(parent(task));
    record.ns_pid = ns_pid(task);
    record.uid = uid(task);
    record.argv_length = arguments(task, record.argv.as_mut_ptr());
    let mut size = record.argv_length as usize;
    if size > ARGV {
        size = ARGV;
    }
    size += core::mem::offset_of!(Exec, argv);
    // SAFETY: `size` is at most the size of the record.
    unsafe { send(row::EXEC, scratch.cast(), size) }
}

#[inline(always)]
fn arguments(task: u64, to: *mut u8) -> u32 {
    let mm: u64 = read(task, offsets().task_mm);
    if mm == 0 {
        return 0;
    }
    let start: u64 = read(mm, offsets().mm_arg_start);
    let end: u64 = read(mm, offsets().mm_arg_end);
    let mut length = end.wrapping_sub(start);
    if length > ARGV as u64 {
        length = ARGV as u64;
    }
    // SAFETY: the destination has ARGV bytes; the helper checks the source.
    let failed =
        unsafe { generated::bpf_probe_read_user(to.cast(), length as u32, start as *const _) };
    if failed != 0 { 0 } else { length as u32 }
}
