//! Keeps the latest settled deaths, so that what is published agrees with the report.
//!
//! The report links deaths to each other: a driver to the death that its job failed of, a worker to
//! the peer that it lost, the victims of one act to each other. So a death that may be linked waits
//! until those before it have settled, and is judged beside those that were published lately.

use std::collections::{HashSet, VecDeque};

use crate::{
    event::Role,
    ids::{BootTime, EventId, SECOND_NS},
    judge::report::{Death, Killer},
};

/// How many deaths are kept. A driver ends some seconds after its workers, which are few hundreds.
const MOST: usize = 256;
/// If more deaths wait for an open verdict, they are published without waiting.
const MOST_HELD: usize = 4096;
/// The victims of one act, and Ray's words about them, come within this time of each other.
const TOGETHER_NS: i64 = 2 * SECOND_NS;

/// Deaths that have settled.
#[derive(Default)]
pub(super) struct Settled {
    /// Those to publish, and those beside which they are to be judged.
    pub(super) deaths: Vec<Death>,
    /// The ids of those to publish.
    pub(super) new: HashSet<EventId>,
}

/// The latest deaths whose verdict has settled.
#[derive(Default)]
pub(super) struct Recent {
    published: VecDeque<Death>,
    /// Not published yet.
    held: Vec<Death>,
}

impl Recent {
    /// Adds a death. `is_new` is whether it has not been published, by an earlier `publish` either.
    pub(super) fn add(&mut self, death: Death, is_new: bool) {
        if is_new {
            self.held.push(death);
        } else {
            self.keep(death);
        }
    }

    /// Takes the deaths that can be published. `first_waiting` is when the first death ended whose
    /// verdict is still open.
    pub(super) fn take_ready(&mut self, now: BootTime, first_waiting: Option<BootTime>) -> Settled {
        let too_many = self.held.len() > MOST_HELD;
        let (ready, held) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|death| too_many || is_ready(death, now, first_waiting));
        self.held = held;
        let ready: Vec<Death> = ready;
        let new: HashSet<EventId> = ready.iter().map(|death| death.id).collect();
        if !ready.iter().any(may_be_shown) {
            return Settled {
                deaths: Vec::new(),
                new,
            };
        }
        let deaths = self.published.iter().chain(&ready).cloned().collect();
        for death in ready {
            self.keep(death);
        }
        Settled { deaths, new }
    }

    fn keep(&mut self, death: Death) {
        if !may_be_shown(&death) {
            return;
        }
        self.published.push_back(death);
        if self.published.len() > MOST {
            self.published.pop_front();
        }
    }
}

/// Whether a death is listed, or may be the cause of one that is: the normal end of a task, or of
/// what a node consists of.
fn may_be_shown(death: &Death) -> bool {
    let role = death.process.role;
    death.listed
        || matches!(role, Role::Driver | Role::Raylet | Role::Gcs)
        || death.end.exit_code.is_some_and(|code| code != 0)
}

/// Whether nothing that may come would change what is said of a death.
fn is_ready(death: &Death, now: BootTime, first_waiting: Option<BootTime>) -> bool {
    let verdict = &death.verdict;
    if !death.listed || verdict.cause_death_id.is_some() {
        return true;
    }
    let ended = death.when.act_time;
    let is_late = now.since(ended) > TOGETHER_NS;
    match verdict.killer {
        Killer::Exit | Killer::Crash => is_late && first_waiting.is_none_or(|first| ended < first),
        Killer::Signal | Killer::RayMemoryMonitor => is_late,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::sample;

    fn death(id: u64, killer: Killer, at_s: u64) -> Death {
        let mut death = sample::others().deaths.remove(0);
        (death.id, death.listed) = (EventId(id), true);
        death.verdict.killer = killer;
        death.verdict.cause_death_id = None;
        death.when.act_time = BootTime(at_s * 1_000_000_000);
        death
    }

    fn at(seconds: u64) -> BootTime {
        BootTime(seconds * 1_000_000_000)
    }

    #[test]
    fn exit_waits_for_what_ended_before_it() {
        let mut recent = Recent::default();
        recent.add(death(2, Killer::Exit, 101), true);
        // The kill that it followed from still waits for Ray's words.
        assert!(recent.take_ready(at(110), Some(at(100))).new.is_empty());
        recent.add(death(1, Killer::KernelOomMemcg, 100), true);
        let settled = recent.take_ready(at(110), None);
        assert_eq!(settled.new, HashSet::from([EventId(1), EventId(2)]));
    }

    /// A kill is published at once. A driver that ends later is judged beside it.
    #[test]
    fn published_deaths_stay_beside_later_ones() {
        let mut recent = Recent::default();
        recent.add(death(1, Killer::KernelOomMemcg, 100), true);
        assert!(recent.take_ready(at(100), None).new.contains(&EventId(1)));
        recent.add(death(2, Killer::Exit, 101), true);
        assert!(recent.take_ready(at(102), None).new.is_empty());
        let settled = recent.take_ready(at(104), None);
        assert_eq!(settled.new, HashSet::from([EventId(2)]));
        let ids: Vec<u64> = settled.deaths.iter().map(|death| death.id.0).collect();
        assert_eq!(ids, [1, 2]);
    }

    #[test]
    fn number_of_kept_deaths_is_bounded() {
        let mut recent = Recent::default();
        for id in 0..3 * MOST as u64 {
            recent.add(death(id, Killer::Signal, id), id % 2 == 0);
            recent.take_ready(at(10_000), None);
        }
        assert!(recent.published.len() <= MOST && recent.held.is_empty());
    }
}
