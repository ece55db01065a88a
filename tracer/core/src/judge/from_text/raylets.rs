//! Links the ends of workers to the end of their raylet.

use std::{collections::BTreeSet, ops::RangeInclusive};

use super::Made;
use crate::{
    event::Role,
    ids::{EventId, MINUTE_NS, SECOND_NS},
    judge::cause::Cause,
};

/// A worker ends at most this long after its raylet. A line about its end may come a little
/// earlier.
const TAKES_ALONG_NS: RangeInclusive<i64> = -5 * SECOND_NS..=MINUTE_NS;

/// Attributes the end of a worker that has no reason of its own to the raylet that died at that
/// time.
pub(super) fn blame(made: &mut [Made]) {
    for at in 0..made.len() {
        let one = &made[at];
        if !one.bare || one.death.process.role == Role::Raylet {
            continue;
        }
        let raylet = made.iter().find(|raylet| takes_along(raylet, one));
        let Some((cause, pid)) = raylet.map(|raylet| (raylet.death.id, raylet.death.process.pid))
        else {
            continue;
        };
        let verdict = &mut made[at].death.verdict;
        verdict.cause = Cause::EndedWithRaylet {
            raylet_pid: Some(pid).filter(|pid| pid.0 != 0),
        };
        verdict.cause_death_id = Some(cause);
    }
}

/// Attributes the ends of workers that a raylet stopped while it shut down to the end of that
/// raylet.
pub(super) fn blame_shutdowns(made: &mut [Made]) {
    let is_raylet = |at: &usize| made[*at].death.process.role == Role::Raylet;
    let raylets: Vec<usize> = (0..made.len()).filter(is_raylet).collect();
    for at in 0..made.len() {
        let one = &made[at];
        if !matches!(one.death.verdict.cause, Cause::RayletShutdown { .. }) {
            continue;
        }
        let mut raylets = raylets.iter().map(|at| &made[*at]);
        let raylet = raylets.find(|raylet| has_stopped(raylet, one));
        made[at].death.verdict.cause_death_id = raylet.map(|raylet| raylet.death.id);
    }
}

/// Lists the ends of raylets, also if they were told to end, from which a listed death follows.
pub(super) fn list_shutdowns(made: &mut [Made]) {
    let listed = made.iter().filter(|one| one.death.listed);
    let causes: BTreeSet<EventId> = listed
        .filter_map(|one| one.death.verdict.cause_death_id)
        .collect();
    for one in made {
        one.death.listed |= causes.contains(&one.death.id);
    }
}

/// Whether a raylet is the one that stopped a worker: both are of one text or folder, of no
/// different nodes, and ended at about the same time.
fn has_stopped(raylet: &Made, worker: &Made) -> bool {
    let same_folder = raylet.folder.is_some() && raylet.folder == worker.folder;
    (same_folder || raylet.place.text == worker.place.text) && ended_together(raylet, worker)
}

/// Whether a raylet's end may explain a worker's: both are of one text, of no different nodes, and
/// ended at about the same time.
fn takes_along(raylet: &Made, worker: &Made) -> bool {
    raylet.death.process.role == Role::Raylet
        && raylet.death.listed
        && raylet.place.text == worker.place.text
        && ended_together(raylet, worker)
}

/// Whether a raylet and a worker are of no different nodes and ended at about the same time.
fn ended_together(raylet: &Made, worker: &Made) -> bool {
    let same =
        |one: &Option<_>, other: &Option<_>| one.is_none() || other.is_none() || one == other;
    // Times with and without a zone come from different clocks.
    let one_clock = raylet.death.when.time.is_some() == worker.death.when.time.is_some();
    let times = raylet.time.zip(worker.time).filter(|_| one_clock);
    same(&raylet.node.0, &worker.node.0)
        && same(&raylet.node.1, &worker.node.1)
        && times.is_some_and(|(raylet, worker)| TAKES_ALONG_NS.contains(&(worker - raylet)))
}
