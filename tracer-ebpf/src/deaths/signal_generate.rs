//! `signal/signal_generate(sig, info, task, group, result)`: reports signals and senders.
//!
//! Format (6.18): `sig, errno, code, comm, pid, group, result`; the arguments are unchanged since
//! 2.6.38. The sender is read at the moment of the signal. Rate: every signal of the machine; one to
//! a process that is not tracked costs a few reads. Without this hook, the kills of different
//! senders cannot be distinguished.

use aya_ebpf::helpers::{bpf_get_current_uid_gid, bpf_ktime_get_boot_ns};
use raytrace_ebpf::records::{
    ALL_SIGNALS, COMMAND, GROUP_EXIT, Hook, Kind, PROCESS_SHIFT, SENDER_CGROUP_NAME,
    SENDER_CGROUPS, SENDER_EXEC_SEEN, SENDER_EXITING, SENDER_KERNEL_THREAD, SENDER_PROCESS_EXITING,
    SENDER_SAME_ROOT, Signal, TOOK_EFFECT, USER_SIGNALS, ledger,
};

use super::{
    budget::Users,
    call, caught, commands, hook, interference,
    kernel::{
        SI_KERNEL, ancestors, argument_range, arguments, css_directory, css_parent, current,
        current_tgid, directory_name, exe, executable, header, leader_comm, memory_css, process,
        root, si_code, signal_struct, tgid, tracer, uids,
    },
    maps::{
        ALL_SIGNALLED, DEATHS, KernelKill, LAST_KILL, TRACKED, USER_SIGNALLED, WAKEUP, count,
        count_seen, offsets,
    },
};
use crate::read::read;

hook!(
    signal_generate_btf,
    signal_generate_raw,
    "signal_generate",
    generated,
    [0, 1, 2, 3, 4]
);

/// `SIGNAL_GROUP_EXIT` (linux/sched/signal.h, the same since 2.6.12).
const SIGNAL_GROUP_EXIT: u32 = 4;
/// `PF_EXITING`, `PF_KTHREAD` (linux/sched.h).
const PF_EXITING: u32 = 0x4;
const PF_KTHREAD: u32 = 0x0020_0000;
const SIGKILL: i32 = 9;
const SIGCHLD: i32 = 17;

/// Signals that are reported even if they are caught: HUP INT QUIT ILL TRAP ABRT BUS FPE KILL SEGV
/// TERM XCPU XFSZ SYS.
const TELLING: u64 = 1 << 1
    | 1 << 2
    | 1 << 3
    | 1 << 4
    | 1 << 5
    | 1 << 6
    | 1 << 7
    | 1 << 8
    | 1 << 9
    | 1 << 11
    | 1 << 15
    | 1 << 24
    | 1 << 25
    | 1 << 31;
/// Signals that are frequent and end a process only by what it does at them: CHLD CONT STOP TSTP
/// TTIN TTOU URG WINCH.
const HARMLESS: u64 = 1 << 17 | 1 << 18 | 1 << 19 | 1 << 20 | 1 << 21 | 1 << 22 | 1 << 23 | 1 << 28;

#[inline(always)]
fn generated<const TYPED: bool, C>(
    _context: &C,
    signal: u64,
    info: u64,
    target: u64,
    group: u64,
    result: u64,
) {
    let number = signal as i32;
    // Real-time signals, 32 to 64, have no bit in the sets. They are fatal by default, and reported
    // if they took effect or have no handler.
    if !(1..=64).contains(&number) {
        return;
    }
    let code = si_code(info);
    let result = result as i32;
    if let Some(outcome) = interference::at_signal(number, code, target) {
        count_seen(Hook::Signal, outcome);
    }
    let target_tgid = tgid::<false>(target);
    if is_in(HARMLESS, number) {
        if may_be_caught(number, code, target_tgid) {
            let outcome = caught::keep(target, number, code, group as u32 & 1, result);
            count_seen(Hook::Signal, outcome);
        }
        return;
    }
    count(Hook::Signal, ledger::SEEN);
    let is_tracked = TRACKED.get_ptr(target_tgid).is_some();
    if number == SIGKILL && code == SI_KERNEL {
        remember(target, target_tgid, is_tracked);
    }
    if !is_tracked {
        return count(Hook::Signal, ledger::FILTERED);
    }
    let shared = signal_struct::<false>(target);
    let flags: u32 = read(shared, offsets().signal_flags);
    let exit_code: i32 = read(shared, offsets().signal_group_exit_code);
    let dying = flags & SIGNAL_GROUP_EXIT != 0;
    let is_new = result == 0 || result == 4;
    let effect = dying && exit_code == number && is_new;
    let is_sent = effect || is_in(TELLING, number) || is_default(target, number);
    // Only a signal that ends its target cannot be sent again and again.
    let ends = effect || number == SIGKILL && is_new;
    let is_over = is_sent && !ends && !may_send();
    if is_over && is_new {
        caught::lost(target_tgid);
    }
    if is_over && target_tgid == current_tgid() {
        return count(Hook::Signal, ledger::FILTERED);
    }
    if is_over || !is_sent {
        let outcome = caught::keep(target, number, code, group as u32 & 1, result);
        return count(Hook::Signal, outcome);
    }
    let Some(mut entry) = DEATHS.reserve::<Signal>(0) else {
        caught::lost(target_tgid);
        return count(Hook::Signal, ledger::RING_FULL);
    };
    // SAFETY: the reservation has the size of the record. Every field is written below, and all are
    // plain bytes.
    let record = unsafe { &mut *entry.as_mut_ptr() };
    record.header = header(Kind::Signal);
    record.target = process(target);
    record.signal = number;
    record.code = code;
    record.group = group as u32 & 1;
    record.result = result;
    record.flags = if dying { GROUP_EXIT } else { 0 } | if effect { TOOK_EFFECT } else { 0 };
    record.group_exit_code = exit_code;
    record.parent_death_signal = read(target, offsets().task_pdeath_signal);
    sender(target, record);
    let task = current();
    let other = if record.sender.tgid == target_tgid {
        task
    } else {
        target
    };
    tracer::<false>(target, other, &mut record.tracer);
    entry.submit(WAKEUP);
    count(Hook::Signal, ledger::SUBMITTED);
}

/// Whether the running user and all users have room for one more record of a signal that does not
/// end its target now: it is caught, blocked, or waits already. Nobody can fill the ring with them.
#[inline(always)]
fn may_send() -> bool {
    let users = Users {
        each: &USER_SIGNALLED,
        all: &ALL_SIGNALLED,
        most_of_each: USER_SIGNALS,
        most_of_all: ALL_SIGNALS,
        shift: PROCESS_SHIFT,
    };
    // SAFETY: the helper reads a clock.
    let now = unsafe { bpf_ktime_get_boot_ns() };
    users.take(bpf_get_current_uid_gid() as u32, now, true)
}

/// Returns whether one of [`HARMLESS`] may be why a tracked process ends, and is neither the end of
/// its child nor its own. One that is ignored has another result. A stop makes calls fail (EINTR)
/// without a handler.
#[inline(always)]
fn may_be_caught(number: i32, code: i32, target_tgid: u32) -> bool {
    let child_ends = number == SIGCHLD && code > 0;
    let own = code <= 0 && target_tgid == current_tgid();
    !child_ends && !own && TRACKED.get_ptr(target_tgid).is_some()
}

/// Returns whether a set contains a signal.
#[inline(always)]
pub(crate) fn is_in(set: u64, number: i32) -> bool {
    number < 32 && set & (1 << number) != 0
}

/// Returns whether the target has no handler for a signal. An ignored signal counts as handled.
///
/// Without a handler the signal is fatal, even if it has not killed the target yet: a process that
/// is stopped, or that has another pending signal and does not run, takes it later (`wants_signal`
/// in kernel/signal.c).
#[inline(always)]
fn is_default(target: u64, number: i32) -> bool {
    let actions: u64 = read(target, offsets().task_sighand);
    if actions == 0 {
        return false;
    }
    let at = offsets().sighand_actions + (number as u32 - 1) * offsets().sigaction_size;
    let handler: u64 = read(actions, at + offsets().sigaction_handler);
    handler == 0
}

/// Keeps the target of a SIGKILL that the kernel sends by itself. If the OOM killer sends it,
/// `mark_victim` follows on this CPU.
#[inline(always)]
fn remember(target: u64, tgid: u32, is_tracked: bool) {
    if let Some(slot) = LAST_KILL.get_ptr_mut(0) {
        let kill = KernelKill {
            target,
            sender: current(),
            tgid,
            is_tracked: u32::from(is_tracked),
        };
        // SAFETY: the pointer is to this CPU's slot, which holds plain integers.
        unsafe { *slot = kill };
    }
}

#[inline(always)]
fn sender(target: u64, record: &mut Signal) {
    let task = current();
    let flags: u32 = read(task, offsets().task_flags);
    if flags & PF_EXITING != 0 {
        record.flags |= SENDER_EXITING;
        if exits_as_a_whole(task) {
            record.flags |= SENDER_PROCESS_EXITING;
        }
    }
    if flags & PF_KTHREAD != 0 {
        record.flags |= SENDER_KERNEL_THREAD;
    }
    let seen_from = root(task);
    if seen_from[0] != 0 && seen_from == root(target) {
        record.flags |= SENDER_SAME_ROOT;
    }
    record.sender = process(task);
    record.sender_uids = uids(task);
    record.reserved = 0;
    let mm: u64 = read(task, offsets().task_mm);
    record.file = executable(mm);
    let call = call::of(task);
    record.call = call.number;
    record.arguments = call.arguments();
    record.flags |= call.flag();
    command(mm, record);
    leader_comm(task, record.sender_comm.as_mut_ptr());
    ancestors(task, &mut record.ancestors);
    exe(task, &mut record.exe);
    let mut css = memory_css(task);
    for level in 0..SENDER_CGROUPS {
        record.cgroup[level][0] = 0;
        if css != 0 {
            let name = record.cgroup[level].as_mut_ptr();
            directory_name(css_directory(css), name, SENDER_CGROUP_NAME);
            css = css_parent(css);
        }
    }
}

/// Returns whether the process of an exiting thread exits too: a group exit has begun, or no other
/// thread is left.
#[inline(always)]
fn exits_as_a_whole(task: u64) -> bool {
    let shared = signal_struct::<false>(task);
    let flags: u32 = read(shared, offsets().signal_flags);
    let live: i32 = read(shared, offsets().signal_live);
    flags & SIGNAL_GROUP_EXIT != 0 || live == 0
}

/// Reads the command line of the sender's last exec, or the one that it shows now if that one is
/// not kept.
#[inline(always)]
fn command(mm: u64, record: &mut Signal) {
    if let Some(length) = commands::find(&record.sender, &mut record.command) {
        record.flags |= SENDER_EXEC_SEEN;
        record.command_length = length;
        return;
    }
    let range = argument_range(mm);
    record.command_length = arguments(range, record.command.as_mut_ptr(), COMMAND as u32);
}
