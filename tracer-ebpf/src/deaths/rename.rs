//! `task/task_rename(task, comm)`: a worker says by its title what it runs from now on, and what it holds at that instant.
//!
//! Format (6.18): `pid, oldcomm, newcomm, oom_score_adj`. The name has 15 bytes, but `setproctitle` writes the whole title into argv before
//! it sets the name (in `set_ps_display`), so the title is read there. Other threads' own names, which Ray's libraries set, are left out.
//! Rate: two per call of a method or task; 0.7 KiB each at most. Without it there are no calls, only what /proc showed now and then.

use aya_ebpf::helpers::generated;
use raytrace_ebpf::records::{COMM, Hook, Kind, Rename, TITLE, ledger};

use super::{
    hook,
    kernel::{
        argument_range, current_tgid, header, leader, process_of, read_string, signal_struct, tgid,
    },
    maps::{DEATHS, RENAME_SCRATCH, TRACKED, count, offsets, send},
    memory,
};
use crate::read::read;

hook!(rename_btf, rename_raw, "task_rename", renamed, [0, 1]);

/// `BPF_RB_AVAIL_DATA`
const UNREAD: u64 = 0;
/// Above this much unread data a rename is left out: the rest of the ring is for deaths.
const ROOM: u64 = 1 << 20;

#[inline(always)]
fn renamed<const TYPED: bool, C>(_context: &C, task: u64, name: u64) {
    count(Hook::Rename, ledger::SEEN);
    let group = tgid::<TYPED>(task);
    if TRACKED.get_ptr(group).is_none() {
        return count(Hook::Rename, ledger::FILTERED);
    }
    let Some(scratch) = RENAME_SCRATCH.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's own slot; the same program does not run twice at once on a CPU.
    let record: &mut Rename = unsafe { &mut *scratch };
    read_string(record.comm.as_mut_ptr(), COMM as u32, name);
    let rays = record.comm.starts_with(b"ray::");
    // Another process may write /proc/PID/comm: then this is not the mm whose title changed.
    let own = current_tgid() == group;
    let key = process_of::<TYPED>(task, leader::<TYPED>(task));
    if !own || !(rays || key.tid == group) {
        return count(Hook::Rename, ledger::FILTERED);
    }
    let mm: u64 = read(task, offsets().task_mm);
    record.title_length = first_string(mm, record.title.as_mut_ptr());
    // An exec names the task before it has an argv.
    if record.title_length <= 0 {
        return count(Hook::Rename, ledger::FILTERED);
    }
    // SAFETY: the helper only reads the ring's counters.
    let unread = unsafe {
        generated::bpf_ringbuf_query(core::ptr::addr_of!(DEATHS).cast_mut().cast(), UNREAD)
    };
    if unread > ROOM {
        return count(Hook::Rename, ledger::RING_FULL);
    }
    record.header = header(Kind::Rename);
    record.process = key;
    record.memory = memory::quickly(mm, signal_struct::<false>(task));
    record.reserved = 0;
    let mut size = record.title_length as usize;
    if size > TITLE {
        size = TITLE;
    }
    size += core::mem::offset_of!(Rename, title);
    // SAFETY: `size` is at most the size of the record.
    unsafe { send(Hook::Rename, scratch.cast(), size) }
}

/// The string at `arg_start`: what stood behind it before is overwritten only after the name was set.
#[inline(always)]
fn first_string(mm: u64, to: *mut u8) -> i32 {
    let (start, _) = argument_range(mm);
    if start == 0 {
        return -1;
    }
    // SAFETY: the destination has TITLE bytes; the helper checks the source.
    let length =
        unsafe { generated::bpf_probe_read_user_str(to.cast(), TITLE as u32, start as *const _) };
    // The NUL is counted.
    if length <= 0 { -1 } else { length as i32 - 1 }
}
