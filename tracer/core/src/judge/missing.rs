//! What would settle an unknown: the one set of both judges. `show` says what to type for it.

use jiff::civil::DateTime;

use crate::{
    event::Role,
    ids::{HexId, WallTime},
    judge::report::{Certainty, Death, Killer},
};

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

/// Fills in what is missing to know, for deaths from texts whose killer is not known.
pub(super) fn add(deaths: &mut [Death]) {
    for death in deaths {
        let open = matches!(death.verdict.killer, Killer::Unknown | Killer::KernelOom);
        if open || death.verdict.certainty == Certainty::Unknown {
            death.verdict.missing = Some(of_text(death));
        }
    }
}

fn of_text(death: &Death) -> Missing {
    let log = moment(death);
    if death.memory.oom.is_some() {
        return Missing::OomLines { log };
    }
    match (death.process.role, &death.work.worker_id) {
        (Role::Raylet, _) => Missing::RayletsEnd { log },
        (_, Some(worker_id)) => Missing::ExitType {
            log,
            worker_id: worker_id.clone(),
        },
        _ => Missing::NodesLogs { log },
    }
}

fn moment(death: &Death) -> Moment {
    if let Some(time) = death.when.time.or(death.when.exit_time) {
        return Moment::At(time.0);
    }
    // Times without a zone are the node's own, as journalctl takes them.
    let stamp = death.when.stamp.as_deref();
    let local = stamp.and_then(|stamp| stamp.parse().ok());
    local.map_or(Moment::Unknown, Moment::Local)
}
