//! `task/task_rename(task, comm)`: reports a worker's new title, and its memory at that moment.
//!
//! Format (6.18): `pid, oldcomm, newcomm, oom_score_adj`. The title says what the worker runs from
//! now on. The name has only 15 bytes, but `setproctitle` writes the whole title into argv before
//! it sets the name (in `set_ps_display`), so the title is read from argv. The names of other
//! threads, which Ray's libraries set, are not reported. Rate: two per call of a method or task,
//! with at most 0.7 KiB each, and so many for each process and user that nobody can fill the ring
//! with names. Without this hook no calls are recorded, only what `/proc` showed now
//! and then.

use aya_ebpf::helpers::{bpf_get_current_uid_gid, bpf_ktime_get_boot_ns, generated};
use raytrace_ebpf::records::{
    ALL_RENAMES, COMM, Hook, Kind, PERIOD_SHIFT, PROCESS_RENAMES, PROCESS_SHIFT, Rename, TITLE,
    Tracked, USER_RENAMES, ledger,
};

use super::{
    budget::{self, Users},
    hook,
    kernel::{
        argument_range, current_tgid, header, leader, process_of, read_string, signal_struct, tgid,
    },
    maps::{ALL_RENAMED, DEATHS, RENAME_SCRATCH, TRACKED, USER_RENAMED, count, offsets, send},
    memory,
};
use crate::read::read;

hook!(rename_btf, rename_raw, "task_rename", renamed, [0, 1]);

/// `BPF_RB_AVAIL_DATA`.
const UNREAD: u64 = 0;
/// If the ring has more unread data than this, a rename is dropped: the rest of the ring is for
/// deaths.
const ROOM: u64 = 1 << 20;

#[inline(always)]
fn renamed<const TYPED: bool, C>(_context: &C, task: u64, name: u64) {
    count(Hook::Rename, ledger::SEEN);
    let group = tgid::<TYPED>(task);
    let Some(known) = TRACKED.get_ptr_mut(group) else {
        return count(Hook::Rename, ledger::FILTERED);
    };
    let Some(scratch) = RENAME_SCRATCH.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: the pointer is to this CPU's slot, and the kernel does not run the same program twice
    // at once on a CPU.
    let record: &mut Rename = unsafe { &mut *scratch };
    read_string(record.comm.as_mut_ptr(), COMM as u32, name);
    let rays = record.comm.starts_with(b"ray::");
    // Another process may write `/proc/PID/comm`. The current mm is then not the one whose title
    // changed.
    let own = current_tgid() == group;
    let key = process_of::<TYPED>(task, leader::<TYPED>(task));
    if !own || !(rays || key.tid == group) {
        return count(Hook::Rename, ledger::FILTERED);
    }
    // SAFETY: the pointer is to an entry of a map.
    let known = unsafe { &mut *known };
    if !may_send(known) {
        known.over += 1;
        return count(Hook::Rename, ledger::FILTERED);
    }
    let mm: u64 = read(task, offsets().task_mm);
    record.title_length = first_string(mm, record.title.as_mut_ptr());
    // An exec sets the task's name before the new mm has an argv.
    if record.title_length <= 0 {
        return count(Hook::Rename, ledger::FILTERED);
    }
    // SAFETY: the helper only reads the counters of the ring.
    let unread = unsafe {
        generated::bpf_ringbuf_query(core::ptr::addr_of!(DEATHS).cast_mut().cast(), UNREAD)
    };
    if unread > ROOM {
        return count(Hook::Rename, ledger::RING_FULL);
    }
    record.header = header(Kind::Rename);
    record.process = key;
    record.memory = memory::quickly(mm, signal_struct::<false>(task));
    record.over = known.over;
    known.over = 0;
    let mut size = record.title_length as usize;
    if size > TITLE {
        size = TITLE;
    }
    size += core::mem::offset_of!(Rename, title);
    // SAFETY: `size` is at most the size of the record.
    unsafe { send(Hook::Rename, scratch.cast(), size) }
}

/// Whether the process, its user and all users have room for one more record in this period.
#[inline(always)]
fn may_send(process: &mut Tracked) -> bool {
    // SAFETY: the helper reads a clock.
    let now = unsafe { bpf_ktime_get_boot_ns() };
    let own = budget::take(
        &mut process.renames,
        (now >> PROCESS_SHIFT) as u32,
        PROCESS_RENAMES,
    );
    let users = Users {
        each: &USER_RENAMED,
        all: &ALL_RENAMED,
        most_of_each: USER_RENAMES,
        most_of_all: ALL_RENAMES,
        shift: PERIOD_SHIFT,
    };
    users.take(bpf_get_current_uid_gid() as u32, now, own)
}

/// Reads the string at `arg_start`. Returns its length, or −1 if it is unreadable. The rest of the
/// old title behind it is overwritten only after the name is set.
#[inline(always)]
fn first_string(mm: u64, to: *mut u8) -> i32 {
    let (start, _) = argument_range(mm);
    if start == 0 {
        return -1;
    }
    // SAFETY: the destination has `TITLE` bytes. The helper checks the source.
    let length =
        unsafe { generated::bpf_probe_read_user_str(to.cast(), TITLE as u32, start as *const _) };
    // The returned length includes the NUL.
    if length <= 0 { -1 } else { length as i32 - 1 }
}
