//! `ptrace_attach`, `security_ptrace_traceme`, `mem_write`, `mm_access`: who traces a process or
//! writes into its memory.
//!
//! Whoever does can make the process exit, fault or send a signal, and be gone before it ends. The
//! first is in kernel/ptrace.c (PTRACE_ATTACH, PTRACE_SEIZE), the second in security/security.c
//! (PTRACE_TRACEME), the third is the write to `/proc/PID/mem` (fs/proc/base.c). `mm_access`
//! (kernel/fork.c) is also called for a read and for other files of `/proc`: its program returns
//! unless the running task is in `process_vm_writev`. Only successful acts of another process are
//! reported, and each write, because a write may end its target before it returns. `fentry` and
//! `fexit` programs need Linux 5.5 on x86-64, 6.0 on aarch64.
//!
//! Without these hooks, most tracers are still seen: `task_struct.ptrace` is read at each signal to
//! a process, at its fork and at its exec, and each stop sends SIGCHLD to the tracer, unless that
//! one ignores it. Rate: a few for each attach; a record for each process, way and 4.3 s at most,
//! within a budget for each user.

use aya_ebpf::{
    macros::{fentry, fexit},
    programs::{FEntryContext, FExitContext},
};
use raytrace_ebpf::records::{
    ALL_INTERFERENCES, Hook, Interfered, Interference, Kind, PERIOD_SHIFT, PROCESS_INTERFERENCES,
    PROCESS_SHIFT, Tracked, USER_INTERFERENCES, ledger,
};

use super::{
    budget::Users,
    call,
    kernel::{current, header, leader_comm, process, uid},
    maps::{ALL_INTERFERED, DEATHS, NO_WAKEUP, TRACKED, USER_INTERFERED, count_seen, offsets},
};
use crate::read::read;

const SIGCHLD: i32 = 17;
/// `CLD_TRAPPED` and `CLD_STOPPED` (uapi/asm-generic/siginfo.h).
const STOPPED: core::ops::RangeInclusive<i32> = 4..=5;
/// `PTRACE_MODE_ATTACH_REALCREDS` (linux/ptrace.h, the same since 4.5), the mode of
/// `process_vm_readv` and `process_vm_writev`.
const ATTACH_REALCREDS: u32 = 0x12;
/// `MAX_ERRNO` (linux/err.h).
const MAX_ERRNO: i64 = 4095;

#[fexit(function = "ptrace_attach")]
pub(crate) fn ptrace_attach(context: FExitContext) -> i32 {
    let task = context.arg::<*const u8>(0) as u64;
    let result: i32 = context.arg(4);
    let outcome = if result == 0 {
        report(Kind::Attached, task, current())
    } else {
        ledger::FILTERED
    };
    count_seen(Hook::Attach, outcome);
    0
}

#[fexit(function = "security_ptrace_traceme")]
pub(crate) fn ptrace_traceme(context: FExitContext) -> i32 {
    let parent = context.arg::<*const u8>(0) as u64;
    let result: i32 = context.arg(1);
    let outcome = if result == 0 {
        report(Kind::TraceMe, current(), parent)
    } else {
        ledger::FILTERED
    };
    count_seen(Hook::TraceMe, outcome);
    0
}

/// At its entry: at its exit, a process that was made to end may have ended.
#[fentry(function = "mem_write")]
pub(crate) fn mem_write(context: FEntryContext) -> i32 {
    let file = context.arg::<*const u8>(0) as u64;
    let bytes: u64 = context.arg(2);
    let outcome = if bytes > 0 {
        let mm: u64 = read(file, offsets().file_private_data);
        let owner: u64 = read(mm, offsets().mm_owner);
        report(Kind::MemoryWritten, owner, current())
    } else {
        ledger::FILTERED
    };
    count_seen(Hook::MemoryWrite, outcome);
    0
}

#[fexit(function = "mm_access")]
pub(crate) fn mm_access(context: FExitContext) -> i32 {
    let mode: u32 = context.arg(1);
    let mm = context.arg::<*const u8>(2) as i64;
    if mode != ATTACH_REALCREDS || (-MAX_ERRNO..=0).contains(&mm) {
        return 0;
    }
    let caller = current();
    let call = call::of(caller);
    let [native, x32, compat] = offsets().vm_write_calls;
    let writes = if call.compat {
        compat != 0 && call.number == compat
    } else {
        native != 0 && (call.number == native || call.number == x32)
    };
    if writes {
        let task = context.arg::<*const u8>(0) as u64;
        count_seen(Hook::MemoryAccess, report(Kind::VmWritten, task, caller));
    }
    0
}

/// Reports a tracer that a signal shows, if it does: that of the target, or the one to which the
/// running task stops. Returns the column of the ledger.
#[inline(always)]
pub(crate) fn at_signal(number: i32, code: i32, target: u64) -> Option<u32> {
    let is_stop = number == SIGCHLD && STOPPED.contains(&code);
    tracer_of(Kind::Traced, if is_stop { current() } else { target })
}

/// Reports the tracer of a task, if it has one. Returns the column of the ledger.
#[inline(always)]
pub(crate) fn tracer_of(kind: Kind, task: u64) -> Option<u32> {
    let traces: u32 = read(task, offsets().task_ptrace);
    if traces == 0 {
        return None;
    }
    let tracer: u64 = read(task, offsets().task_parent);
    Some(report(kind, task, tracer))
}

/// Reports that `by` interferes with a tracked process, unless it is the same process or that was
/// reported just now. Returns the column of the ledger.
#[inline(always)]
fn report(kind: Kind, task: u64, by: u64) -> u32 {
    let target = process(task);
    let other = process(by);
    if other.tgid == target.tgid || other.tgid == 0 {
        return ledger::FILTERED;
    }
    let Some(known) = TRACKED.get_ptr_mut(target.tgid) else {
        return ledger::FILTERED;
    };
    let header = header(kind);
    let period = (header.time >> PROCESS_SHIFT) as u32;
    // SAFETY: the pointer is to an entry of a map. Two CPUs may report one act twice.
    let known: &mut Tracked = unsafe { &mut *known };
    if !is_new(&mut known.interfered, kind, other.tgid, period) {
        return ledger::FILTERED;
    }
    let uid = uid(by);
    let users = Users {
        each: &USER_INTERFERED,
        all: &ALL_INTERFERED,
        most_of_each: USER_INTERFERENCES,
        most_of_all: ALL_INTERFERENCES,
        shift: PERIOD_SHIFT,
    };
    if !users.take(uid, header.time, true) {
        known.lost_interference = 1;
        return ledger::FILTERED;
    }
    let Some(mut entry) = DEATHS.reserve::<Interference>(0) else {
        // It is tried again at the next act.
        known.interfered.kinds = 0;
        known.lost_interference = 1;
        return ledger::RING_FULL;
    };
    // SAFETY: the reservation has the size of the record. Every field is written below, and all are
    // plain bytes.
    let record = unsafe { &mut *entry.as_mut_ptr() };
    record.header = header;
    record.process = target;
    record.by = other;
    record.uid = uid;
    record.reserved = 0;
    leader_comm(by, record.comm.as_mut_ptr());
    entry.submit(NO_WAKEUP);
    ledger::SUBMITTED
}

/// Whether this kind of act of this process was not reported in this period.
#[inline(always)]
fn is_new(known: &mut Interfered, kind: Kind, by: u32, period: u32) -> bool {
    if known.period != period {
        known.period = period;
        known.sent = 0;
        known.kinds = 0;
    }
    if known.by != by {
        known.by = by;
        known.kinds = 0;
    }
    let bit = 1 << kind as u32;
    if known.kinds & bit != 0 || known.sent >= PROCESS_INTERFERENCES {
        return false;
    }
    known.kinds |= bit;
    known.sent += 1;
    true
}
