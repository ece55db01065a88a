//! Judges ends by the kernel for other reasons than memory.
//!
//! These are the limits that a process was given, and errors of the machine.

use libc::{SIGSYS, SIGXCPU, SIGXFSZ};

use super::Draft;
use crate::{
    event::Signal,
    judge::{
        cause::{Cause, Resource},
        report::{Certainty, Killer, Mechanism, Relation},
        signal_origin::{Origin, SignalOrigin},
        state::timestamped::Timestamped,
    },
};

/// A reason other than memory for which the kernel ends a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessLimit {
    CpuTime,
    FileSize,
    Seccomp,
    MemoryError,
}

impl ProcessLimit {
    fn mechanism(self) -> Mechanism {
        match self {
            Self::CpuTime => Mechanism::RlimitCpu,
            Self::FileSize => Mechanism::RlimitFsize,
            Self::Seccomp => Mechanism::Fault,
            Self::MemoryError => Mechanism::Hwpoison,
        }
    }

    fn cause(self) -> Cause {
        match self {
            Self::CpuTime => Cause::ResourceLimit {
                limit: Resource::CpuTime,
            },
            Self::FileSize => Cause::ResourceLimit {
                limit: Resource::FileSize,
            },
            Self::Seccomp => Cause::Seccomp,
            Self::MemoryError => Cause::HardwareMemoryError,
        }
    }

    fn draft(self, certainty: Certainty) -> Draft {
        Draft::new(Killer::KernelOther, certainty, self.cause())
    }
}

/// Returns the verdict on a signal that the kernel sent for one of these reasons; `None` for
/// another one.
pub(super) fn by_signal(signal: &Timestamped<Signal>, origin: SignalOrigin) -> Option<Draft> {
    let limit = match origin.kind {
        Origin::FileLimit => ProcessLimit::FileSize,
        Origin::Seccomp => ProcessLimit::Seccomp,
        Origin::Hwpoison => ProcessLimit::MemoryError,
        Origin::Kernel if signal.what.signal == SIGXCPU => ProcessLimit::CpuTime,
        _ => return None,
    };
    let certainty = if origin.is_certain {
        Certainty::Proven
    } else {
        Certainty::Inferred
    };
    let draft = limit.draft(certainty);
    Some(
        draft
            .sent(signal, Relation::Other, limit.mechanism())
            .without_sender_identity(),
    )
}

/// Like [`by_signal`], by the exit status alone. Anybody may have sent the signal, which is rare.
pub(super) fn by_status(signal: i32) -> Option<Draft> {
    let limit = match signal {
        SIGXCPU => ProcessLimit::CpuTime,
        SIGXFSZ => ProcessLimit::FileSize,
        SIGSYS => ProcessLimit::Seccomp,
        _ => return None,
    };
    Some(limit.draft(Certainty::Inferred))
}
