//! Joins several recordings into one report, by Ray's ids. Pure.
//!
//! Each recording is judged for itself first. A link between two deaths rests on an id in the words
//! of Ray's own processes and is `inferred`. Time alone never makes a link. A death's own verdict
//! stays what its node's recording says.

mod clocks;
mod duplicates;
mod jobs;
mod merge;
mod nodes;
mod order;
mod rules;

pub(super) use nodes::Host;

use std::collections::{HashMap, HashSet};

use rules::CauseLocation;

use crate::{
    ids::{EventId, HexId},
    judge::cause::Cause,
    judge::report::{CauseLink, Certainty, Death, Killer, LogMention, Mention, Remote, Report},
    ray::words::did_not_answer,
};

/// Joins the reports of recordings, in their order. A single report stays as it is.
pub fn join(mut reports: Vec<Report>) -> Report {
    if reports.len() == 1
        && let Some(only) = reports.pop()
    {
        return only;
    }
    let mut report = merge::all(reports);
    duplicates::remove(&mut report);
    jobs::unite(&mut report);
    let offsets = clocks::offsets(&report);
    // The rules compare times of several nodes. The report shows the times as they were recorded.
    clocks::shift(&mut report, &offsets, -1);
    let hosts = nodes::Host::of_recordings(&report);
    let names = nodes::Names::of(&report, &hosts);
    for death in &mut report.deaths {
        death.node = Some(names.of_death(death));
    }
    duplicates::name_nodes(&mut report);
    link(&mut report, &names);
    jobs::ended_elsewhere(&mut report);
    let outlived = nodes::outlived(&report);
    clocks::shift(&mut report, &offsets, 1);
    clocks::reorder(&mut report, &offsets);
    report.nodes = nodes::all(&report, &hosts, &names, &outlived);
    for node in &mut report.nodes {
        node.clock = node
            .recordings
            .iter()
            .find_map(|id| offsets.get(id).copied());
    }
    report
}

/// Joins what the logs of several nodes say, which is already one report.
///
/// `hosts` are the folders of logs, one for each cluster of the report. `on` has the node of each
/// death, if it is known.
pub(super) fn join_logs(report: &mut Report, hosts: &[Host], on: &[Option<HexId>]) {
    let names = nodes::Names::of(report, hosts);
    let groups = nodes::groups(report);
    // A node without logs has no cluster here. Its deaths count for the head's cluster while they
    // are joined.
    let head = report.clusters.iter().position(|cluster| cluster.head);
    let head = head.unwrap_or(0);
    let group = groups.get(head).copied().unwrap_or(0);
    let mut elsewhere = Vec::new();
    for (at, node) in on.iter().enumerate() {
        let Some(node) = node else { continue };
        let name = names.of_id(report, group, node);
        let mut clusters = report.clusters.iter();
        let own = clusters.find(|cluster| cluster.node_id.as_ref() == Some(node));
        let cluster = own.or(report.clusters.get(head)).map(|cluster| cluster.id);
        if own.is_none() {
            elsewhere.push(at);
        }
        report.deaths[at].node = Some(name);
        report.deaths[at].cluster = cluster;
    }
    link(report, &names);
    report.nodes = nodes::all(report, hosts, &names, &nodes::outlived(report));
    for at in elsewhere {
        report.deaths[at].cluster = None;
    }
}

/// Finds the causes of deaths that have none yet.
fn link(report: &mut Report, names: &nodes::Names) {
    let (found, peers, places) = {
        let context = Context::of(report, names);
        let found: Vec<(usize, rules::Found)> = (0..report.deaths.len())
            .filter_map(|death| Some((death, rules::find(&context, death)?)))
            .filter(|(death, found)| !found.is_after(report, *death))
            .collect();
        let peers = rules::peers::all(&context, &found);
        (found, peers, context.places)
    };
    for (death, found) in found.into_iter().chain(peers) {
        apply(report, &places, death, found);
    }
    let drained = rules::drained::all(&Context::of(report, names));
    for (death, because) in drained {
        intend(report, death, because);
    }
}

/// Marks a death as intended, because its node was drained. It stays listed if a listed death
/// elsewhere was caused by it.
fn intend(report: &mut Report, death: usize, because: String) {
    let id = report.deaths[death].id;
    let mut deaths = report.deaths.iter();
    let caused = deaths.any(|one| {
        let link = one.verdict.cause_link.as_ref();
        one.listed && link.is_some_and(|link| link.death_id == id)
    });
    let death = &mut report.deaths[death];
    death.verdict.killer = Killer::RayIntended;
    death.verdict.cause_remote = Some(Remote::Says(because));
    death.listed &= caused;
}

/// Records what a rule found, unless that would close a cycle of causes.
fn apply(report: &mut Report, places: &Places, death: usize, found: rules::Found) {
    let rules::Found {
        cause,
        rule,
        because,
        killer,
    } = found;
    let cause = match cause {
        CauseLocation::Death(cause) => cause,
        CauseLocation::DeclaredDead { node } => {
            let remote = Remote::DeclaredDead {
                reason: because,
                node,
            };
            report.deaths[death].verdict.cause_remote = Some(remote);
            return;
        }
        CauseLocation::Unrecorded { node } => {
            let remote = Remote::Unrecorded {
                reason: because,
                node,
            };
            report.deaths[death].verdict.cause_remote = Some(remote);
            return;
        }
    };
    let target = report.deaths[death].id;
    if chain(report, places, cause).any(|known| known.id == target) {
        return;
    }
    let (id, node) = (report.deaths[cause].id, report.deaths[cause].node.clone());
    let first = &report.deaths[cause];
    let remote = Remote::Death {
        reason: because.clone(),
        comm: first.process.comm.clone(),
        pid: first.process.pid,
        killer: first.verdict.killer,
    };
    let verdict = &mut report.deaths[death].verdict;
    let changed = killer.filter(|killer| *killer != verdict.killer);
    match changed {
        Some(Killer::RayCollapse) => {
            verdict.killer = Killer::RayCollapse;
            verdict.cause = Cause::OwnerDied {
                says: None,
                owner_lived: None,
            };
        }
        Some(killer) => verdict.killer = killer,
        None => {}
    }
    verdict.cause_remote = Some(remote);
    verdict.cause_link = Some(Box::new(CauseLink {
        recording_id: id.recording(),
        death_id: id,
        node: node.unwrap_or_default(),
        rule,
        link_certainty: Certainty::Inferred,
        because,
    }));
    if let Some(killer) = changed {
        report.deaths[death].listed = killer != Killer::RayIntended;
    }
}

/// The index of each death, by its id.
type Places = HashMap<EventId, usize>;

/// Chains of causes are shorter than this: agent, raylet, owner, worker, driver, worker.
const LONGEST_CHAIN: usize = 64;

/// Returns a death, its cause, and so on to the first cause.
fn chain<'a>(
    report: &'a Report,
    places: &'a Places,
    from: usize,
) -> impl Iterator<Item = &'a Death> {
    let next = |death: &&'a Death| {
        let cause = death.verdict.cause()?;
        Some(&report.deaths[*places.get(&cause)?])
    };
    std::iter::successors(report.deaths.get(from), next).take(LONGEST_CHAIN)
}

/// The number of a Ray cluster in the joined report. All its nodes have the same.
type Group = usize;

/// The joined report with tables that the rules look up.
struct Context<'a> {
    report: &'a Report,
    names: &'a nodes::Names,
    places: Places,
    groups: Vec<Group>,
    /// The death of each worker and driver.
    by_worker: HashMap<(Group, String), usize>,
    by_actor: HashMap<(Group, &'a str), Vec<usize>>,
    /// The death of each node's raylet.
    raylets: HashMap<(Group, &'a str), usize>,
    gcs: HashMap<Group, Vec<usize>>,
    /// The worker that each actor ran in.
    workers: HashMap<(Group, &'a str), &'a HexId>,
    /// The node that each worker ran on.
    worker_on: HashMap<(Group, &'a str), &'a HexId>,
    /// The mention that says that a worker was ended because of its owner.
    owners: HashMap<(Group, &'a str), &'a LogMention>,
    /// Which actors are dead, by who says so: a driver or worker, or Ray's own processes (`None`).
    dead_actors: HashMap<(Group, Option<&'a str>), Vec<&'a LogMention>>,
    /// Parts of clusters with a raylet that lost the GCS.
    lost_gcs: HashMap<u32, &'a LogMention>,
    peers: HashMap<(Group, &'a str), &'a LogMention>,
    /// Nodes that the GCS declared dead because they did not answer.
    silent: HashSet<(Group, &'a str)>,
}

impl<'a> Context<'a> {
    fn of(report: &'a Report, names: &'a nodes::Names) -> Self {
        let mut context = Self {
            report,
            names,
            places: (report.deaths.iter().map(|death| death.id))
                .zip(0..)
                .collect(),
            groups: nodes::groups(report),
            by_worker: HashMap::new(),
            by_actor: HashMap::new(),
            raylets: HashMap::new(),
            gcs: HashMap::new(),
            workers: HashMap::new(),
            worker_on: HashMap::new(),
            owners: HashMap::new(),
            dead_actors: HashMap::new(),
            lost_gcs: HashMap::new(),
            peers: HashMap::new(),
            silent: HashSet::new(),
        };
        for (at, death) in report.deaths.iter().enumerate() {
            context.note_death(at, death);
        }
        for mention in &report.mentions {
            context.note_mention(mention);
        }
        context
    }

    fn note_death(&mut self, at: usize, death: &'a Death) {
        use crate::event::Role;
        let Some(group) = self.group(death.cluster) else {
            return;
        };
        if let Some(id) = speaker(death) {
            self.by_worker.insert((group, id), at);
        }
        if let Some(actor) = &death.work.actor_id {
            let of_actor = self.by_actor.entry((group, &actor.0)).or_default();
            of_actor.push(at);
        }
        let node = self.node(death);
        match (death.process.role, node) {
            (Role::Raylet, Some(node)) => {
                self.raylets.insert((group, &node.0), at);
            }
            (Role::Gcs, _) => self.gcs.entry(group).or_default().push(at),
            _ => {}
        }
    }

    fn note_mention(&mut self, mention: &'a LogMention) {
        let Some(group) = self.group(mention.cluster) else {
            return;
        };
        let by = mention.by.as_ref().map(|by| by.0.as_str());
        match &mention.what {
            Mention::OwnerDied { worker, owner, .. } => {
                // The mention that names the owner says more.
                let known = self.owners.entry((group, &worker.0)).or_insert(mention);
                if owner.is_some() && !names_owner(known) {
                    *known = mention;
                }
            }
            Mention::ActorDied { .. } => {
                self.dead_actors
                    .entry((group, by))
                    .or_default()
                    .push(mention);
            }
            Mention::ActorIn { actor, worker } => {
                self.workers.insert((group, &actor.0), worker);
            }
            Mention::WorkerOn { worker, node } => {
                self.worker_on.insert((group, &worker.0), node);
            }
            Mention::GcsLost => {
                if let Some(cluster) = mention.cluster {
                    self.lost_gcs.entry(cluster).or_insert(mention);
                }
            }
            Mention::PeerError { .. } => {
                if let Some(by) = by {
                    self.peers.entry((group, by)).or_insert(mention);
                }
            }
            Mention::NodeDied {
                node,
                message: Some(message),
                ..
            } if did_not_answer(message) => {
                self.silent.insert((group, &node.0));
            }
            Mention::NodeIs { .. } | Mention::NodeDied { .. } => {}
        }
    }

    fn group(&self, cluster: Option<u32>) -> Option<Group> {
        self.groups.get(usize::try_from(cluster?).ok()?).copied()
    }

    /// Returns the node that a process died on.
    fn node(&self, death: &Death) -> Option<&'a HexId> {
        let cluster = usize::try_from(death.cluster?).ok()?;
        self.report.clusters.get(cluster)?.node_id.as_ref()
    }

    fn death_of_worker(&self, group: Group, worker: &HexId) -> Option<usize> {
        self.by_worker.get(&(group, worker.0.clone())).copied()
    }

    fn worker_of(&self, group: Group, actor: &HexId) -> Option<&'a HexId> {
        self.workers.get(&(group, actor.0.as_str())).copied()
    }

    /// Whether a death is of interest: it or a death in its chain of causes is listed and was not
    /// intended.
    fn is_of_interest(&self, at: usize) -> bool {
        chain(self.report, &self.places, at)
            .any(|death| death.listed && death.verdict.killer != Killer::RayIntended)
    }
}

fn names_owner(mention: &LogMention) -> bool {
    matches!(&mention.what, Mention::OwnerDied { owner: Some(_), .. })
}

/// Returns the id under which a worker or driver writes its log. A driver's is its job id, padded
/// with `f`.
fn speaker(death: &Death) -> Option<String> {
    if let Some(worker) = &death.work.worker_id {
        return Some(worker.0.clone());
    }
    let job = death.work.job_id.as_ref()?;
    (death.process.role == crate::event::Role::Driver).then(|| format!("{:f<56}", job.0))
}
