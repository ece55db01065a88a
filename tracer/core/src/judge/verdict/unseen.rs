//! A death by a signal whose sending was not seen: procfs mode, a signal from before the attach, or an injected one.

use libc::{
    SI_KERNEL, SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGPROF, SIGSEGV, SIGTRAP,
    SIGVTALRM,
};

use super::{Case, Draft, aftermath, kernel, limits, reasons, self_exit};
use crate::{
    event::Signal,
    judge::{
        cause::{Cause, ProcessRef},
        missing::{self, Missing},
        report::{Certainty, Killer, Mechanism},
        state::seen::Seen,
    },
};

/// A signal that no call asked for and that the kernel does not send by itself: `io_uring`, a driver, a tracer that changed it.
pub(super) fn unasked(signal: &Seen<Signal>) -> Draft {
    let what = &signal.what;
    let cause = Cause::SignalOfUnknownWay {
        signal: what.signal,
        code: what.code,
        running: ProcessRef::of(&what.sender),
    };
    Draft::unknown(cause, Missing::Way)
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
        && let Some(draft) = kernel::by_kernel_log(case)
    {
        return draft;
    }
    if signal == SIGKILL
        && let Some(draft) = self_exit::ended_before(case, case.exit.time)
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
            let at = case.world.clock.wall(case.exit.time);
            let at = at.map(|at| at.0);
            let missing = missing::sender(at, case.saw_signals(), signal == SIGKILL);
            Draft::unknown(Cause::signal(signal), missing).open(case.may_still_learn())
        }
    }
}

/// SIGALRM, SIGVTALRM and SIGPROF are not reported when they are sent; the kernel's own, delivered with the default action,
/// is a timer that ran out.
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
