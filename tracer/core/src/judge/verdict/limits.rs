//! Judges ends by the kernel for other reasons than memory.
//!
//! These are the limits that a process was given, and errors of the machine.

use libc::{SIGSYS, SIGXCPU, SIGXFSZ};

use super::Draft;
use crate::{
    event::Signal,
    judge::{
        cause::{Cause, Resource},
        report::{Certainty, Killer, Mechanism},
        signal_origin::{Origin, SignalOrigin},
        state::timestamped::Timestamped,
    },
};

/// CPU time, at the soft limit.
const CPU_TIME: Cause = Cause::ResourceLimit {
    limit: Resource::CpuTime,
};

/// The size of a file.
const FILE_SIZE: Cause = Cause::ResourceLimit {
    limit: Resource::FileSize,
};

/// Returns the verdict on a signal that the kernel sent for one of these reasons; `None` for
/// another one.
pub(super) fn by_signal(signal: &Timestamped<Signal>, origin: SignalOrigin) -> Option<Draft> {
    let (mechanism, cause) = match origin.kind {
        Origin::FileLimit => (Mechanism::RlimitFsize, FILE_SIZE),
        Origin::Seccomp => (Mechanism::Fault, Cause::Seccomp),
        Origin::Hwpoison => (Mechanism::Hwpoison, Cause::HardwareMemoryError),
        Origin::Kernel if signal.what.signal == SIGXCPU => (Mechanism::RlimitCpu, CPU_TIME),
        _ => return None,
    };
    let draft = Draft::new(Killer::KernelOther, origin.certainty(), cause);
    Some(draft.sent_for_itself(signal, mechanism))
}

/// Like [`by_signal`], by the exit status alone. Anybody may have sent the signal, which is rare.
pub(super) fn by_status(signal: i32) -> Option<Draft> {
    let cause = match signal {
        SIGXCPU => CPU_TIME,
        SIGXFSZ => FILE_SIZE,
        SIGSYS => Cause::Seccomp,
        _ => return None,
    };
    let killer = Killer::KernelOther;
    Some(Draft::new(killer, Certainty::Inferred, cause))
}
