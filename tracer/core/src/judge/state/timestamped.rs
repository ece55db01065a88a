//! Holds what was seen together with its time.

use crate::{
    event::{Exit, Source},
    ids::{BootTime, EventId},
    judge::state::snapshot::Snapshot,
};

/// A thing that was seen, with its time.
#[derive(Debug, Clone)]
pub(in crate::judge) struct Timestamped<T> {
    pub(in crate::judge) time: BootTime,
    pub(in crate::judge) what: T,
}

/// One exit, with what was known of the memory around it at that moment.
#[derive(Debug, Clone)]
pub(in crate::judge) struct ExitSeen {
    pub(in crate::judge) id: EventId,
    pub(in crate::judge) time: BootTime,
    pub(in crate::judge) source: Source,
    pub(in crate::judge) exit: Exit,
    pub(in crate::judge) around: Box<Snapshot>,
}

impl ExitSeen {
    /// Whether this end was not seen: the process was killed and has yet to end.
    pub(in crate::judge) fn is_pending(&self) -> bool {
        self.id == EventId::NONE
    }
}
