//! Judges what the kernel ends a process for besides memory: the limits that it was given, and the machine's errors.

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

/// One such end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    CpuTime,
    FileSize,
    Seccomp,
    MemoryError,
}

impl Limit {
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

/// The verdict on a signal that the kernel sent for one of these; `None` for another one.
pub(super) fn by_signal(signal: &Timestamped<Signal>, origin: SignalOrigin) -> Option<Draft> {
    let limit = match origin.kind {
        Origin::FileLimit => Limit::FileSize,
        Origin::Seccomp => Limit::Seccomp,
        Origin::Hwpoison => Limit::MemoryError,
        Origin::Kernel if signal.what.signal == SIGXCPU => Limit::CpuTime,
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

/// The same where only the exit status says it: anybody may have sent it, which is rare.
pub(super) fn by_status(signal: i32) -> Option<Draft> {
    let limit = match signal {
        SIGXCPU => Limit::CpuTime,
        SIGXFSZ => Limit::FileSize,
        SIGSYS => Limit::Seccomp,
        _ => return None,
    };
    Some(limit.draft(Certainty::Inferred))
}
