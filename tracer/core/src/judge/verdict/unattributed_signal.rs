//! Judges a death by a signal that nobody was seen to send.
//!
//! That happens in procfs mode, if the signal was sent before the recorder attached, or if it was
//! injected.

use libc::{
    SI_KERNEL, SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGPROF, SIGSEGV, SIGTRAP,
    SIGVTALRM,
};

use super::{Case, Draft, aftermath, ended_before, kernel, limits, reasons};
use crate::{
    event::Signal,
    judge::{
        cause::{Cause, ProcessRef},
        missing::Missing,
        report::{Certainty, Killer, Mechanism},
        state::timestamped::Timestamped,
    },
};

/// Returns the verdict on a signal that no system call asked for and that the kernel does not send
/// by itself. It comes from `io_uring`, a driver, or a tracer that changed it.
pub(super) fn unexplained_origin(signal: &Timestamped<Signal>) -> Draft {
    let what = &signal.what;
    let cause = Cause::SignalOfUnknownOrigin {
        signal: what.signal,
        code: what.code,
        running: ProcessRef::of(&what.sender),
    };
    Draft::unknown(cause, Missing::SignalOrigin)
}

pub(super) fn verdict(case: &Case<'_>, signal: i32) -> Draft {
    if let Some(draft) = timer(case, signal) {
        return draft;
    }
    if !aftermath::is_fault(signal)
        && let Some(raylet) = case.cluster().filter(|raylet| !raylet.same(case.key()))
        && let Some(reason) = reasons::for_process(case, raylet, case.exit.time)
    {
        let rival = kernel::by_kernel_log(case).filter(|_| signal == SIGKILL);
        if rival.is_none() {
            return reason.draft(case, Certainty::Inferred);
        }
    }
    if signal == SIGKILL
        && let Some(draft) = kernel::by_kernel_log(case).or_else(|| kernel::by_counts(case))
    {
        return draft;
    }
    if signal == SIGKILL
        && let Some(draft) = ended_before::verdict(case, case.exit.time)
    {
        return draft;
    }
    if let Some(draft) = limits::by_status(signal) {
        return draft;
    }
    match signal {
        SIGILL | SIGTRAP | SIGABRT | SIGBUS | SIGFPE | SIGSEGV => {
            let cause = Cause::Crash {
                signal: Some(signal),
                says: None,
                shared_memory: signal == SIGBUS,
            };
            Draft::new(Killer::Crash, Certainty::Inferred, cause)
        }
        _ => {
            let missing = case.sender_missing(signal == SIGKILL);
            Draft::unknown(Cause::signal(signal), missing).open(case.may_still_learn())
        }
    }
}

/// Judges SIGALRM, SIGVTALRM and SIGPROF, which are not reported when they are sent to a process
/// with a handler, nor by earlier recorders if they did not kill at once. If one came from the
/// kernel and was delivered with the default action, a timer ran out.
fn timer(case: &Case<'_>, signal: i32) -> Option<Draft> {
    let key = case.exit.exit.process.truncated();
    let delivered = case.world.delivered.get(&key)?;
    let by_kernel = delivered
        .iter()
        .any(|seen| seen.what == (signal, SI_KERNEL));
    (by_kernel && matches!(signal, SIGALRM | SIGVTALRM | SIGPROF)).then(|| {
        let cause = Cause::Timer {
            signal,
            created: false,
        };
        Draft::new(Killer::KernelOther, Certainty::Proven, cause)
            .sent_by_kernel(signal, Mechanism::Timer)
    })
}
