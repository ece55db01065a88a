//! Around which ends everything stays.

use std::collections::HashSet;

use crate::{
    event::{Event, Exit, Observation},
    ids::ProcessKey,
};

/// Full detail stays so long before and after a death that is asked about.
const BEFORE_NS: i64 = 600_000_000_000;
const AFTER_NS: i64 = 60_000_000_000;
/// Processes of Ray that are remembered; more only where ends are lost.
const MOST: usize = 65_536;

/// The spans that stay, in order and apart from each other, and the processes whose small exit codes count.
#[derive(Default)]
pub(super) struct Ends {
    spans: Vec<(i64, i64)>,
    of_ray: HashSet<ProcessKey>,
}

impl Ends {
    pub(super) fn note(&mut self, event: &Event) {
        match &event.what {
            Observation::Process(process) if process.role.is_rays() => {
                self.is_of_ray(process.process);
            }
            Observation::Worker(worker) => self.is_of_ray(worker.process),
            Observation::OomVictim(_) => self.stays_around(event.time.0.cast_signed()),
            Observation::Exit(exit) => {
                let of_ray = self.of_ray.remove(&exit.process.truncated());
                if is_asked_about(exit, of_ray) {
                    self.stays_around(event.time.0.cast_signed());
                }
            }
            _ => {}
        }
    }

    fn is_of_ray(&mut self, process: ProcessKey) {
        if self.of_ray.len() >= MOST {
            self.of_ray.clear();
        }
        self.of_ray.insert(process.truncated());
    }

    fn stays_around(&mut self, time: i64) {
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

    /// Whether what happened then stays.
    pub(super) fn keep(&self, time: i64) -> bool {
        let next = self.spans.partition_point(|span| span.1 < time);
        self.spans.get(next).is_some_and(|span| span.0 <= time)
    }
}

/// A signal always; an exit code, or an end without one, only of Ray's own: `grep` ends with 1 all day.
fn is_asked_about(exit: &Exit, of_ray: bool) -> bool {
    let titled = |name: &str| name.starts_with("ray::");
    let of_ray = of_ray || titled(&exit.comm) || exit.title.as_deref().is_some_and(titled);
    exit.signal().is_some() || of_ray && exit.status != Some(0)
}
