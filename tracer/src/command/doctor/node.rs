//! Reads the facts about one raylet or, if none runs, about the Ray that this shell would start.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
};

use crate::{
    event::{Cluster, Process},
    ids::{Bytes, Pid},
    judge::{
        doctor::facts::{Driver, Folder, Node},
        report::Monitor,
    },
    observe::{cgroups, clusters, knobs, processes, rooted, sessions},
    ray::{
        facts::RayFact,
        identify::option,
        log::{FileKind, LogParser},
    },
};

/// How much of the log is read: the monitor announces itself near its start.
const LOG_BYTES: u64 = 4 << 20;

/// Reads the facts about a running raylet.
pub(super) fn running(pid: Pid) -> Option<Node> {
    let raylet = processes::describe(pid)?;
    let cluster = clusters::describe(&raylet);
    let argv = &raylet.argv;
    let (monitor, isolated) = announced(&cluster);
    let disk = cluster.session_dir.as_deref();
    Some(Node {
        settings: cluster.settings.clone(),
        hidden: !clusters::has_readable_environment(pid),
        unread: unread(&raylet, &cluster.settings),
        monitor,
        isolated,
        shm: folder(sessions::space_seen_by(pid, "/dev/shm"), "/dev/shm"),
        plasma_directory: option(argv, "plasma-directory").map(str::to_owned),
        plasma_used: sessions::plasma_used(pid),
        gpus: option(argv, "static-resource-list").and_then(gpus),
        visible_devices: clusters::visible_devices(pid),
        session_disk: disk.and_then(|path| folder(sessions::space_seen_by(pid, path), path)),
        drivers: drivers(&cluster),
        ..bare(pid, Some(cluster))
    })
}

/// Describes the Ray that `ray start` would start here.
pub(super) fn from_here() -> Node {
    let own = Pid(std::process::id());
    Node {
        settings: clusters::settings(own),
        shm: folder(sessions::space(Path::new("/dev/shm")), "/dev/shm"),
        ..bare(own, None)
    }
}

fn bare(pid: Pid, cluster: Option<Cluster>) -> Node {
    Node {
        cluster,
        root: cgroups::root_of(pid),
        levels: cgroups::Hierarchy::find().map_or_else(Vec::new, |all| all.levels(pid)),
        ..Node::default()
    }
}

/// Builds a folder from the free and total space of its file system; `name` is how people call it.
pub(super) fn folder(space: Option<(Bytes, Bytes)>, name: &str) -> Option<Folder> {
    let (free, total) = space?;
    Some(Folder {
        path: name.to_owned(),
        free,
        total,
    })
}

fn unread(raylet: &Process, settings: &[(String, String)]) -> Option<Vec<String>> {
    let keys: Vec<&str> = settings.iter().map(|(key, _)| key.as_str()).collect();
    knobs::unread(raylet, &keys)
}

/// Reads the number of GPUs from the raylet's resources: the 8 of `CPU,4,GPU,8,memory,…`.
fn gpus(resources: &str) -> Option<f64> {
    let parts: Vec<&str> = resources.split(',').collect();
    let mut pairs = parts.chunks_exact(2);
    pairs
        .find(|pair| pair[0] == "GPU")
        .and_then(|pair| pair[1].parse().ok())
}

/// Reads from the raylet's log what it says about its monitor, and whether the monitor watches only
/// the user cgroup.
fn announced(cluster: &Cluster) -> (Option<Monitor>, bool) {
    let folder = rooted::Folder::logs(cluster);
    let Some(file) = folder.and_then(|folder| folder.file("raylet.out".as_ref())) else {
        return (None, false);
    };
    let mut parser = LogParser::new(FileKind::Raylet, None);
    let mut records = Vec::new();
    for line in BufReader::new(file.take(LOG_BYTES))
        .split(b'\n')
        .map_while(Result::ok)
    {
        parser.push(&String::from_utf8_lossy(&line), &mut records);
        if let Some(found) = records.drain(..).find_map(|record| monitor(&record.fact)) {
            return found;
        }
    }
    (None, false)
}

fn monitor(fact: &RayFact) -> Option<(Option<Monitor>, bool)> {
    let isolated = matches!(
        fact,
        RayFact::MonitorStarted {
            user_slice_only: true,
            ..
        }
    );
    Some((Some(Monitor::logged(fact)?), isolated))
}

fn drivers(cluster: &Cluster) -> Vec<Driver> {
    let pids = clusters::drivers(cluster);
    pids.into_iter()
        .map(|pid| Driver {
            pid,
            settings: clusters::settings(pid),
        })
        .collect()
}
