//! Finds raylets, their descendants and drivers, and has them tracked.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
};

use super::{Collector, sweep};
use crate::{
    event::{Cluster, Observation, Process, Role, Source},
    ids::{HexId, Pid, ProcessKey},
    observe::{clock, clusters, processes, rooted::Folder},
    ray::identify,
};

/// Clusters that are followed, of all users and of one: what calls itself a raylet costs some descriptors.
const MOST_CLUSTERS: usize = 512;
const MOST_OF_ONE: usize = 128;

impl Collector {
    /// Looks at the whole machine: new raylets, and all that belongs to the known ones.
    pub fn scan(&mut self) {
        self.scan_in(&table());
    }

    /// The same with what is due as often: who ended unseen, what is over. /proc is gone through once for all of it.
    pub fn look_over(&mut self) {
        let table = table();
        self.scan_in(&table);
        self.sweep_in(&table);
        self.release();
    }

    fn scan_in(&mut self, table: &Table) {
        self.find_raylets_in(table);
        self.track_family_in(table);
        self.find_drivers();
    }

    /// Takes up the raylets that are new.
    pub(super) fn find_raylets(&mut self) {
        self.find_raylets_in(&table());
    }

    fn find_raylets_in(&mut self, table: &Table) {
        let named = table.iter().filter(|(_, stat)| stat.comm == "raylet");
        let called: Vec<Pid> = named.map(|(pid, _)| *pid).collect();
        self.refused.retain(|refused| called.contains(&refused.pid));
        for raylet in called {
            let known = self.known.get(&raylet);
            if known.is_some_and(|known| known.role == Role::Raylet)
                || processes::key(raylet).is_none_or(|key| self.refused.contains(&key))
            {
                continue;
            }
            if let Some(process) = processes::describe(raylet)
                && clusters::is_raylet(&process.argv, process.parent)
            {
                self.found_raylet(&process);
            }
        }
    }

    /// Whether one more cluster of this raylet's user may be followed. Those that are over count until they are let go.
    fn has_room(&mut self, raylet: &Process) -> bool {
        let of_user = self.owners.values().filter(|user| **user == raylet.uid);
        let has_room = self.owners.len() < MOST_CLUSTERS && of_user.count() < MOST_OF_ONE;
        if !has_room && self.refused.insert(raylet.process.truncated()) {
            self.left_out += 1;
        }
        has_room
    }

    fn is_wanted(&self, process: &Process, session_dir: Option<&str>) -> bool {
        let by_pid = self
            .wanted
            .raylet
            .is_none_or(|pid| pid == process.process.pid);
        let by_folder = self.wanted.session_dir.as_ref().is_none_or(|wanted| {
            let real = std::fs::canonicalize(wanted).unwrap_or_else(|_| wanted.clone());
            session_dir
                .is_some_and(|folder| Path::new(folder) == wanted || Path::new(folder) == real)
        });
        let by_user = self
            .wanted
            .user
            .is_none_or(|user| process.uid == Some(user));
        by_pid && by_folder && by_user
    }

    /// Takes up a raylet: its cluster, its logs, itself.
    pub(super) fn found_raylet(&mut self, process: &Process) {
        let key = process.process.truncated();
        if self.clusters.contains_key(&key) || !self.has_room(process) {
            return;
        }
        let cluster = clusters::describe(process);
        if !self.is_wanted(process, cluster.session_dir.as_deref()) {
            return;
        }
        self.track_one(process.process);
        self.emit(
            Source::Proc,
            clock::boot(),
            Observation::Cluster(cluster.clone()),
        );
        self.describe_as(process.clone(), key, Role::Raylet);
        self.ask_gcs_of(process, &cluster);
        if cluster.raylet_ns_pid != cluster.raylet.pid {
            self.watch_init(process.process.pid);
        }
        self.clusters.insert(key, cluster);
        self.owners.insert(key, process.uid);
        self.follow_logs();
        // Who was nobody's may be its part.
        self.strangers.clear();
    }

    /// Follows the logs of Ray's own that are there by now: a raylet makes its file some time after it started.
    pub(super) fn follow_logs(&mut self) {
        for (key, cluster) in &self.clusters {
            let Some(folder) = held(&mut self.folders, *key, cluster) else {
                continue;
            };
            let raylet = self.known.get(&key.pid);
            let raylet = raylet.filter(|known| known.process.process.same(*key));
            let argv = raylet.map_or(&[][..], |known| &known.process.argv);
            let own = clusters::log_name(key.pid, argv);
            for name in [own.as_str(), "gcs_server.out"] {
                self.logs
                    .follow(*key, &folder, name, cluster.log_utc_offset_s);
            }
        }
    }

    /// The zones of Ray's logs, which change their offset twice a year.
    pub(super) fn set_log_offsets(&mut self) {
        for (key, cluster) in &mut self.clusters {
            let raylet = self.known.get(&key.pid).map(|known| known.process.process);
            if !raylet.is_some_and(|raylet| raylet.same(*key)) {
                continue;
            }
            let offset = Some(clusters::log_offset(key.pid));
            if cluster.log_utc_offset_s != offset {
                cluster.log_utc_offset_s = offset;
                self.logs.set_offset(*key, offset);
            }
        }
    }

    fn describe_as(&mut self, mut process: Process, cluster: ProcessKey, role: Role) {
        process.cluster = Some(cluster);
        process.role = role;
        self.emit(
            Source::Proc,
            clock::boot(),
            Observation::Process(process.clone()),
        );
        self.know(super::Known {
            process,
            role,
            identified: true,
        });
    }

    /// The init of a raylet's container: with it the kernel ends all of them, so that its death is the cause of theirs.
    fn watch_init(&mut self, raylet: Pid) {
        let init = processes::in_namespace(raylet, Pid(1));
        let known = |pid: &Pid| self.known.contains_key(pid);
        if let Some(init) = init.filter(|init| !known(init)) {
            self.watch_root(init);
        }
    }

    /// Has a process outside Ray tracked with all its descendants.
    pub(super) fn watch_root(&mut self, pid: Pid) {
        let Some(process) = processes::describe(pid) else {
            return;
        };
        self.track_one(process.process);
        self.emit(
            Source::Proc,
            clock::boot(),
            Observation::Process(process.clone()),
        );
        self.know(super::Known {
            process,
            role: Role::Descendant,
            identified: false,
        });
    }

    pub(super) fn track_one(&mut self, process: ProcessKey) {
        if let Some(tracked) = &mut self.tracked
            && !tracked.contains(process.pid.0)
        {
            tracked.add(process);
            if sweep::may_have_been_told(process, processes::stat(process.pid).as_ref()) {
                self.late.insert(process);
            }
        }
        if let Some(pidfds) = &mut self.pidfds {
            pidfds.watch(process);
        }
    }

    /// Every descendant of what is tracked, and what of a session lost its parent: marked until nothing is new.
    pub(super) fn track_family(&mut self) {
        self.track_family_in(&table());
    }

    fn track_family_in(&mut self, first: &Table) {
        let mut again;
        let mut current = first;
        for _ in 0..4 {
            let new = self.new_family(current);
            if new.is_empty() {
                return;
            }
            for key in &new {
                self.track_one(*key);
            }
            for key in new {
                self.identify(key.pid);
            }
            again = table();
            current = &again;
        }
    }

    fn new_family(&mut self, table: &Table) -> Vec<ProcessKey> {
        let own = Pid(std::process::id());
        let mut family: HashSet<Pid> = self.known.keys().copied().collect();
        family.extend(self.parts(table));
        loop {
            let more: Vec<Pid> = table
                .iter()
                .filter(|(pid, stat)| {
                    **pid != own && !family.contains(pid) && family.contains(&stat.parent)
                })
                .map(|(pid, _)| *pid)
                .collect();
            if more.is_empty() {
                break;
            }
            family.extend(more);
        }
        family
            .into_iter()
            .filter(|pid| !self.known.contains_key(pid))
            .filter_map(|pid| {
                // Who was dead when the recorder came is no death of this recording.
                let stat = table.get(&pid).filter(|stat| !sweep::is_dead(stat))?;
                Some(ProcessKey {
                    pid,
                    start: stat.start,
                })
            })
            // One that gives up tens of gigabytes is in /proc for seconds after its end was told.
            .filter(|process| !self.judge.has_ended(*process))
            .collect()
    }

    /// Parts of the known clusters that are nobody's children any more: `ray start` leaves the GCS, the dashboard and its helpers
    /// to init. Their command lines name the session or the GCS.
    fn parts(&mut self, table: &Table) -> Vec<Pid> {
        let seen = |pid: &Pid, stat: &processes::Stat| self.strangers.get(pid) == Some(&stat.start);
        let new: Vec<Pid> = table
            .iter()
            .filter(|(pid, stat)| !self.known.contains_key(pid) && !seen(pid, stat))
            .map(|(pid, _)| *pid)
            .collect();
        let found = new
            .into_iter()
            .filter(|pid| {
                let argv = processes::argv(*pid);
                let comm = table.get(pid).map_or("", |stat| &stat.comm);
                identify::role(comm, &argv).is_some()
                    && self.clusters.values().any(|cluster| names(&argv, cluster))
            })
            .collect();
        self.strangers = table.iter().map(|(pid, stat)| (*pid, stat.start)).collect();
        found
    }

    /// The cluster that a process belongs to: its parent's, or the one whose command line it names.
    pub(super) fn cluster_of(&self, process: &Process) -> Option<ProcessKey> {
        let of = |pid: Pid| self.known.get(&pid).and_then(|known| known.process.cluster);
        if let Some(known) = of(process.process.pid) {
            return Some(known);
        }
        let mut parent = process.parent;
        for _ in 0..16 {
            let Some(pid) = parent else { break };
            if let Some(cluster) = of(pid) {
                return Some(cluster);
            }
            parent = processes::stat(pid)
                .map(|stat| stat.parent)
                .filter(|pid| pid.0 > 1);
        }
        self.named_cluster(&process.argv)
    }

    fn named_cluster(&self, argv: &[String]) -> Option<ProcessKey> {
        let mut clusters = self.clusters.iter();
        clusters
            .find(|(_, cluster)| names(argv, cluster))
            .map(|(raylet, _)| *raylet)
    }
}

/// The log folder of a cluster, held open once it is there.
pub(super) fn held(
    folders: &mut HashMap<ProcessKey, Arc<Folder>>,
    raylet: ProcessKey,
    cluster: &Cluster,
) -> Option<Arc<Folder>> {
    if let Some(folder) = folders.get(&raylet) {
        return Some(Arc::clone(folder));
    }
    let folder = Arc::new(Folder::logs(cluster)?);
    folders.insert(raylet, Arc::clone(&folder));
    Some(folder)
}

/// Whether a command line names the session or the GCS of a cluster, and no other node of it: one host may carry several.
fn names(argv: &[String], cluster: &Cluster) -> bool {
    let node = identify::option(argv, "node-id").and_then(HexId::parse);
    if node.is_some() && cluster.node_id.is_some() && node != cluster.node_id {
        return false;
    }
    let of_head = matches!(identify::role("", argv), Some(Role::Gcs | Role::Dashboard));
    if of_head && !cluster.head {
        return false;
    }
    let marks = [cluster.session.as_deref(), cluster.gcs_address.as_deref()];
    let marks = marks.into_iter().flatten().filter(|mark| !mark.is_empty());
    marks
        .into_iter()
        .any(|mark| argv.iter().any(|argument| argument.contains(mark)))
}

/// Every process of the machine.
pub(super) type Table = HashMap<Pid, processes::Stat>;

pub(super) fn table() -> Table {
    processes::all()
        .into_iter()
        .filter_map(|pid| Some((pid, processes::stat(pid)?)))
        .collect()
}
