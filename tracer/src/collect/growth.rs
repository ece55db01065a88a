//! What processes map, as the kernel tells it, and the last steps of those that died.

use std::os::fd::{AsFd as _, BorrowedFd};

use super::{Collector, Watch};
use crate::{
    event::{Exit, Ledger, Observation, Probe, ProbeState, Role, Source},
    ids::BootTime,
    observe::{
        clock,
        kernel::{MemoryRecord, NewMapping},
    },
};

/// What the thread that reads stacks is called where it is missing, and where it could not follow.
pub(super) const STACKS: &str = "python stacks";

impl Watch {
    /// What becomes readable when something large is mapped; [`Collector::take_mappings`] is to be called then, and now and again.
    #[must_use]
    pub fn mappings(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel { growth, .. } => growth.as_ref().map(|growth| growth.as_fd()),
            Self::Pidfds => None,
        }
    }
}

impl Collector {
    /// Takes what was told since the last call.
    pub fn take_mappings(&mut self) {
        let Some(growth) = &mut self.growth else {
            return;
        };
        let mut found = Vec::new();
        growth.drain(|told| found.push(told));
        for told in found {
            match told {
                MemoryRecord::Mapped(new) => self.mapped(new),
                MemoryRecord::Grew(new) => {
                    if let Some(stacks) = &mut self.stacks {
                        stacks.grew(new);
                    }
                }
            }
        }
    }

    /// One mapping, some microseconds to milliseconds after the thread asked for it.
    fn mapped(&mut self, new: NewMapping) {
        let (time, mapped) = (new.time, new.mapped);
        if let Some(stacks) = &mut self.stacks {
            stacks.mapped(new);
        }
        self.emit(Source::Kernel, time, Observation::Mapped(mapped));
    }

    /// Tells the thread that reads stacks what lives, and once if there is no such thread any more.
    pub(super) fn feed_stacks(&mut self) {
        let Some(stacks) = &mut self.stacks else {
            return;
        };
        let known = self.known.values();
        let python = known.filter(|known| !matches!(known.role, Role::Raylet | Role::Gcs));
        let growth = self.growth.as_ref();
        let slot = |process| growth.and_then(|growth| growth.slot(process));
        let processes = python
            .map(|known| known.process.process)
            .map(|process| (process, slot(process)))
            .collect();
        if let Some(reason) = stacks.known(processes, self.samples.near()) {
            let probe = Probe {
                name: STACKS.into(),
                state: ProbeState::Missing,
                reason: Some(reason.into()),
                required: false,
            };
            self.emit(Source::Recorder, clock::boot(), Observation::Probe(probe));
        }
    }

    /// A row for what the thread that reads stacks was not told, where there is any. No event is lost by that: its looks find the growth,
    /// mostly without a line.
    pub(super) fn left_to_looks(&self) -> Option<Ledger> {
        let refused = self.stacks.as_ref().map(super::stacks::Stacks::refused);
        let refused = refused.filter(|refused| *refused > 0)?;
        Some(Ledger {
            hook: STACKS.into(),
            seen: refused,
            filtered: refused,
            ..Ledger::default()
        })
    }

    /// The last steps of a process that ended badly.
    pub(super) fn last_steps(&mut self, exit: &Exit, time: BootTime) {
        let process = exit.process;
        let steps = match &mut self.growth {
            Some(growth) => growth.forget(process),
            None => return,
        };
        if exit.status != Some(0) && !steps.is_empty() {
            self.emit(Source::Kernel, time, Observation::Steps { process, steps });
        }
    }
}
