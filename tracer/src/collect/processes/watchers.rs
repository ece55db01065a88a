//! Watches processes: in the kernel's tracked set and table of memory, or by a pidfd each.

use std::{
    collections::HashSet,
    os::fd::{AsFd as _, BorrowedFd},
};

use super::{pidfds::Pidfds, sweep};
use crate::{
    event::Step,
    ids::ProcessKey,
    observe::{
        kernel::{Growth, Ledgers, Tracked},
        processes,
    },
};

/// How processes are watched.
#[expect(clippy::large_enum_variant, reason = "there is one, for a moment")]
pub enum Watch {
    /// In the kernel.
    Kernel {
        /// The tracked set.
        tracked: Tracked,
        /// The loss ledger.
        ledgers: Ledgers,
        /// What processes map, if the kernel reports it.
        growth: Option<Growth>,
    },
    /// By pidfds.
    Pidfds,
}

impl Watch {
    /// Returns the descriptor that becomes readable when something large is mapped. Call
    /// [`crate::collect::Collector::take_mappings`] then, and from time to time.
    pub fn mappings(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel { growth, .. } => growth.as_ref().map(|growth| growth.as_fd()),
            Self::Pidfds => None,
        }
    }
}

/// The means of watching that are available.
#[derive(Default)]
pub(super) struct Watchers {
    pub(super) tracked: Option<Tracked>,
    pub(super) ledgers: Option<Ledgers>,
    pub(super) growth: Option<Growth>,
    pub(super) pidfds: Option<Pidfds>,
    /// Processes that were already ending when they were added to the tracked set. Exit events are
    /// not expected for them.
    pub(super) late: HashSet<ProcessKey>,
}

impl Watchers {
    pub(super) fn new(watch: Watch) -> Self {
        let mut own = Self::default();
        match watch {
            Watch::Kernel {
                tracked,
                ledgers,
                growth,
            } => {
                (own.tracked, own.ledgers, own.growth) = (Some(tracked), Some(ledgers), growth);
            }
            Watch::Pidfds => own.pidfds = Some(Pidfds::default()),
        }
        own
    }

    pub(super) fn track(&mut self, process: ProcessKey) {
        if let Some(tracked) = &mut self.tracked
            && !tracked.contains(process.pid.0)
        {
            tracked.add(process);
            if sweep::may_have_been_reported(process, processes::stat(process.pid).as_ref()) {
                self.late.insert(process);
            }
        }
        if let Some(pidfds) = &mut self.pidfds {
            pidfds.watch(process);
        }
    }

    /// Watches the memory of a process from the moment it is described.
    pub(super) fn watch_memory(&mut self, process: ProcessKey) {
        if let Some(growth) = &mut self.growth {
            growth.watch(process);
        }
    }

    /// Stops watching a process's memory, and returns its last steps.
    pub(super) fn forget(&mut self, process: ProcessKey) -> Vec<Step> {
        let growth = self.growth.as_mut();
        growth.map_or_else(Vec::new, |growth| growth.forget(process))
    }
}
