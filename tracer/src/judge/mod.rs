//! Pure: from events to deaths, memory and findings. No I/O, no clock, no root.
//!
//! [`Judge`] folds events one by one, live; [`judge`] does it for a whole recording. Both give the same verdicts, so that what
//! is printed while recording is what the report says later.

mod act;
mod assemble;
mod clock;
mod crowd;
pub mod doctor;
mod evidence;
mod findings;
pub mod from_text;
mod jobs;
pub mod killers;
mod memory;
mod oom;
mod processes;
mod ray_words;
pub mod report;
pub mod timeline;
mod verdict;
mod world;

#[cfg(test)]
mod tests;

use crate::{
    event::Event,
    ids::{BootTime, EventId, ProcessKey},
    judge::{
        report::{Death, Report, Utc},
        timeline::Timeline,
        world::World,
    },
};

/// Events folded into what verdicts need.
#[derive(Debug, Default)]
pub struct Judge {
    world: World,
}

impl Judge {
    /// Folds one event in; returns whether verdicts given before may have changed.
    pub fn observe(&mut self, event: &Event) -> bool {
        self.world.observe(event);
        assemble::bears_on_verdicts(&event.what)
    }

    /// The death whose exit event has this id, as far as is known at `now`.
    #[must_use]
    pub fn death(&self, id: EventId, now: BootTime) -> Option<Death> {
        let exit = self.world.exits.get(&id)?;
        Some(assemble::death(&self.world, exit, Some(now)))
    }

    /// Everything, with nothing more to come.
    #[must_use]
    pub fn report(&self) -> Report {
        assemble::report(&self.world)
    }

    /// The series of `events`, which are those that were observed; `None` where no wall clock is known.
    #[must_use]
    pub fn timeline(&self, events: &[Event]) -> Option<Timeline> {
        timeline::of(&self.world, events)
    }

    /// The wall time of `boot`; `None` before any is known.
    #[must_use]
    pub fn wall(&self, boot: BootTime) -> Option<Utc> {
        self.world.clock.wall(boot)
    }

    /// Drops what is known of a process whose death is settled: a live judge's memory is bounded.
    pub fn forget(&mut self, process: ProcessKey) {
        self.world.forget(process);
    }
}

/// Judges a whole recording.
#[must_use]
pub fn judge(events: &[Event]) -> Report {
    let mut judge = Judge::default();
    for event in events {
        judge.observe(event);
    }
    judge.report()
}
