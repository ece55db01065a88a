//! Judges events: finds deaths, memory and findings. Pure: no I/O, no clock, no root.
//!
//! [`Judge`] folds events in one by one, live. [`judge`] does it for a whole recording. Both give
//! the same verdicts. So what is printed while recording is what the report says later.

mod assemble;
pub mod cause;
mod death;
pub mod diff;
pub mod doctor;
mod evidence;
mod fatal_act;
mod findings;
pub mod fleet;
pub mod forecast;
pub mod from_text;
mod job_end;
mod job_run;
mod jobs;
pub mod killers;
mod limit_warnings;
pub mod live;
pub mod log_mentions;
pub mod missing;
mod one_act;
mod order;
mod peers;
mod pending;
mod programs;
mod query;
mod ray_log_versions;
pub mod ray_reason;
pub mod report;
mod settled;
mod signal_origin;
mod state;
pub mod time_to_limit;
pub mod timeline;
mod verdict;
pub mod warning;

pub use programs::is_system_program;
pub use query::place::pod_of_raylet;
pub use settled::Details;
pub use state::processes::slurm_job;

#[cfg(test)]
mod tests;

use crate::{
    event::{Event, Observation, Role},
    ids::{BootTime, EventId, ProcessKey},
    judge::{
        live::Live,
        query::memory,
        report::{ClusterReport, Death, Report, Utc},
        settled::Settled,
        state::{snapshot::Names, world::World},
        timeline::{Timeline, TimelineBuilder},
        verdict::Verdicts,
    },
};

/// The number of deaths for [`Judge::settle`] from which a recording counts as long.
pub const UNSETTLED: usize = 1_024;

/// A judge, with the events so far folded into what verdicts need.
#[derive(Debug, Default)]
pub struct Judge {
    world: World,
    /// Names that are used around deaths.
    names: Names,
    /// Deaths that are judged already.
    settled: Settled,
    /// How often an event came that bears on verdicts, or something that bears on them was dropped.
    changes: u64,
}

/// How long verdicts stay valid: until an event comes that bears on them, or until the time when
/// they stop waiting for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    changes: u64,
    until: Option<BootTime>,
}

impl Judge {
    /// Folds one event in.
    pub fn observe(&mut self, event: &Event) {
        let is_end =
            matches!(&event.what, Observation::Exit(exit) if !self.has_ended(exit.process));
        self.world.observe(event);
        if is_end {
            self.keep_surroundings(event.id);
        }
        self.changes += u64::from(event.what.bears_on_verdicts());
    }

    /// Creates a judge for a report that shows these details. Only [`Judge::settle`] drops others.
    pub fn with_details(details: Details) -> Self {
        Self {
            settled: Settled::with_details(details),
            ..Self::default()
        }
    }

    /// Returns how many deaths are judged already.
    pub fn settled(&self) -> usize {
        self.settled.deaths.len()
    }

    /// Returns how long the verdicts of `now` stay valid.
    pub fn validity(&self, now: BootTime) -> Validity {
        Validity {
            changes: self.changes,
            until: verdict::waits_until(&self.world, now),
        }
    }

    /// Whether verdicts with this validity are the same at `now`, which must not be earlier.
    pub fn is_still_valid(&self, validity: Validity, now: BootTime) -> bool {
        validity.changes == self.changes && validity.until.is_none_or(|until| now < until)
    }

    /// Keeps what surrounds an end, while it is still as it was then.
    fn keep_surroundings(&mut self, id: EventId) {
        let exit = self.world.exits.get(&id);
        let names = &mut self.names;
        let around = exit.map(|seen| memory::snapshot(&self.world, names, &seen.exit, seen.time));
        if let (Some(seen), Some(around)) = (self.world.exits.get_mut(&id), around) {
            *seen.around = around;
        }
    }

    /// Judges deaths that happened minutes ago, if more than `most` are not judged yet or records of
    /// logs are left out soon, and drops what only verdicts need. This bounds the memory of a judge
    /// of a whole recording. The report says the same, because verdicts have settled by then.
    pub fn settle(&mut self, most: usize) {
        let many = self.world.exits.len() > self.settled.deaths.len() + most;
        if many || self.world.ray_log_records.is_filling() {
            self.settled.judge(&mut self.world);
        }
    }

    /// Whether the end of this process was seen.
    pub fn has_ended(&self, process: ProcessKey) -> bool {
        self.world.exit(process).is_some()
    }

    /// Returns the death whose exit event has this id, as far as is known at `now`.
    pub fn death(&self, id: EventId, now: BootTime) -> Option<Death> {
        let exit = self.world.exits.get(&id)?;
        Some(death::of(&Verdicts::new(&self.world, Some(now)), exit))
    }

    /// Returns the role of a process, as far as it was seen.
    pub fn role(&self, process: ProcessKey) -> Option<Role> {
        self.world.processes.get(process).map(|state| state.role)
    }

    /// Returns the cluster of a process, as far as it was seen.
    pub fn cluster(&self, process: ProcessKey) -> Option<ProcessKey> {
        self.world.processes.get(process)?.cluster
    }

    /// Returns the user of a process, as far as it was seen.
    pub fn user(&self, process: ProcessKey) -> Option<u32> {
        self.world.processes.get(process)?.uid
    }

    /// Returns the report, with no more events to come.
    pub fn report(&self) -> Report {
        assemble::report(&self.world, self.settled.clone())
    }

    /// Does the same without a copy of the deaths.
    pub fn into_report(mut self) -> Report {
        let settled = std::mem::take(&mut self.settled);
        assemble::report(&self.world, settled)
    }

    /// Returns the report of these deaths only, as they were reported live.
    pub fn report_of(&self, mut deaths: Vec<Death>) -> Report {
        deaths.sort_by_key(|death| (death.when.act_time, death.id));
        assemble::report_of(&self.world, deaths)
    }

    /// Returns the clusters whose raylet is alive.
    pub fn clusters(&self) -> Vec<ClusterReport> {
        assemble::clusters_alive(&self.world)
    }

    /// Returns what grew, as folded stacks: `still held;Class;file:line function;… bytes`, the
    /// outermost frame first.
    pub fn folded(&self) -> Vec<String> {
        self.world.folded()
    }

    /// Returns the series that `taken` collected from the same events; `None` if no wall clock is
    /// known.
    pub fn timeline(&self, taken: TimelineBuilder) -> Option<Timeline> {
        taken.finish(&self.world)
    }

    /// Returns the wall time of `boot`; `None` before any is known.
    pub fn wall(&self, boot: BootTime) -> Option<Utc> {
        self.world.clock.wall(boot)
    }

    /// Returns the number of events known to be lost.
    pub fn lost(&self) -> u64 {
        let ledgers = self.world.ledgers.iter();
        ledgers.map(crate::event::Ledger::lost).sum()
    }

    /// Returns what is alive at `now` and how near each limit is.
    pub fn live(&self, now: BootTime) -> Live {
        live::of(&self.world, now)
    }

    /// Drops what is known of a process whose death is settled. This bounds the memory of a live
    /// judge.
    pub fn forget(&mut self, process: ProcessKey) {
        self.changes += 1;
        self.world.forget(process);
    }

    /// Drops what logs said long ago. This bounds the memory of a live judge even if no process
    /// dies.
    pub fn drop_old_log_records(&mut self) {
        self.changes += u64::from(self.world.drop_oldest());
    }
}

/// Judges a whole recording.
pub fn judge(events: &[Event]) -> Report {
    let mut judge = Judge::default();
    for event in events {
        judge.observe(event);
    }
    judge.report()
}
