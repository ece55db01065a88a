//! Keeps deaths between their exit and their settled verdict.

use std::{cell::LazyCell, collections::VecDeque};

use crate::{
    ids::{BootTime, EventId, MINUTE_NS, ProcessKey, SECOND_NS},
    judge::{
        Judge, Validity,
        cause::Cause,
        report::{Death, Killer},
    },
};

/// An unsettled verdict is reported as such after this time, and again when it has settled.
const PATIENCE_NS: i64 = 150_000_000;
/// After this time, a verdict waits only for the end of another process. Many may do so, for a
/// minute.
const LONG_NS: i64 = 2 * SECOND_NS;
/// Such a verdict is judged again after this fraction of the time that it has waited.
const PART: i64 = 8;
/// How long a dead process is remembered: its children's verdicts and other causes may refer to it.
const KEEP_NS: i64 = 150 * SECOND_NS;
/// The most dead processes that are remembered.
const KEEP_MOST: usize = 20_000;
/// Each waiting death keeps what surrounds it in memory. If more than this many wait, none waits
/// for the end of another process.
const WAIT_MOST: usize = 4096;
/// After this time, nothing is waited for.
const OVER_NS: i64 = 60 * MINUTE_NS;

/// Returns a time so long after `last` that no verdict waits any more.
pub fn time_when_all_settled(last: BootTime) -> BootTime {
    last.plus(OVER_NS)
}

/// A death to report.
pub struct DeathUpdate {
    /// The death.
    pub death: Death,
    /// The cause that was reported before, when its verdict had not settled.
    pub before: Option<Cause>,
}

struct Waiting {
    id: EventId,
    process: ProcessKey,
    exit: BootTime,
    told: Option<Cause>,
    judged: Option<Judged>,
}

/// When a death was last judged, and how long its verdict is valid.
struct Judged {
    at: BootTime,
    validity: Validity,
}

impl Waiting {
    /// Returns whether the verdict may have changed at `now`, or is to be reported though it has
    /// not settled.
    fn is_due(&self, judge: &Judge, now: BootTime) -> bool {
        let Some(judged) = &self.judged else {
            return true;
        };
        let waited = judged.at.since(self.exit);
        let rests = waited > LONG_NS && now.since(judged.at) < waited / PART;
        let is_valid = rests || judge.is_still_valid(judged.validity, now);
        !is_valid || self.is_late(now) && !self.is_late(judged.at)
    }

    fn is_late(&self, now: BootTime) -> bool {
        now.since(self.exit) > PATIENCE_NS
    }
}

/// Deaths that wait for their verdict, and dead processes that are still remembered.
#[derive(Default)]
pub struct Deaths {
    waiting: Vec<Waiting>,
    kept: VecDeque<(BootTime, ProcessKey)>,
}

impl Deaths {
    /// Adds a process that has ended.
    pub fn add(&mut self, id: EventId, process: ProcessKey, exit: BootTime) {
        self.waiting.push(Waiting {
            id,
            process,
            exit,
            told: None,
            judged: None,
        });
    }

    /// Returns how many deaths wait for their verdict.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns when the first of those that wait for their verdict ended.
    pub fn first_waiting(&self) -> Option<BootTime> {
        self.waiting.iter().map(|waiting| waiting.exit).min()
    }

    /// Returns whether a verdict waits for logs, rather than for the end of another process.
    pub fn any_waiting(&self, now: BootTime) -> bool {
        let lately = |waiting: &Waiting| now.since(waiting.exit) <= LONG_NS;
        self.waiting.iter().any(lately)
    }

    /// Takes the deaths that are due to be reported, and the processes that can be forgotten.
    pub fn take_due(
        &mut self,
        judge: &Judge,
        now: BootTime,
    ) -> (Vec<DeathUpdate>, Vec<ProcessKey>) {
        let mut told = Vec::new();
        let kept = &mut self.kept;
        let too_many = self.waiting.len() > WAIT_MOST;
        let validity = LazyCell::new(|| judge.validity(now));
        self.waiting.retain_mut(|waiting| {
            let given_up = too_many && now.since(waiting.exit) > LONG_NS;
            let at = if given_up {
                time_when_all_settled(now)
            } else {
                now
            };
            if !waiting.is_due(judge, at) {
                return true;
            }
            let Some(death) = judge.death(waiting.id, at) else {
                return false;
            };
            let settled = death.verdict.settled;
            // It follows from another death that has not been seen yet. When a driver leaves
            // normally, its workers end seconds before it, and then nothing is to be reported at
            // all.
            let waits_for_another = death.verdict.killer == Killer::RayCollapse;
            // Deaths that are not listed are not asked for, and an early verdict on them may be
            // wrong.
            let late = death.listed && !waits_for_another && waiting.is_late(now);
            if settled || (waiting.told.is_none() && late) {
                let before = waiting.told.replace(death.verdict.cause.clone());
                told.push(DeathUpdate { death, before });
            }
            if settled {
                kept.push_back((now, waiting.process));
            } else {
                waiting.judged = Some(Judged {
                    at: now,
                    validity: *validity,
                });
            }
            !settled
        });
        let mut done = Vec::new();
        while self
            .kept
            .front()
            .is_some_and(|(since, _)| now.since(*since) > KEEP_NS)
            || self.kept.len() > KEEP_MOST
        {
            done.extend(self.kept.pop_front().map(|(_, process)| process));
        }
        (told, done)
    }
}
