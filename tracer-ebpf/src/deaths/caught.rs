//! Keeps the last signal that a process caught, of those that `signal_generate` does not report.
//!
//! SIGUSR1, SIGALRM and real-time signals are sent by the thousand, and rarely end a process that
//! has a handler. But any of them may be agreed on as the one at which a process ends. So the last
//! one of another process is kept, and reported with the exit. A signal that a process sends to
//! itself, or that the kernel sends, is not kept. Cost: some 20 reads for each signal.

use aya_ebpf::helpers::bpf_ktime_get_boot_ns;
use raytrace_ebpf::records::{CALL_ARGUMENTS, COMM, Caught, Process, ledger};

use super::{
    call,
    kernel::{current, current_tgid, leader_comm, process, uids},
    maps::{CAUGHT, TRACKED},
};

/// The code of a timer's signal, which may hit while any process runs.
const SI_TIMER: i32 = -2;

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

/// Keeps a signal that was queued for a tracked process by another one. Returns the column of the
/// ledger.
#[inline(always)]
pub(crate) fn keep(target: u64, number: i32, code: i32, group: u32, result: i32) -> u32 {
    // Positive codes are the kernel's: nobody can give one to the signal of another process.
    if code > 0 || (result != 0 && result != 4) {
        return ledger::FILTERED;
    }
    let target = process(target);
    if target.tgid == current_tgid() {
        return ledger::FILTERED;
    }
    let task = current();
    let call = call::of(task);
    let arguments = call.arguments();
    // A call that sends a signal has its number as an argument. That tells a code that was made up.
    let names = |argument: u64| argument as i32 == number;
    if code == SI_TIMER && !names(arguments[1]) && !names(arguments[2]) {
        return ledger::FILTERED;
    }
    let Some(known) = TRACKED.get_ptr_mut(target.tgid) else {
        return ledger::FILTERED;
    };
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
        return ledger::MAP_FULL;
    }
    // SAFETY: a map value stays writable while the program runs.
    unsafe { (*known).has_caught = 1 };
    ledger::FILTERED
}

/// Copies the signal that was kept of a process into the record of its exit.
#[inline(always)]
pub(crate) fn copy(process: &Process, to: &mut Caught) {
    *to = NONE;
    let Some(known) = TRACKED.get_ptr(process.tgid) else {
        return;
    };
    // SAFETY: a map value stays readable while the program runs.
    if unsafe { (*known).has_caught } == 0 {
        return;
    }
    if let Some(kept) = CAUGHT.get_ptr(process.tgid) {
        // SAFETY: as above.
        let kept = unsafe { &*kept };
        if kept.target.start == process.start {
            *to = *kept;
        }
    }
}

/// Forgets the signal of a process whose exit is reported.
#[inline(always)]
pub(crate) fn forget(copied: &Caught) {
    if copied.time != 0 {
        let _ = CAUGHT.remove(copied.target.tgid);
    }
}
