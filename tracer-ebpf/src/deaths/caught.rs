//! Keeps the last signal from outside that a process caught, of those that `signal_generate` does
//! not report.
//!
//! SIGUSR1, SIGWINCH and real-time signals are sent by the thousand, and rarely end a process that
//! has a handler. But any of them may be agreed on as the one at which a process ends. So the last
//! one is kept, and reported with the exit. A signal that a process sends to itself, its timers and
//! the ends of its children are not from outside. Cost: some 20 reads for each signal.

use aya_ebpf::helpers::bpf_ktime_get_boot_ns;
use raytrace_ebpf::records::{CALL_ARGUMENTS, COMM, Caught, Process, ledger};

use super::{
    call,
    kernel::{SI_KERNEL, current, current_tgid, leader_comm, process, uids},
    maps::{CAUGHT, TRACKED},
    signal_generate::is_in,
};

/// The code of a timer's signal, which may hit while any process runs.
const SI_TIMER: i32 = -2;
/// The signals of `setitimer` and `alarm`, which a process sets for itself: ALRM VTALRM PROF.
const OWN_TIMERS: u64 = 1 << 14 | 1 << 26 | 1 << 27;

const NO_PROCESS: Process = Process {
    tgid: 0,
    tid: 0,
    start: 0,
};

/// No signal.
pub(crate) const NONE: Caught = Caught {
    time: 0,
    target: NO_PROCESS,
    sender: NO_PROCESS,
    arguments: [0; CALL_ARGUMENTS],
    signal: 0,
    code: 0,
    group: 0,
    result: 0,
    call: 0,
    flags: 0,
    sender_uids: [0; 3],
    reserved: 0,
    sender_comm: [0; COMM],
};

/// Keeps a signal that was queued for a tracked process, if it came from outside. Returns the column
/// of the ledger.
///
/// The kernel sends one with a code above 0 in the name of whoever runs then, the process itself
/// too. Another process may have arranged it (`F_SETOWN`).
#[inline(always)]
pub(crate) fn keep(target: u64, number: i32, code: i32, group: u32, result: i32) -> u32 {
    let is_own_timer = code == SI_KERNEL && is_in(OWN_TIMERS, number);
    if is_own_timer || (result != 0 && result != 4) {
        return ledger::FILTERED;
    }
    let target = process(target);
    let own = target.tgid == current_tgid();
    if own && code <= 0 {
        return ledger::FILTERED;
    }
    let Some(known) = TRACKED.get_ptr_mut(target.tgid) else {
        return ledger::FILTERED;
    };
    // SAFETY: a map value stays writable while the program runs. Other CPUs write whole bytes.
    let known = unsafe { &mut *known };
    let task = current();
    let call = call::of(task);
    let arguments = call.arguments();
    // A call that sends a signal has its number as an argument. That tells a code that was made up.
    let names = |argument: u64| argument as i32 == number;
    let may_be_made_up = names(arguments[1]) || names(arguments[2]);
    if code == SI_TIMER && !may_be_made_up {
        return ledger::FILTERED;
    }
    if own && may_be_made_up && known.has_caught != 0 {
        // If the process has sent it to itself, the one that is kept may be the one that matters.
        known.lost_signal = 1;
        return ledger::FILTERED;
    }
    let mut kept = NONE;
    // SAFETY: the helper reads a clock.
    kept.time = unsafe { bpf_ktime_get_boot_ns() };
    kept.target = target;
    kept.sender = process(task);
    kept.arguments = arguments;
    kept.signal = number;
    kept.code = code;
    kept.group = group;
    kept.result = result;
    kept.call = call.number;
    kept.flags = call.flag();
    kept.sender_uids = uids(task);
    leader_comm(task, kept.sender_comm.as_mut_ptr());
    if CAUGHT.insert(target.tgid, &kept, 0).is_err() {
        known.lost_signal = 1;
        return ledger::MAP_FULL;
    }
    // This one may still wait at the end, and the one before it have been taken.
    known.lost_signal |= known.has_caught;
    known.has_caught = 1;
    ledger::FILTERED
}

/// Notes that a signal to a process was seen and not recorded.
#[inline(always)]
pub(crate) fn lost(tgid: u32) {
    if let Some(known) = TRACKED.get_ptr_mut(tgid) {
        // SAFETY: a map value stays writable while the program runs.
        unsafe { (*known).lost_signal = 1 };
    }
}

/// Copies the signal that was kept of a process into the record of its exit. Returns 1 if something
/// about the process was seen and not recorded, else 0.
#[inline(always)]
pub(crate) fn copy(process: &Process, to: &mut Caught) -> u32 {
    *to = NONE;
    let Some(known) = TRACKED.get_ptr(process.tgid) else {
        return 0;
    };
    // SAFETY: a map value stays readable while the program runs.
    let known = unsafe { &*known };
    let lost = known.lost_signal | known.lost_interference;
    if known.has_caught == 0 {
        return u32::from(lost);
    }
    if let Some(kept) = CAUGHT.get_ptr(process.tgid) {
        // SAFETY: as above.
        let kept = unsafe { &*kept };
        if kept.target.start == process.start {
            *to = *kept;
            return u32::from(lost);
        }
    }
    1
}

/// Forgets the signal of a process whose exit is reported.
#[inline(always)]
pub(crate) fn forget(copied: &Caught) {
    if copied.time != 0 {
        let _ = CAUGHT.remove(copied.target.tgid);
    }
}
