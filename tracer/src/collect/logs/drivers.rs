//! Finds drivers by the log files that they make in their session's folder.
//!
//! A driver connects without being a child of a known process. The owner of a session can make a
//! hundred thousand files there, and a cluster that runs for months has as many. So the folder is
//! read once, in pieces, and the kernel reports new files afterwards. Each name is checked once,
//! and names that cannot be kept are counted.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::Path,
    sync::Arc,
    time::{Instant, SystemTime},
};

use super::Logs;
use crate::{
    budget::{Budgets, Most, Payer, Rate},
    collect::clusters::Clusters,
    event::Cluster,
    ids::{BootTime, Pid, ProcessKey, SECOND_NS},
    observe::{
        clock, processes,
        rooted::{Folder, Listing, NewNames},
    },
    ray::log::file_name,
};

/// A driver's log that was written within this time is read even if no process has it open.
const FRESH_S: i64 = 60;
/// Names that are read at a time. This takes some ms.
const NAMES: usize = 8_192;
/// Logs that are checked at a time.
const LOGS: usize = 64;
/// The logs that may be checked. To check one whether a process has it open takes about 0.3 ms.
const CHECKS: Most<Rate> = Most {
    cluster: Rate {
        each_second: 20,
        at_once: 256,
    },
    user: Rate {
        each_second: 40,
        at_once: 512,
    },
    whole: Rate {
        each_second: 80,
        at_once: 1_024,
    },
};
/// The most logs of one cluster that wait to be checked, and of all. Those of live drivers come
/// first, then the newest.
const WAITING: usize = 1_024;
const WAITING_IN_ALL: usize = 16_384;
/// The most clusters for which logs that were left out are counted.
const COUNTED: usize = 4_096;
/// The most names of one session that are remembered as checked, 16 bytes each.
const SEEN: usize = 262_144;
/// If the kernel does not report new files, a folder is read again only after this many times the
/// time that reading it took.
const REST: i64 = 200;

/// What is known of the drivers' logs of all clusters.
pub(super) struct Drivers {
    sessions: HashMap<ProcessKey, Session>,
    waiting: Vec<DriverLog>,
    /// The cluster with the folder that is read first.
    turn: usize,
    checks: Budgets,
    /// By cluster, the logs that were left out because there were too many.
    pub(super) left_out: HashMap<ProcessKey, u64>,
}

impl Default for Drivers {
    fn default() -> Self {
        Self {
            sessions: HashMap::new(),
            waiting: Vec::new(),
            turn: 0,
            checks: Budgets::new(CHECKS),
            left_out: HashMap::new(),
        }
    }
}

/// One session's folder.
#[derive(Default)]
struct Session {
    /// Names that were checked, by their hashes.
    seen: HashSet<u64>,
    /// Reports new names, if the kernel does.
    new_names: Option<NewNames>,
    /// When the folder had last changed, at the last time it was read.
    changed: Option<SystemTime>,
    listing: Option<Listing>,
    /// How long reading it took, and until when it is therefore not read again.
    took_ns: i64,
    rests_until: BootTime,
}

/// A log that is to be checked.
pub(in crate::collect) struct DriverLog {
    pub(in crate::collect) cluster: ProcessKey,
    /// The live process that Ray knows by the pid in the log's name, if there is one.
    pub(in crate::collect) driver: Option<Pid>,
    pub(super) name: String,
    pub(super) folder: Arc<Folder>,
}

impl Session {
    /// Returns the next names of the folder, if it has changed; none when all were read.
    fn names(&mut self, folder: &Folder, most: usize, now: BootTime) -> Vec<String> {
        if self.listing.is_none() {
            if let Some(names) = self.new_names.as_ref().and_then(|names| names.take(most)) {
                return names;
            }
            let changed = folder.changed();
            if now.since(self.rests_until) < 0 || (changed.is_some() && changed == self.changed) {
                return Vec::new();
            }
            self.changed = changed;
            // This comes before the names are read: a name that appears in between is reported
            // twice, not missed.
            self.new_names = folder.new_names();
            self.listing = folder.list();
            self.took_ns = 0;
        }
        let Some(listing) = self.listing.take() else {
            return Vec::new();
        };
        let began = Instant::now();
        let (names, left) = folder.next_names(listing, most).unwrap_or_default();
        self.took_ns += i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX / REST);
        self.listing = left;
        if self.listing.is_none() {
            self.rests_until = now.plus(REST.saturating_mul(self.took_ns));
        }
        names
    }

    /// Whether a name is new. It is remembered.
    fn is_new(&mut self, name: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        self.seen.insert(hasher.finish())
    }
}

impl Drivers {
    /// Forgets a cluster that is gone.
    pub(super) fn forget(&mut self, cluster: ProcessKey) {
        self.sessions.remove(&cluster);
        self.waiting.retain(|log| log.cluster != cluster);
    }

    /// Takes the new logs of a session's folder. Reads at most `most` names, and returns how many
    /// it read. `process_of` finds the process that Ray knows by a pid.
    fn look(
        &mut self,
        cluster: ProcessKey,
        folder: &Arc<Folder>,
        most: usize,
        now: BootTime,
        mut process_of: impl FnMut(Pid) -> Option<Pid>,
    ) -> usize {
        let session = self.sessions.entry(cluster).or_default();
        let names = session.names(folder, most, now);
        let count = names.len();
        let (mut live, mut left_out) = (Vec::new(), 0);
        for name in names
            .into_iter()
            .filter(|name| name.starts_with("python-core-driver-"))
        {
            let Some(driver) = file_name::parse(&name).and_then(|name| name.pid) else {
                continue;
            };
            if session.seen.len() >= SEEN {
                left_out += 1;
            } else if session.is_new(&name) {
                let log = DriverLog {
                    cluster,
                    driver: process_of(driver),
                    name,
                    folder: Arc::clone(folder),
                };
                let list = match log.driver {
                    Some(_) => &mut live,
                    None => &mut self.waiting,
                };
                list.push(log);
            }
        }
        self.waiting.append(&mut live);
        // The oldest logs are dropped.
        let own = self.waiting.iter().filter(|log| log.cluster == cluster);
        let in_all = self.waiting.len().saturating_sub(WAITING_IN_ALL);
        let mut more = own.count().saturating_sub(WAITING).max(in_all.min(count));
        left_out += more as u64;
        self.waiting.retain(|log| {
            let stays = more == 0 || log.cluster != cluster;
            more -= usize::from(!stays);
            stays
        });
        if left_out > 0 && self.left_out.len() < COUNTED {
            *self.left_out.entry(cluster).or_default() += left_out;
        }
        count
    }

    /// Returns the logs that are checked next.
    fn next(&mut self, now: BootTime, owner: impl Fn(ProcessKey) -> Option<u32>) -> Vec<DriverLog> {
        let payer = |cluster| Payer {
            cluster,
            user: owner(cluster),
        };
        let all: HashSet<ProcessKey> = self.waiting.iter().map(|log| log.cluster).collect();
        let room = LOGS as u64;
        let mut shares = self.checks.shares(all.into_iter().map(payer), room, now);
        let mut next = Vec::new();
        for at in (0..self.waiting.len()).rev() {
            let cluster = self.waiting[at].cluster;
            if let Some(left) = shares.get_mut(&cluster).filter(|left| **left > 0) {
                *left -= 1;
                self.checks.spend(payer(cluster), 1, now);
                next.push(self.waiting.remove(at));
            }
        }
        next.reverse();
        next
    }
}

impl Logs {
    /// Returns the new logs of drivers in the clusters' folders that are checked next.
    pub(in crate::collect) fn new_drivers(&mut self, clusters: &Clusters) -> Vec<DriverLog> {
        let now = clock::boot();
        let mut all: Vec<(ProcessKey, &Cluster)> = clusters.all().collect();
        // The clusters take turns to be first, so that one with many files does not delay the
        // others.
        let turn = self.drivers.turn.checked_rem(all.len()).unwrap_or(0);
        all.rotate_left(turn);
        let mut left = NAMES;
        for (key, cluster) in all {
            self.drivers.turn += 1;
            if let Some(folder) = self.folders.of(key, cluster) {
                let mut inside = Inside::of(cluster);
                let process_of = |ray_pid| inside.process_of(ray_pid);
                let read = self.drivers.look(key, &folder, left, now, process_of);
                left = left.saturating_sub(read);
            }
            if left == 0 {
                break;
            }
        }
        self.drivers.next(now, |cluster| clusters.owner(cluster))
    }
}

impl DriverLog {
    /// Opens the file, if it may be that of a driver that is alive or has just ended. A session may
    /// have the logs of thousands of jobs that are over.
    pub(in crate::collect) fn file(&self) -> Option<File> {
        let may_be = self.driver.is_some() || self.is_fresh();
        let file = || self.folder.file(self.name.as_ref());
        may_be.then(file).flatten()
    }

    /// Whether it was written so recently that its process may have ended just now.
    pub(in crate::collect) fn is_fresh(&self) -> bool {
        let entry = self.folder.entry(self.name.as_ref());
        entry.is_some_and(|entry| is_fresh(entry.written))
    }

    /// Whether this process has it open.
    pub(in crate::collect) fn is_open_in(&self, pid: Pid, file: File) -> bool {
        // The log of a driver that is gone may name a pid that another process has now, and any
        // user can make a file that names init.
        let is_it = |path: &Path| path.file_name() == Some(self.name.as_ref());
        processes::holds_open(pid, file, is_it)
    }
}

/// The processes of a cluster by the pids that Ray knows. In another pid namespace, all are found
/// at once when the first is requested.
struct Inside {
    raylet: Pid,
    is_elsewhere: bool,
    processes: Option<HashMap<Pid, Pid>>,
}

impl Inside {
    fn of(cluster: &Cluster) -> Self {
        Self {
            raylet: cluster.raylet.pid,
            is_elsewhere: cluster.raylet_ns_pid != cluster.raylet.pid,
            processes: None,
        }
    }

    fn process_of(&mut self, ray_pid: Pid) -> Option<Pid> {
        if !self.is_elsewhere {
            return processes::exists(ray_pid).then_some(ray_pid);
        }
        let raylet = self.raylet;
        let find = || processes::of_namespace(raylet);
        self.processes
            .get_or_insert_with(find)
            .get(&ray_pid)
            .copied()
    }
}

/// Whether a file was written so recently that its process may have ended just now.
fn is_fresh(written_s: i64) -> bool {
    clock::wall().0 / SECOND_NS - written_s < FRESH_S
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_of(names: impl Iterator<Item = String>) -> (tempfile::TempDir, Arc<Folder>) {
        let folder = tempfile::tempdir().expect("a folder");
        for name in names {
            File::create(folder.path().join(name)).expect("a file");
        }
        let opened = Folder::open(folder.path()).expect("a folder");
        (folder, Arc::new(opened))
    }

    fn log(pid: usize) -> String {
        format!("python-core-driver-{}01000000_{pid}.log", "f".repeat(48))
    }

    /// Logs that do not fit into the waiting list are counted as left out.
    #[test]
    fn large_folder_is_read_in_pieces() {
        let count = NAMES + 100;
        let (at, folder) = folder_of((1..=count).map(log));
        let cluster = ProcessKey::new(1, 0);
        let mut drivers = Drivers::default();
        let now = BootTime(1_000_000_000);
        drivers.look(cluster, &folder, NAMES, now, |_| None);
        assert_eq!(drivers.sessions[&cluster].seen.len(), NAMES);
        assert_eq!(drivers.waiting.len(), WAITING);
        drivers.look(cluster, &folder, NAMES, now.plus(1_000_000), |_| None);
        assert_eq!(drivers.sessions[&cluster].seen.len(), count);
        assert_eq!(drivers.left_out[&cluster], (count - WAITING) as u64);
        assert_eq!(drivers.next(now, |_| None).len(), LOGS);
        drivers.look(cluster, &folder, NAMES, now.plus(10_000_000), |_| None);
        assert_eq!(drivers.waiting.len(), WAITING - LOGS, "each once");
        // The newest comes first. The kernel reported it, so the other names are not read again.
        File::create(at.path().join(log(count + 1))).expect("a file");
        let read = drivers.look(cluster, &folder, NAMES, now.plus(20_000_000), |_| None);
        assert_eq!(read, 1);
        assert!(
            drivers
                .next(now, |_| None)
                .iter()
                .any(|next| next.name == log(count + 1))
        );
    }

    #[test]
    fn logs_of_live_drivers_come_first() {
        let (_at, folder) = folder_of((1..=5000).map(log));
        let mut drivers = Drivers::default();
        let lives = |pid: Pid| (pid == Pid(2500)).then_some(Pid(77));
        let cluster = ProcessKey::new(1, 0);
        drivers.look(cluster, &folder, NAMES, BootTime(1_000_000_000), lives);
        let next = drivers.next(BootTime(1_000_000_000), |_| None);
        let last = next.last().expect("a log");
        assert_eq!(
            (last.driver, last.name.as_str()),
            (Some(Pid(77)), log(2500).as_str())
        );
    }

    #[test]
    fn inotify_overflow_reads_all_names_again() {
        let told = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events");
        let told: usize = told.expect("a limit").trim().parse().expect("a number");
        if told > 20_000 {
            return crate::skips::skipped("this machine tells of very many names");
        }
        let (at, folder) = folder_of([log(1)].into_iter());
        let mut session = Session::default();
        assert_eq!(session.names(&folder, NAMES, BootTime(1)), [log(1)]);
        assert!(session.new_names.is_some());
        for number in 0..=told {
            std::fs::hard_link(at.path().join(log(1)), at.path().join(number.to_string()))
                .expect("a name");
        }
        let later = session.rests_until.plus(1_000_000_000);
        let mut names = session.names(&folder, usize::MAX, later);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), told + 2);
    }

    #[test]
    fn unchanged_folder_is_not_read_again() {
        let (_at, folder) = folder_of([log(1)].into_iter());
        let mut session = Session::default();
        assert_eq!(session.names(&folder, NAMES, BootTime(1)), [log(1)]);
        assert!(session.names(&folder, NAMES, BootTime(2)).is_empty());
    }
}
