//! `signal/signal_deliver(sig, info, action)`: reports signals that end a process.
//!
//! Only core-dumping, quiet and real-time signals that take their default action are reported. The
//! program also keeps a snapshot of the memory, for kernels that free it before the exit event.
//! Format (6.18): `sig, errno, code, sa_handler, sa_flags`. A SIGKILL here does not prove a kill:
//! every group exit sends it to the sibling threads. Rate: every delivered signal; the program
//! first filters by number. Without this hook, crashes are only inferred.

use raytrace_ebpf::records::{Delivered, Hook, Kind, Snapshot, ledger};

use super::{
    hook,
    kernel::{current, header, process, signal_struct},
    maps::{DEATHS, SNAPSHOT_SCRATCH, SNAPSHOTS, TRACKED, WAKEUP, count, offsets},
    memory,
};
use crate::read::read;

hook!(
    signal_deliver_btf,
    signal_deliver_raw,
    "signal_deliver",
    delivered,
    [0, 1, 2]
);

/// Signals that dump core by default: QUIT ILL TRAP ABRT BUS FPE SEGV XCPU XFSZ SYS.
const CORE: u64 =
    1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 11 | 1 << 24 | 1 << 25 | 1 << 31;
/// Quiet signals: USR1 USR2 PIPE ALRM STKFLT VTALRM PROF IO PWR. They are fatal by default and
/// often handled, so `signal_generate` does not report them if the target has a handler.
const QUIET: u64 =
    1 << 10 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 16 | 1 << 26 | 1 << 27 | 1 << 29 | 1 << 30;
/// All signals below 32 that end a process at once: HUP INT KILL TERM, and the two sets above.
const FATAL: u64 = 1 << 1 | 1 << 2 | 1 << 9 | 1 << 15 | CORE | QUIET;

/// `SIGNAL_UNKILLABLE` (linux/sched/signal.h, the same since 2.6.26): the init process of a pid
/// namespace drops signals for which it has no handler. A fault clears the flag before its signal
/// is delivered.
const SIGNAL_UNKILLABLE: u32 = 0x40;

#[inline(always)]
fn delivered<const TYPED: bool, C>(_context: &C, signal: u64, info: u64, action: u64) {
    let number = signal as i32;
    // Real-time signals, 32 to 64, are treated like the quiet ones.
    let real_time = (32..=64).contains(&number);
    if !real_time && (!(1..32).contains(&number) || FATAL & (1 << number) == 0) {
        return;
    }
    count(Hook::Deliver, ledger::SEEN);
    let task = current();
    let key = process(task);
    let handler: u64 = read(action, offsets().sigaction_handler);
    if TRACKED.get_ptr(key.tgid).is_none() || (handler != 0 && number != 9) {
        return count(Hook::Deliver, ledger::FILTERED);
    }
    let flags: u32 = read(signal_struct::<false>(task), offsets().signal_flags);
    if flags & SIGNAL_UNKILLABLE != 0 && number != 9 {
        return count(Hook::Deliver, ledger::FILTERED);
    }
    keep(task, key.tgid, key.start);
    if !real_time && (CORE | QUIET) & (1 << number) == 0 {
        return count(Hook::Deliver, ledger::FILTERED);
    }
    let Some(mut record) = DEATHS.reserve::<Delivered>(0) else {
        return count(Hook::Deliver, ledger::RING_FULL);
    };
    let code = if info > 1 { read(info, 8) } else { 0 };
    record.write(Delivered {
        header: header(Kind::Delivered),
        process: key,
        signal: number,
        code,
    });
    record.submit(WAKEUP);
    count(Hook::Deliver, ledger::SUBMITTED);
}

/// Takes a snapshot of a process unless it already has one: later threads of the group see less
/// memory.
#[inline(always)]
fn keep(task: u64, tgid: u32, start: u64) {
    let mm: u64 = read(task, offsets().task_mm);
    let Some(scratch) = SNAPSHOT_SCRATCH.get_ptr_mut(0) else {
        return;
    };
    if mm == 0 {
        return;
    }
    if let Some(known) = SNAPSHOTS.get_ptr(tgid) {
        // SAFETY: a map value stays readable while the program runs.
        if unsafe { (*known).start } == start {
            return;
        }
    }
    // SAFETY: the pointer is to this CPU's slot, which only this program uses.
    let snapshot: &mut Snapshot = unsafe { &mut *scratch };
    snapshot.start = start;
    snapshot.mm = mm;
    snapshot.memory = memory::of(mm, signal_struct::<false>(task));
    snapshot.title_length = memory::title(mm, snapshot.title.as_mut_ptr());
    snapshot.reserved = 0;
    let _ = SNAPSHOTS.insert(tgid, &*snapshot, 0);
}
