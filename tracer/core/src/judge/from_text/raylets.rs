//! Links the ends of workers to the end of their raylet.

use std::{
    collections::{BTreeSet, HashMap},
    ops::RangeInclusive,
};

use super::{
    Made,
    claim::Subject,
    death::build,
    nodes::{self, Folder},
    text_evidence::TextEvidence,
    verdict::Verdict,
    zone::Clock,
};
use crate::{
    event::Role,
    ids::{EventId, HexId, MINUTE_NS, Pid, SECOND_NS},
    judge::{cause::Cause, report::Killer},
};

/// A worker ends at most this long after its raylet. A line about its end may come a little
/// earlier.
const TAKES_ALONG_NS: RangeInclusive<i64> = -5 * SECOND_NS..=MINUTE_NS;

/// The most raylets that are compared with a worker.
const MAX_COMPARED: usize = 256;

/// Returns which of the deaths are those of raylets.
fn all(made: &[Made]) -> Vec<usize> {
    let is_raylet = |at: &usize| made[*at].death.process.role == Role::Raylet;
    (0..made.len()).filter(is_raylet).collect()
}

/// The ends of raylets among all deaths, and the node of each death.
struct Raylets {
    all: Vec<usize>,
    by_pid: HashMap<Pid, Vec<usize>>,
    /// Empty if there is one node only.
    nodes: Vec<Option<HexId>>,
}

impl Raylets {
    fn of(gathered: &TextEvidence, folders: &[Folder], made: &[Made]) -> Self {
        let mut raylets = Self {
            all: Vec::new(),
            by_pid: HashMap::new(),
            nodes: nodes::of_deaths(gathered, folders, made),
        };
        for at in all(made) {
            raylets.add(at, &made[at]);
        }
        raylets
    }

    fn add(&mut self, at: usize, raylet: &Made) {
        self.all.push(at);
        let pid = raylet.death.process.pid;
        self.by_pid.entry(pid).or_default().push(at);
    }

    fn node(&self, at: usize) -> Option<&HexId> {
        self.nodes.get(at)?.as_ref()
    }

    /// Returns the raylet that the log of the worker at `at` names: by its pid or, because a host
    /// has another pid for it, the one of its node that ended at about the same time.
    fn named_by(&self, made: &[Made], at: usize) -> Option<usize> {
        let worker = &made[at];
        let pid = named_raylet(worker)?;
        let node = self.node(at);
        let apart = |other: usize| {
            self.node(other)
                .zip(node)
                .is_some_and(|(one, own)| one != own)
        };
        let same_pid = self.by_pid.get(&pid).map_or(&[][..], Vec::as_slice);
        let mut named = same_pid.iter().take(MAX_COMPARED);
        let together = |other: &&usize| {
            let raylet = &made[**other];
            let one_node = self.nodes.is_empty() || (node.is_some() && self.node(**other) == node);
            let nameless = raylet.death.process.pid == Pid(0);
            one_node && (ended_together(raylet, worker) || (nameless && raylet.time.is_none()))
        };
        let mut others = self.all.iter().take(MAX_COMPARED);
        let named = named.find(|other| !apart(**other));
        named.or_else(|| others.find(together)).copied()
    }
}

/// Adds the end of each raylet that only its workers' logs tell of.
pub(super) fn add_implied(
    gathered: &TextEvidence,
    clock: &Clock,
    folders: &[Folder],
    made: &mut Vec<Made>,
) {
    let names = |worker: &Made| named_raylet(worker).is_some();
    let mut workers: Vec<usize> = (0..made.len()).filter(|at| names(&made[*at])).collect();
    workers.sort_by_key(|at| (made[*at].time.unwrap_or(i64::MAX), made[*at].place));
    let mut raylets = Raylets::of(gathered, folders, made);
    for at in workers {
        if raylets.named_by(made, at).is_some() {
            continue;
        }
        let worker = &made[at];
        let subject = Subject::raylet(named_raylet(worker));
        let verdict = Verdict::new(Killer::Unknown, Cause::Unexplained);
        let mut raylet = build(clock, &subject, None, verdict);
        raylet.place = worker.place;
        // It ended before its workers noticed.
        raylet.time = worker.time.map(|time| time.saturating_sub(1));
        raylet.death.when = worker.death.when.clone();
        raylet.node.clone_from(&worker.node);
        raylet.folder.clone_from(&worker.folder);
        raylet.texts.clone_from(&worker.texts);
        let evidence = &mut raylet.death.verdict.evidence;
        evidence.clone_from(&worker.death.verdict.evidence);
        raylets.add(made.len(), &raylet);
        if !raylets.nodes.is_empty() {
            raylets.nodes.push(raylets.node(at).cloned());
        }
        made.push(raylet);
    }
}

/// Attributes the ends of workers whose logs say that their raylet had ended to its end.
pub(super) fn blame_by_log(gathered: &TextEvidence, folders: &[Folder], made: &mut [Made]) {
    let raylets = Raylets::of(gathered, folders, made);
    for at in 0..made.len() {
        if let Some(raylet) = raylets.named_by(made, at) {
            made[at].death.verdict.cause_death_id = Some(made[raylet].death.id);
        }
    }
}

/// Returns the raylet that had ended before the worker, by the worker's own log.
fn named_raylet(worker: &Made) -> Option<Pid> {
    match worker.death.verdict.cause {
        Cause::RayletDied {
            raylet_pid,
            by_own_log: true,
        } => raylet_pid,
        _ => None,
    }
}

/// Attributes the end of a worker that has no reason of its own to the raylet that died at that
/// time.
pub(super) fn blame(made: &mut [Made]) {
    let raylets = all(made);
    for at in 0..made.len() {
        let one = &made[at];
        if !one.bare || one.death.process.role == Role::Raylet {
            continue;
        }
        let mut raylets = raylets.iter().map(|at| &made[*at]);
        let raylet = raylets.find(|raylet| takes_along(raylet, one));
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
    let raylets = all(made);
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
    raylet.death.listed && raylet.place.text == worker.place.text && ended_together(raylet, worker)
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
