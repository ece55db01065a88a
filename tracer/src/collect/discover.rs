//! Finds raylets, their descendants and drivers, and has them tracked.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    sync::Arc,
    time::Duration,
};

use super::{Collector, sweep};
use crate::{
    event::{Cluster, Observation, Process, Role, Source},
    ids::{Pid, ProcessKey},
    observe::{clock, clusters, processes, rooted::Folder},
    ray::{identify, log::file_name},
};

/// A driver's log that was written this lately is read although nobody has it open.
const FRESH: Duration = Duration::from_secs(60);

impl Collector {
    /// Looks at the whole machine: new raylets, and all that belongs to the known ones.
    pub fn scan(&mut self) {
        self.find_raylets();
        self.track_family();
        self.find_drivers();
    }

    /// Takes up the raylets that are new.
    pub(super) fn find_raylets(&mut self) {
        for raylet in clusters::raylets() {
            let known = self.known.get(&raylet);
            if known.is_none_or(|known| known.role != Role::Raylet)
                && let Some(process) = processes::describe(raylet)
            {
                self.found_raylet(&process);
            }
        }
    }

    fn is_wanted(&self, process: &Process, session_dir: Option<&str>) -> bool {
        let by_pid = self
            .wanted
            .raylet
            .is_none_or(|pid| pid == process.process.pid);
        let by_folder = self.wanted.session_dir.as_ref().is_none_or(|wanted| {
            let real = std::fs::canonicalize(wanted).unwrap_or_else(|_| wanted.clone());
            session_dir.is_some_and(|folder| {
                std::path::Path::new(folder) == wanted || std::path::Path::new(folder) == real
            })
        });
        by_pid && by_folder
    }

    /// Takes up a raylet: its cluster, its logs, itself.
    pub(super) fn found_raylet(&mut self, process: &Process) {
        let key = process.process.truncated();
        if self.clusters.contains_key(&key) {
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
            for name in ["raylet.out", "gcs_server.out"] {
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
        let pid = process.process.pid;
        self.known.insert(
            pid,
            super::Known {
                process,
                role,
                identified: true,
            },
        );
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
        self.known.insert(
            pid,
            super::Known {
                process,
                role: Role::Descendant,
                identified: false,
            },
        );
    }

    fn track_one(&mut self, process: ProcessKey) {
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
        for _ in 0..4 {
            let table = table();
            let new = self.new_family(&table);
            if new.is_empty() {
                return;
            }
            for key in &new {
                self.track_one(*key);
            }
            for key in new {
                self.identify(key.pid);
            }
        }
    }

    fn new_family(&mut self, table: &HashMap<Pid, processes::Stat>) -> Vec<ProcessKey> {
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
    fn parts(&mut self, table: &HashMap<Pid, processes::Stat>) -> Vec<Pid> {
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

    /// Drivers connect without being anyone's child: they are found by the log files that they make.
    pub fn find_drivers(&mut self) {
        let mut found = Vec::new();
        for (key, cluster) in &self.clusters {
            let Some(folder) = held(&mut self.folders, *key, cluster) else {
                continue;
            };
            // A session's folder may hold thousands of files: it is read again only when one was made.
            let changed = folder.changed();
            if changed.is_some() && self.changed.insert(*key, changed) == Some(changed) {
                continue;
            }
            let names = folder.names();
            for name in names.filter(|name| name.starts_with("python-core-driver-")) {
                let new = self.drivers.insert((*key, name.clone()));
                if let Some(pid) = file_name::parse(&name)
                    .and_then(|name| name.pid)
                    .filter(|_| new)
                {
                    found.push((
                        *key,
                        pid,
                        Arc::clone(&folder),
                        name,
                        cluster.log_utc_offset_s,
                    ));
                }
            }
        }
        let any = !found.is_empty();
        for (cluster, ray_pid, folder, name, offset) in found {
            let Some(log) = folder.file(name.as_ref()) else {
                continue;
            };
            // A session may hold the logs of thousands of jobs that are over.
            if self.found_driver(cluster, ray_pid, &log) || is_fresh(&log) {
                self.logs.follow(cluster, &folder, &name, offset);
            }
        }
        if any {
            self.track_family();
        }
    }

    /// Tracks a driver, once; its log names the pid that it has in Ray's namespace. False where it is gone.
    fn found_driver(&mut self, cluster: ProcessKey, ray_pid: Pid, log: &File) -> bool {
        let known = |known: &super::Known| {
            known.process.ns_pid.unwrap_or(known.process.process.pid) == ray_pid && known.identified
        };
        if self.known.values().any(known) {
            return true;
        }
        let contained = self
            .clusters
            .get(&cluster)
            .is_some_and(|one| one.raylet_ns_pid != one.raylet.pid);
        let pid = if contained {
            processes::in_namespace(cluster.pid, ray_pid)
        } else {
            Some(ray_pid)
        };
        let Some(process) = pid.and_then(processes::describe) else {
            return false;
        };
        // The log of a driver that is gone may name a pid that somebody else has now, and anybody can make a file that names init.
        if !processes::holds_open(process.process.pid, log) {
            return false;
        }
        self.track_one(process.process);
        let process = Process {
            cluster: Some(cluster),
            ..process
        };
        self.emit(
            Source::Proc,
            clock::boot(),
            Observation::Process(process.clone()),
        );
        let key = process.process;
        self.known.insert(
            key.pid,
            super::Known {
                process,
                role: Role::Other,
                identified: false,
            },
        );
        if !self.identify(key.pid) {
            self.identities.expect(key, clock::boot());
        }
        true
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

/// Whether a file was written so lately that its process may have ended just now.
fn is_fresh(log: &File) -> bool {
    let written = log.metadata().and_then(|data| data.modified());
    written.is_ok_and(|written| written.elapsed().unwrap_or_default() < FRESH)
}

/// Whether a command line names the session or the GCS of a cluster.
fn names(argv: &[String], cluster: &Cluster) -> bool {
    let marks = [cluster.session.as_deref(), cluster.gcs_address.as_deref()];
    let marks = marks.into_iter().flatten().filter(|mark| !mark.is_empty());
    marks
        .into_iter()
        .any(|mark| argv.iter().any(|argument| argument.contains(mark)))
}

fn table() -> HashMap<Pid, processes::Stat> {
    processes::all()
        .into_iter()
        .filter_map(|pid| Some((pid, processes::stat(pid)?)))
        .collect()
}
