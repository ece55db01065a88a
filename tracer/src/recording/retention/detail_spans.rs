//! Decides around which ends all detail stays.
//!
//! Around the first and the last death it always stays. If deaths follow each other for hours, the
//! detail between them is kept only right around some of them: a job that crashes every few seconds
//! shows the same each time.

use std::collections::HashSet;

use crate::{
    event::{Event, Exit, Observation},
    ids::{ProcessKey, SECOND_NS},
};

/// How long before and after a death of interest full detail stays.
const BEFORE_NS: i64 = 600 * SECOND_NS;
const AFTER_NS: i64 = 60 * SECOND_NS;
/// If deaths go on for longer, all detail stays for this long at both ends, and less in between.
const EDGE_NS: i64 = 1800 * SECOND_NS;
/// In between, full detail stays this long before and after a death, for one death in each such
/// interval.
const CLOSE_BEFORE_NS: i64 = 60 * SECOND_NS;
const CLOSE_AFTER_NS: i64 = 5 * SECOND_NS;
const APART_NS: i64 = 300 * SECOND_NS;
/// The most processes of Ray that are remembered. There are more only if exits are lost.
const MOST: usize = 65_536;

/// The spans that stay, sorted and without overlap, and the processes for which any exit code
/// counts.
#[derive(Default)]
pub(super) struct DetailSpans {
    spans: Vec<(i64, i64)>,
    /// Deaths, each at least [`APART_NS`] after the one before.
    deaths: Vec<i64>,
    /// Detail before this time is given up, except at the beginning of the first span.
    given_up: i64,
    of_ray: HashSet<ProcessKey>,
}

impl DetailSpans {
    pub(super) fn note(&mut self, event: &Event) {
        match &event.what {
            Observation::Process(process) if process.role.is_ray_or_driver() => {
                self.add_ray_process(process.process);
            }
            Observation::Worker(worker) => self.add_ray_process(worker.process),
            Observation::OomVictim(_) => self.add_death(event.time.0.cast_signed()),
            Observation::Exit(exit) => {
                let of_ray = self.of_ray.remove(&exit.process.truncated());
                if is_of_interest(exit, of_ray) {
                    self.add_death(event.time.0.cast_signed());
                }
            }
            _ => {}
        }
    }

    fn add_ray_process(&mut self, process: ProcessKey) {
        if self.of_ray.len() >= MOST {
            self.of_ray.clear();
        }
        self.of_ray.insert(process.truncated());
    }

    fn add_death(&mut self, time: i64) {
        let last = self.deaths.last();
        if last.is_none_or(|last| time.saturating_sub(*last) >= APART_NS) {
            self.deaths.push(time);
        }
        let (mut since, mut until) = (
            time.saturating_sub(BEFORE_NS),
            time.saturating_add(AFTER_NS),
        );
        let first = self.spans.partition_point(|span| span.1 < since);
        let after = self.spans.partition_point(|span| span.0 <= until);
        for span in &self.spans[first..after] {
            since = since.min(span.0);
            until = until.max(span.1);
        }
        self.spans.splice(first..after, [(since, until)]);
    }

    /// Whether all detail at this time stays.
    pub(super) fn keeps(&self, time: i64) -> bool {
        let next = self.spans.partition_point(|span| span.1 < time);
        let Some(&(since, until)) = self.spans.get(next).filter(|span| span.0 <= time) else {
            return false;
        };
        let is_first = next == 0 && time.saturating_sub(since) <= EDGE_NS;
        if is_first {
            return true;
        }
        if time < self.given_up {
            return false;
        }
        let at_edge =
            time.saturating_sub(since) <= EDGE_NS || until.saturating_sub(time) <= EDGE_NS;
        at_edge || self.is_close(time)
    }

    /// Whether log records of this time may explain a death.
    pub(super) fn explains(&self, time: i64) -> bool {
        let next = self.spans.partition_point(|span| span.1 < time);
        self.spans.get(next).is_some_and(|span| span.0 <= time)
    }

    fn is_close(&self, time: i64) -> bool {
        let next = self.deaths.partition_point(|death| *death < time);
        let after = self.deaths.get(next);
        let before = next.checked_sub(1).and_then(|last| self.deaths.get(last));
        after.is_some_and(|death| death.saturating_sub(time) <= CLOSE_BEFORE_NS)
            || before.is_some_and(|death| time.saturating_sub(*death) <= CLOSE_AFTER_NS)
    }

    /// Gives up the older half of the detail around deaths, except that of the first and the last.
    /// Returns false if there is none left.
    pub(super) fn give_up(&mut self) -> bool {
        let (Some(first), Some(last)) = (self.spans.first(), self.spans.last()) else {
            return false;
        };
        let begin = self
            .given_up
            .max(first.0.saturating_add(EDGE_NS))
            .max(first.0);
        let end = last.0.max(last.1.saturating_sub(EDGE_NS));
        if begin >= end {
            return false;
        }
        let half = begin + (end - begin) / 2;
        self.given_up = if end - half < EDGE_NS { end } else { half };
        true
    }
}

/// Whether an end is of interest: any end by a signal; an exit code, or an end without one, only of
/// Ray's own processes. `grep` exits with 1 all day.
fn is_of_interest(exit: &Exit, of_ray: bool) -> bool {
    let titled = |name: &str| name.starts_with("ray::");
    let of_ray = of_ray || titled(&exit.comm) || exit.title.as_deref().is_some_and(titled);
    exit.signal().is_some() || of_ray && exit.status != Some(0)
}
