//! `signal/signal_deliver(sig, info, action)`: a core-dumping or a quiet signal takes its default action; and, on kernels that free the memory
//! before the exit event, the last look at it.
//!
//! Format (6.18): `sig, errno, code, sa_handler, sa_flags`. A SIGKILL here is no evidence of a kill: every group exit sends it to the
//! siblings. Rate: every delivered signal, thrown away by number first. Without it crashes are only inferred.

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

/// QUIT ILL TRAP ABRT BUS FPE SEGV XCPU XFSZ SYS.
const CORE: u64 =
    1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 11 | 1 << 24 | 1 << 25 | 1 << 31;
/// USR1 USR2 PIPE ALRM STKFLT VTALRM PROF IO PWR: fatal by default and often handled, so that they
/// are not reported when they are sent to a process with a handler.
const QUIET: u64 =
    1 << 10 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 16 | 1 << 26 | 1 << 27 | 1 << 29 | 1 << 30;
/// KILL and TERM and the rest that end a process at once.
const FATAL: u64 = 1 << 1 | 1 << 2 | 1 << 9 | 1 << 15 | CORE | QUIET;

/// `SIGNAL_UNKILLABLE` (linux/sched/signal.h, the same since 2.6.26): the init of a pid namespace
/// drops what it has no handler for. A fault clears the flag before it is delivered.
const SIGNAL_UNKILLABLE: u32 = 0x40;

#[inline(always)]
fn delivered<const TYPED: bool, C>(_context: &C, signal: u64, info: u64, action: u64) {
    let number = signal as i32;
    // Signals of real time, 32 to 64, are as the quiet ones.
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

/// The first look counts: later threads of the group see less.
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
        // SAFETY: a map value stays readable during the program.
        if unsafe { (*known).start } == start {
            return;
        }
    }
    // SAFETY: this CPU's own slot.
    let snapshot: &mut Snapshot = unsafe { &mut *scratch };
    snapshot.start = start;
    snapshot.mm = mm;
    snapshot.memory = memory::of(mm, signal_struct::<false>(task));
    snapshot.title_length = memory::title(mm, snapshot.title.as_mut_ptr());
    snapshot.reserved = 0;
    let _ = SNAPSHOTS.insert(tgid, &*snapshot, 0);
}
