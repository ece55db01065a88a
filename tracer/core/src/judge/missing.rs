//! What would settle an unknown: the one set of both judges. `show` says what to type for it.

use jiff::civil::DateTime;

use crate::ids::{HexId, WallTime};

/// What a verdict lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The sending of its signal, in a mode that sees signals.
    Sending {
        /// When to look at the kernel's log, which may say more.
        log: Option<Moment>,
    },
    /// The sender of its signal, in a mode that sees none.
    Sender,
    /// The sender of its SIGKILL, in a mode that sees none: the kernel's log tells its own.
    Killer {
        /// When to look.
        log: Moment,
    },
    /// A SIGTERM that cannot be told from an exit: Ray's handler of it exits with code 1 (`sigterm_handler`,
    /// `python/ray/_private/worker.py`), and does not always leave words of it.
    Sigterm,
    /// The id of a worker, by which Ray's logs name it.
    WorkerId,
    /// An exit status.
    Status,
    /// The way of a signal that no call asked for.
    Way,
    /// A raylet's reason.
    RayletsLine,
    /// Which memory was full.
    Scope,
    /// Why the kernel killed.
    KernelsReason,
    /// The lines above an OOM kill, in the kernel's log.
    OomLines {
        /// When to look.
        log: Moment,
    },
    /// The end of a raylet, in its logs and the kernel's.
    RayletsEnd {
        /// When to look.
        log: Moment,
    },
    /// The exit type of a worker, in Ray's state and the kernel's log.
    ExitType {
        /// When to look.
        log: Moment,
        /// The worker.
        worker_id: HexId,
    },
    /// What its node's logs say, the kernel's and the raylet's.
    NodesLogs {
        /// When to look.
        log: Moment,
    },
}

/// A moment at which to look at the kernel's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It is not known.
    Unknown,
    /// In UTC.
    At(WallTime),
    /// As a log printed it, in its node's own zone.
    Local(DateTime),
}

impl From<Option<WallTime>> for Moment {
    fn from(time: Option<WallTime>) -> Self {
        time.map_or(Self::Unknown, Self::At)
    }
}

/// Who sent a signal that was not seen.
pub(super) fn sender(at: Option<WallTime>, saw_signals: bool, killed: bool) -> Missing {
    match (saw_signals, killed) {
        (false, true) => Missing::Killer { log: at.into() },
        (false, false) => Missing::Sender,
        (true, _) => Missing::Sending {
            log: Some(at.into()),
        },
    }
}
