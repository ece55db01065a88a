//! What processes map, as the kernel tells it, and the last steps of those that died.

use std::os::fd::{AsFd as _, BorrowedFd};

use super::{Collector, Watch};
use crate::{
    event::{Exit, Observation, Source},
    ids::BootTime,
    observe::kernel::{NewMapping, Told},
};

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
            match (told, &self.stacks) {
                (Told::Mapped(new), _) => self.mapped(new),
                (Told::Grew(new), Some(stacks)) => stacks.grew(new),
                (Told::Grew(_), None) => {}
            }
        }
    }

    /// One mapping, some microseconds to milliseconds after the thread asked for it.
    fn mapped(&mut self, new: NewMapping) {
        let (time, mapped) = (new.time, new.mapped);
        if let Some(stacks) = &self.stacks {
            stacks.mapped(new);
        }
        self.emit(Source::Kernel, time, Observation::Mapped(mapped));
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
