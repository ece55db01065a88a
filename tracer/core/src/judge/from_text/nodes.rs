//! Finds the node of each text and of each death, and joins the nodes by Ray's ids.
//!
//! The texts are session folders of several nodes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::IpAddr,
};

use super::{
    Made,
    claim::{PidNamespace, Statement},
    text_evidence::TextEvidence,
    version,
    zone::{self, Clock},
};
use crate::{
    event::Role,
    ids::{EventId, HexId},
    judge::{
        cause::Cause,
        fleet::{self, Host},
        report::{ClusterReport, LogMention, Mention, Report},
    },
    path,
    ray::log::{FileKind, file_name},
};

/// A folder with a raylet's log. It stands for a node.
pub(super) struct Folder {
    /// Its path, with a slash at the end.
    path: String,
    /// Its name for people: the part of its path that differs from the others.
    name: String,
    node_id: Option<HexId>,
    session: Option<String>,
    /// Whether it has the GCS's log.
    head: bool,
    /// Its texts, by number.
    texts: BTreeSet<usize>,
}

/// Returns the nodes of the texts. There are none if all texts are of one node, or if the nodes
/// cannot be told apart.
pub(super) fn folders(gathered: &TextEvidence) -> Vec<Folder> {
    let mut paths: BTreeMap<&str, Option<HexId>> = BTreeMap::new();
    for text in &gathered.texts {
        if kind(&text.name) == Some(FileKind::Raylet) {
            let known = paths.entry(path::folder(&text.name)).or_default();
            *known = known.take().or_else(|| text.node_id.clone());
        }
    }
    let ids: HashSet<&HexId> = paths.values().flatten().collect();
    // Two folders of one raylet are copies.
    if paths.len() < 2 || ids.len() < paths.len() {
        return Vec::new();
    }
    let all: Vec<&str> = paths.keys().copied().collect();
    let mut folders: Vec<Folder> = paths
        .iter()
        .map(|(path, node_id)| Folder {
            path: (*path).to_owned(),
            name: name(path, &all),
            node_id: node_id.clone(),
            session: session(path),
            head: false,
            texts: BTreeSet::new(),
        })
        .collect();
    for (number, text) in gathered.texts.iter().enumerate() {
        let Some(folder) = nearest(&text.name, &all).and_then(|at| folders.get_mut(at)) else {
            continue;
        };
        folder.texts.insert(number);
        folder.head |= kind(&text.name) == Some(FileKind::Gcs);
    }
    folders
}

fn kind(name: &str) -> Option<FileKind> {
    file_name::parse(path::base(name)).map(|parsed| parsed.kind)
}

/// Returns the folder of the raylet that a text is nearest to. That is the only raylet folder below
/// the innermost folder above the text that has any.
fn nearest(text: &str, folders: &[&str]) -> Option<usize> {
    let mut above = path::folder(text);
    loop {
        let mut below = (0..)
            .zip(folders)
            .filter(|(_, folder)| folder.starts_with(above));
        match (below.next(), below.next()) {
            (Some((at, _)), None) => return Some(at),
            (Some(_), Some(_)) => return None,
            (None, _) if above.is_empty() => return None,
            (None, _) => above = path::folder(above.trim_end_matches('/')),
        }
    }
}

/// Returns the name of a folder: `gpu-07` of `/logs/gpu-07/session_x/logs/`.
fn name(path: &str, all: &[&str]) -> String {
    let parts = |path: &str| -> Vec<String> {
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let own = parts(path);
    let others: Vec<Vec<String>> = all.iter().map(|path| parts(path)).collect();
    let differs = |at: &usize| others.iter().any(|other| other.get(*at) != own.get(*at));
    let at = (0..own.len()).find(differs);
    let name = at.and_then(|at| own.get(at)).map_or(path, String::as_str);
    let packed = [".tar.gz", ".tgz", ".tar"];
    let mut bare = packed.iter().filter_map(|end| name.strip_suffix(end));
    bare.next().unwrap_or(name).to_owned()
}

/// Returns the part of a path that Ray names after the session.
fn session(path: &str) -> Option<String> {
    let mut parts = path.split('/');
    let known = parts.find(|part| part.starts_with("session_20"));
    known.map(str::to_owned)
}

/// Logs of a raylet's agents. They know only their own raylet.
const AGENTS: [&str; 2] = ["dashboard_agent", "runtime_env_agent"];

/// Returns those texts of a process's claims that only its own node has: its own logs, and the
/// host's.
pub(super) fn own_texts(gathered: &TextEvidence, claims: &[&Statement]) -> Vec<usize> {
    let own = |one: &&&Statement| {
        let name = gathered.texts.get(one.place.text);
        let name = name.map_or("", |text| path::base(&text.name));
        let writer = file_name::parse(name).and_then(|parsed| parsed.worker_id);
        let by_agent = AGENTS.iter().any(|agent| name.starts_with(agent));
        one.subject.pid_namespace == PidNamespace::Host
            || (writer.is_some() && writer == one.subject.worker_id)
            || (by_agent && one.subject.role == Some(Role::Raylet))
    };
    let own = claims.iter().filter(own).map(|one| one.place.text);
    own.collect()
}

/// Returns the node of each death.
pub(super) fn of_deaths(
    gathered: &TextEvidence,
    folders: &[Folder],
    made: &[Made],
) -> Vec<Option<HexId>> {
    if folders.is_empty() {
        return Vec::new();
    }
    let mut workers: HashMap<&HexId, &HexId> = HashMap::new();
    for mention in &gathered.mentions {
        if let Mention::WorkerOn { worker, node } = &mention.what {
            workers.insert(worker, node);
        }
    }
    let of = |made: &Made| of_death(folders, &workers, made);
    made.iter().map(of).collect()
}

/// Returns the node that a process died on: as Ray names it, else the node of a log that speaks of
/// it (the raylet's, its own, or the host's).
fn of_death(folders: &[Folder], workers: &HashMap<&HexId, &HexId>, made: &Made) -> Option<HexId> {
    let named = made.node.0.as_deref().and_then(HexId::parse);
    let by_raylet = || {
        let path = made.folder.as_ref()?;
        let folder = folders.iter().find(|folder| folder.path == *path)?;
        folder.node_id.clone()
    };
    let by_gcs = || {
        let worker = made.death.work.worker_id.as_ref()?;
        workers.get(worker).map(|node| (*node).clone())
    };
    let by_text = || {
        let of = |folder: &&Folder| made.texts.iter().any(|text| folder.texts.contains(text));
        folders.iter().find(of)?.node_id.clone()
    };
    named.or_else(by_raylet).or_else(by_gcs).or_else(by_text)
}

/// Returns the address of the node of each death, by the line that tells of it or by another one
/// that names the same node. Where journals of several hosts are merged, it is the host.
pub(super) fn addresses(gathered: &TextEvidence, made: &[Made]) -> Vec<Option<String>> {
    let mut known: HashMap<&HexId, &str> = HashMap::new();
    for mention in &gathered.mentions {
        if let Mention::NodeIs { node, address, .. } = &mention.what {
            known.extend(address.as_deref().map(|address| (node, address)));
        }
    }
    for process in gathered.claims.all() {
        let subject = &process.subject;
        known.extend(subject.node_id.as_ref().zip(subject.ip.as_deref()));
    }
    let hosts: BTreeSet<&String> = made.iter().filter_map(|made| made.host.as_ref()).collect();
    let of = |made: &Made| {
        let (id, address) = &made.node;
        let id = id.as_deref().and_then(HexId::parse);
        let by_id = || known.get(&id?).map(|address| (*address).to_owned());
        let address = address.clone().or_else(by_id);
        let address = address.filter(|address| address.parse::<IpAddr>().is_ok());
        address.or_else(|| made.host.clone().filter(|_| hosts.len() > 1))
    };
    made.iter().map(of).collect()
}

/// Stands for the session of nodes whose paths do not name one, while they are joined.
const NAMELESS: &str = "";

/// Returns a part of the cluster for each node.
pub(super) fn clusters(gathered: &TextEvidence, folders: &[Folder]) -> Vec<ClusterReport> {
    let of_one_head = folders.iter().filter(|folder| folder.head).count() == 1;
    let named: HashSet<&HexId> = (gathered.mentions.iter())
        .filter_map(|mention| match &mention.what {
            Mention::NodeIs { node, .. } => Some(node),
            _ => None,
        })
        .collect();
    // A node that the only GCS has registered belongs to its cluster.
    let session = |folder: &Folder| {
        let registered =
            of_one_head && folder.node_id.as_ref().is_some_and(|id| named.contains(id));
        let known = folder.session.clone();
        known.or_else(|| registered.then(|| NAMELESS.to_owned()))
    };
    let of = |(id, folder): (u32, &Folder)| ClusterReport {
        id,
        recording_id: id,
        session: session(folder),
        ray_version: version(gathered),
        node_id: folder.node_id.clone(),
        head: folder.head,
        ..ClusterReport::default()
    };
    (0..).zip(folders).map(of).collect()
}

/// Joins the nodes by the same rules as recordings.
pub(super) fn join(
    gathered: &TextEvidence,
    clock: &Clock,
    folders: &[Folder],
    on: &[Option<HexId>],
    report: &mut Report,
) {
    if folders.is_empty() {
        return;
    }
    let hosts: Vec<Host> = (0..)
        .zip(folders)
        .map(|(recording_id, folder)| Host {
            recording_id,
            name: folder.name.clone(),
            boot_id: String::new(),
        })
        .collect();
    report.mentions = mentions(gathered, clock, folders);
    blame_the_nodes_raylet(on, report);
    fleet::join_logs(report, &hosts, on);
    let is_known = |session: &String| session != NAMELESS;
    for cluster in &mut report.clusters {
        cluster.recording_id = 0;
        cluster.session = cluster.session.take().filter(is_known);
    }
    for node in &mut report.nodes {
        node.session = node.session.take().filter(is_known);
        let read = node.recordings.drain(..);
        node.texts = read
            .filter_map(|at| folders.get(usize::try_from(at).ok()?))
            .map(|folder| folder.texts.len() as u64)
            .sum();
        // A raylet that is killed writes nothing. So a text that does not tell of its end is no
        // sign of life.
        if let Some(declared) = &mut node.declared_dead {
            declared.raylet_died = declared.raylet_died.filter(|died| *died);
        }
    }
}

/// Attributes the end of a worker to the one raylet of its node that ended, if the worker's own log
/// says that its raylet is gone. `raylets` has done so where the log names the raylet's pid.
fn blame_the_nodes_raylet(on: &[Option<HexId>], report: &mut Report) {
    let mut raylets: HashMap<&HexId, Vec<EventId>> = HashMap::new();
    for (death, node) in report.deaths.iter().zip(on) {
        if let Some(node) = node.as_ref().filter(|_| death.process.role == Role::Raylet) {
            raylets.entry(node).or_default().push(death.id);
        }
    }
    for (death, node) in report.deaths.iter_mut().zip(on) {
        let of_node = node.as_ref().and_then(|node| raylets.get(node));
        let by_own_log = matches!(
            death.verdict.cause,
            Cause::RayletDied {
                by_own_log: true,
                ..
            }
        );
        if let Some([raylet]) = of_node.filter(|_| by_own_log).map(Vec::as_slice) {
            death.verdict.cause_death_id.get_or_insert(*raylet);
        }
    }
}

fn mentions(gathered: &TextEvidence, clock: &Clock, folders: &[Folder]) -> Vec<LogMention> {
    let mut of_text: BTreeMap<usize, u32> = BTreeMap::new();
    for (number, folder) in (0..).zip(folders) {
        of_text.extend(folder.texts.iter().map(|text| (*text, number)));
    }
    let mentions = gathered.mentions.iter().map(|mention| {
        let text = gathered.texts.get(mention.place.text);
        LogMention {
            time: clock.time(mention.place, mention.stamp).map(zone::utc),
            cluster: of_text.get(&mention.place.text).copied(),
            source: text.map_or(String::new(), |text| path::base(&text.name).to_owned()),
            by: mention.by.clone(),
            what: mention.what.clone(),
        }
    });
    mentions.collect()
}
