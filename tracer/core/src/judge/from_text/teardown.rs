//! Handles the end of a cluster whose jobs had all ended. Nobody asks who sent its SIGTERMs.

use libc::SIGTERM;

use super::{Made, claim::Place, text_evidence::TextEvidence, zone::Clock};
use crate::{
    ids::SECOND_NS,
    judge::{
        cause::Cause,
        report::{Death, Killer},
    },
};

/// Several processes stamp lines of one moment at most this far apart.
const STAMPS_NS: i64 = SECOND_NS;

/// Takes deaths of a teardown off the list.
pub(super) fn mark(gathered: &TextEvidence, clock: &Clock, made: &mut [Made]) {
    let Some(over) = all_over(gathered, clock) else {
        return;
    };
    let after = |made: &&mut Made| made.time.is_some_and(|time| time >= over - STAMPS_NS);
    for made in made.iter_mut().filter(after) {
        if let Some(killer) = of_a_teardown(&made.death) {
            made.death.verdict.killer = killer;
            made.death.listed = false;
        }
    }
}

/// Returns when the last job had ended; `None` if one was running, or if the GCS's log does not
/// say.
fn all_over(gathered: &TextEvidence, clock: &Clock) -> Option<i64> {
    let ends = gathered.remarks.jobs.values();
    let times = ends.map(|stamp| {
        let stamp = (*stamp)?;
        clock.time(Place::default(), stamp).or(stamp.local)
    });
    let times: Option<Vec<i64>> = times.collect();
    times?.into_iter().max()
}

/// Returns the killer of an end that a SIGTERM to the cluster explains.
fn of_a_teardown(death: &Death) -> Option<Killer> {
    match (&death.verdict.cause, death.verdict.killer) {
        (
            Cause::Signal {
                signal: SIGTERM,
                sender: None,
            },
            Killer::Unknown,
        ) => Some(Killer::Unknown),
        (Cause::RayletShutdown { .. }, Killer::RayCollapse) => Some(Killer::RayIntended),
        _ => None,
    }
}
