//! Lists the nodes: those with recordings, and those that recordings name.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::IpAddr,
};

use super::{order, rules};
use crate::{
    event::Role,
    ids::{EventId, HexId},
    judge::report::{
        Certainty, ClusterReport, Death, DeclaredDead, Gap, LogMention, Mention, NoRecording, Node,
        Recording, Report, Utc,
    },
    ray::words::did_not_answer,
};

/// Two recordings of a node that are closer together leave no gap.
const NO_GAP_NS: i64 = 1_500_000_000;

/// What the parts of a Ray cluster on several nodes have in common.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Id(&'a str),
    /// The session is the same on all nodes, even after a head came back under another address.
    Session(&'a str),
    Gcs(&'a str),
}

/// Returns the key of a cluster. `ids` are the cluster ids that the parts of each session have.
fn key<'a>(
    cluster: &'a ClusterReport,
    ids: &HashMap<&'a str, HashSet<&'a str>>,
) -> Option<Key<'a>> {
    let session = cluster.session.as_deref();
    // A part whose raylet was not seen to get the id takes that of its session's other parts.
    let of_session = || {
        let mut ids = ids.get(session?)?.iter();
        ids.next().copied().filter(|_| ids.next().is_none())
    };
    let id = cluster.cluster_id.as_deref().or_else(of_session);
    id.map(Key::Id)
        .or(session.map(Key::Session))
        .or(cluster.gcs_address.as_deref().map(Key::Gcs))
}

/// Returns, for each cluster of the report, the number of the Ray cluster that it is a part of.
pub(super) fn groups(report: &Report) -> Vec<usize> {
    let mut ids: HashMap<&str, HashSet<&str>> = HashMap::new();
    for cluster in &report.clusters {
        if let (Some(session), Some(id)) = (&cluster.session, &cluster.cluster_id) {
            ids.entry(session).or_default().insert(id);
        }
    }
    let mut known: HashMap<Key<'_>, usize> = HashMap::new();
    let clusters = report.clusters.iter().enumerate();
    clusters
        .map(|(at, cluster)| key(cluster, &ids).map_or(at, |key| *known.entry(key).or_insert(at)))
        .collect()
}

/// The names of nodes.
pub(super) struct Names {
    by_recording: HashMap<u32, String>,
    by_cluster: Vec<String>,
    /// Name and address of nodes by their ids, as the GCS knows them.
    known: BTreeMap<(usize, HexId), (Option<String>, Option<String>)>,
}

/// A machine with a recording, or a folder of logs.
pub(crate) struct Host {
    /// The number that clusters refer to.
    pub(crate) recording_id: u32,
    /// Its name.
    pub(crate) name: String,
    /// Its boot.
    pub(crate) boot_id: String,
}

impl Host {
    /// Returns the hosts of a report's recordings.
    pub(super) fn of_recordings(report: &Report) -> Vec<Self> {
        let of = |recording: &Recording| Self {
            recording_id: recording.id,
            name: recording.host.name.clone(),
            boot_id: recording.host.boot_id.clone(),
        };
        report.recordings.iter().map(of).collect()
    }
}

impl Names {
    pub(super) fn of(report: &Report, hosts: &[Host]) -> Self {
        let groups = groups(report);
        let mut known = BTreeMap::new();
        for mention in &report.mentions {
            let group = mention.cluster.and_then(|one| groups.get(one as usize));
            if let (
                Mention::NodeIs {
                    node,
                    name,
                    address,
                },
                Some(group),
            ) = (&mention.what, group)
            {
                known.insert((*group, node.clone()), (name.clone(), address.clone()));
            }
        }
        let hosts: HashMap<u32, &str> = hosts
            .iter()
            .map(|host| (host.recording_id, host.name.as_str()))
            .collect();
        let ids_of_host = ids_of_hosts(report, &hosts);
        let by_cluster = report
            .clusters
            .iter()
            .zip(&groups)
            .map(|(cluster, group)| {
                let host = hosts.get(&cluster.recording_id).copied().unwrap_or("node");
                let id = cluster.node_id.as_ref();
                let given = id.and_then(|id| known.get(&(*group, id.clone()))?.0.clone());
                // Ray names a node by its address unless it is given a name.
                let given = given.filter(|name| name.parse::<IpAddr>().is_err());
                let alone = ids_of_host.get(host).is_none_or(|ids| ids.len() < 2);
                match (alone, given, id) {
                    (true, ..) | (_, None, None) => host.to_owned(),
                    (_, Some(given), _) => given,
                    (_, None, Some(id)) => format!("{host}/{}", id.short()),
                }
            })
            .collect::<Vec<String>>();
        let by_cluster = unique(report, &by_cluster);
        let mut by_recording: HashMap<u32, String> = hosts
            .iter()
            .map(|(id, host)| (*id, (*host).to_owned()))
            .collect();
        // A process outside all raylets, such as a GCS, may be of any node of its recorder.
        let mut of_recordings: HashMap<u32, HashSet<&String>> = HashMap::new();
        for (cluster, name) in report.clusters.iter().zip(&by_cluster) {
            let names = of_recordings.entry(cluster.recording_id).or_default();
            names.insert(name);
        }
        for (recording, names) in of_recordings {
            if let (1, Some(name)) = (names.len(), names.iter().next()) {
                by_recording.insert(recording, (*name).clone());
            }
        }
        Self {
            by_recording,
            by_cluster,
            known,
        }
    }

    /// Returns the name of a node, with or without a recording.
    pub(super) fn of_id(&self, report: &Report, group: usize, node: &HexId) -> String {
        let clusters = report.clusters.iter().zip(&self.by_cluster);
        let mut known = clusters.filter(|(cluster, _)| cluster.node_id.as_ref() == Some(node));
        let name = known.next().map(|(_, name)| name.clone());
        name.unwrap_or_else(|| self.of_node(group, node))
    }

    /// Returns the name of the node that a process died on.
    pub(super) fn of_death(&self, death: &Death) -> String {
        let cluster = death
            .cluster
            .and_then(|one| self.by_cluster.get(one as usize));
        let recording = death.recording_id.and_then(|id| self.by_recording.get(&id));
        cluster.or(recording).cloned().unwrap_or_default()
    }

    /// Returns the name of a node without a recording.
    pub(super) fn of_node(&self, group: usize, node: &HexId) -> String {
        let known = self.known.get(&(group, node.clone()));
        let name = known.and_then(|(name, address)| name.clone().or_else(|| address.clone()));
        name.unwrap_or_else(|| format!("node {}", node.short()))
    }
}

/// Adds the beginnings of their ids to nodes with the same name.
fn unique(report: &Report, names: &[String]) -> Vec<String> {
    let mut ids: HashMap<&str, HashSet<Option<&HexId>>> = HashMap::new();
    for (cluster, name) in report.clusters.iter().zip(names) {
        ids.entry(name)
            .or_default()
            .insert(cluster.node_id.as_ref());
    }
    let several = |name: &str| ids.get(name).is_some_and(|ids| ids.len() > 1);
    let named = report.clusters.iter().zip(names);
    named
        .map(|(cluster, name)| match &cluster.node_id {
            Some(id) if several(name) && !name.ends_with(id.short()) => {
                format!("{name}/{}", id.short())
            }
            _ => name.clone(),
        })
        .collect()
}

/// Returns the node ids of each host name.
fn ids_of_hosts<'a>(
    report: &'a Report,
    hosts: &HashMap<u32, &'a str>,
) -> HashMap<&'a str, HashSet<&'a HexId>> {
    let mut ids: HashMap<&str, HashSet<&HexId>> = HashMap::new();
    for cluster in &report.clusters {
        if let (Some(host), Some(id)) = (hosts.get(&cluster.recording_id), &cluster.node_id) {
            ids.entry(host).or_default().insert(id);
        }
    }
    ids
}

/// Returns all nodes: first those with recordings, in their order, then those that are only named.
///
/// `outlived` are the raylets that died after their nodes had been declared dead ([`outlived`]).
pub(super) fn all(
    report: &Report,
    hosts: &[Host],
    names: &Names,
    outlived: &HashSet<EventId>,
) -> Vec<Node> {
    let groups = groups(report);
    let mut nodes: Vec<Node> = Vec::new();
    let mut place: HashMap<String, usize> = HashMap::new();
    for host in hosts {
        let clusters: Vec<_> = report
            .clusters
            .iter()
            .filter(|cluster| cluster.recording_id == host.recording_id)
            .collect();
        let keys: Vec<Option<&HexId>> = match clusters.as_slice() {
            [] => vec![None],
            some => some
                .iter()
                .map(|cluster| cluster.node_id.as_ref())
                .collect(),
        };
        for (at, id) in keys.into_iter().enumerate() {
            let cluster = clusters.get(at);
            let key = match id {
                Some(id) => id.0.clone(),
                None => format!("{} {}", host.name, host.boot_id),
            };
            let node = *place.entry(key).or_insert_with(|| {
                nodes.push(Node {
                    name: cluster.map_or_else(
                        || host.name.clone(),
                        |cluster| names.by_cluster[cluster.id as usize].clone(),
                    ),
                    node_id: id.cloned(),
                    session: cluster.and_then(|cluster| cluster.session.clone()),
                    address: id.and_then(|id| {
                        let group = groups[cluster?.id as usize];
                        names.known.get(&(group, id.clone()))?.1.clone()
                    }),
                    head: cluster.is_some_and(|cluster| cluster.head),
                    ..Node::default()
                });
                nodes.len() - 1
            });
            if !nodes[node].recordings.contains(&host.recording_id) {
                nodes[node].recordings.push(host.recording_id);
            }
        }
    }
    let mut listed: HashMap<&str, u64> = HashMap::new();
    for death in report.deaths.iter().filter(|death| death.listed) {
        *listed
            .entry(death.node.as_deref().unwrap_or(""))
            .or_default() += 1;
    }
    for node in &mut nodes {
        node.listed_deaths = listed.get(node.name.as_str()).copied().unwrap_or(0);
        complete(report, node);
    }
    nodes.extend(missing(report, &groups, names, &place));
    declared_dead(report, &mut nodes, outlived);
    nodes
}

/// Fills in the gaps and figures of a node with recordings.
fn complete(report: &Report, node: &mut Node) {
    node.gaps = gaps(report, &node.recordings);
    let machines = report
        .machines
        .iter()
        .filter(|machine| node.recordings.contains(&machine.recording_id));
    if let Some(machine) = machines.max_by_key(|machine| machine.peak.map(|peak| peak.used_bytes)) {
        node.peak = machine.peak;
        node.limits.clone_from(&machine.limits);
        node.in_use.clone_from(&machine.in_use);
    }
}

/// Returns the times between a node's recordings. If the first one says when an earlier one ended,
/// the time before it is included.
fn gaps(report: &Report, recordings: &[u32]) -> Vec<Gap> {
    let mut spans: Vec<(Utc, Utc)> = Vec::new();
    let mut gaps = Vec::new();
    for recording in &report.recordings {
        if recordings.contains(&recording.id) {
            spans.push((recording.started, recording.ended));
            // The earlier recording may not be among those that are read.
            spans.extend(recording.previous_ended.map(|ended| (ended, ended)));
        }
    }
    spans.sort_unstable();
    let mut seen_until: Option<Utc> = None;
    for (started, ended) in spans {
        if let Some(until) = seen_until.filter(|until| started.0.0 - until.0.0 > NO_GAP_NS) {
            gaps.push(Gap {
                from: until,
                until: started,
            });
        }
        seen_until = seen_until.max(Some(ended));
    }
    gaps
}

/// Returns the nodes that are named but have no recording.
fn missing(
    report: &Report,
    groups: &[usize],
    names: &Names,
    place: &HashMap<String, usize>,
) -> Vec<Node> {
    let mut found: BTreeMap<(usize, &HexId), &LogMention> = BTreeMap::new();
    for mention in &report.mentions {
        let group = mention.cluster.and_then(|one| groups.get(one as usize));
        let (Mention::NodeIs { node, .. }
        | Mention::NodeDied { node, .. }
        | Mention::WorkerOn { node, .. }) = &mention.what
        else {
            continue;
        };
        if let Some(group) = group.filter(|_| !place.contains_key(&node.0)) {
            found.entry((*group, node)).or_insert(mention);
        }
    }
    let node = |((group, id), mention): ((usize, &HexId), &LogMention)| Node {
        name: names.of_node(group, id),
        node_id: Some(id.clone()),
        session: report.clusters[group].session.clone(),
        address: names
            .known
            .get(&(group, id.clone()))
            .and_then(|(_, address)| address.clone()),
        named_by: Some(mention.source.clone()),
        missing: Some(NoRecording),
        ..Node::default()
    };
    found.into_iter().map(node).collect()
}

/// Adds what the GCS says of nodes that it declared dead.
fn declared_dead(report: &Report, nodes: &mut [Node], outlived: &HashSet<EventId>) {
    for mention in &report.mentions {
        let Mention::NodeDied {
            node,
            reason,
            message,
        } = &mention.what
        else {
            continue;
        };
        let Some(of) = nodes
            .iter_mut()
            .find(|one| one.node_id.as_ref() == Some(node))
        else {
            continue;
        };
        let raylet = raylet_of(report, node);
        let died = || raylet.is_some_and(|death| !outlived.contains(&death.id));
        let raylet_died = (!of.recordings.is_empty()).then(died);
        of.declared_dead.get_or_insert(DeclaredDead {
            time: mention.time,
            reason: reason.clone(),
            message: message.clone(),
            raylet_died,
            raylet_ended_by_it: raylet.is_some_and(rules::declared_dead::ended_by_it),
        });
    }
}

/// Returns the death of a node's raylet.
fn raylet_of<'a>(report: &'a Report, node: &HexId) -> Option<&'a Death> {
    let is_its = |death: &&Death| {
        let cluster = death
            .cluster
            .and_then(|one| report.clusters.get(one as usize));
        death.process.role == Role::Raylet
            && cluster.is_some_and(|cluster| cluster.node_id.as_ref() == Some(node))
            && death.verdict.certainty != Certainty::Unknown
    };
    report.deaths.iter().find(is_its)
}

/// Returns the raylets that died after the GCS had declared their nodes dead. All times must be by
/// one clock.
pub(super) fn outlived(report: &Report) -> HashSet<EventId> {
    let declared = report
        .mentions
        .iter()
        .filter_map(|mention| match &mention.what {
            Mention::NodeDied { node, .. } => Some((mention, raylet_of(report, node)?)),
            _ => None,
        });
    let outlived = declared.filter(|(mention, raylet)| outlived_it(report, mention, raylet));
    outlived.map(|(_, raylet)| raylet.id).collect()
}

/// Whether a raylet died after the GCS had declared its node dead for not answering.
fn outlived_it(report: &Report, declared: &LogMention, raylet: &Death) -> bool {
    if rules::declared_dead::ended_by_it(raylet) {
        return true;
    }
    let cluster = declared
        .cluster
        .and_then(|one| report.clusters.get(one as usize));
    let by = cluster.map(|cluster| cluster.recording_id);
    let later = |time| order::is_later(report, raylet, (by, time));
    // A raylet that ends normally unregisters first.
    let silent = matches!(&declared.what, Mention::NodeDied { message: Some(message), .. } if did_not_answer(message));
    silent && declared.time.is_some_and(later)
}
