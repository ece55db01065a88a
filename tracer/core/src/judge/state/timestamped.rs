//! Holds what was seen together with its time.

use crate::{
    event::{Exit, Source},
    ids::{BootTime, EventId},
    judge::state::snapshot::Snapshot,
};

/// A thing that was seen, with its time.
#[derive(Debug, Clone)]
pub(crate) struct Timestamped<T> {
    pub(crate) time: BootTime,
    pub(crate) what: T,
}

/// One exit, with what was known of the memory around it at that moment.
#[derive(Debug, Clone)]
pub(crate) struct ExitSeen {
    pub(crate) id: EventId,
    pub(crate) time: BootTime,
    pub(crate) source: Source,
    pub(crate) exit: Exit,
    pub(crate) around: Box<Snapshot>,
}

impl ExitSeen {
    /// Whether this end was not seen: the process was killed and has yet to end.
    pub(crate) fn is_pending(&self) -> bool {
        self.id == EventId::NONE
    }
}
