//! Forwards what Ray's logs and the kernel log say, and counts what is lost of them.
//!
//! Ray's logs are read continuously, when a worker ends, and when the recorder ends.

mod drivers;

use std::{
    collections::HashMap,
    fs::File,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

pub(super) use drivers::DriverLog;
use drivers::Drivers;

use super::{
    clusters::{Clusters, SCANS_UNTIL_OVER},
    output::Output,
    processes::{OwnLog, Processes, RayState},
};
use crate::{
    event::{Cluster, Ledger, Observation, Role, Source, Worker},
    ids::{Bytes, Pid, ProcessKey},
    observe::{
        clock, clusters,
        kmsg::Kmsg,
        processes,
        ray_logs::{Line, RayLogs},
        rooted::Folder,
        timed_read,
    },
    ray::{facts::RayFact, log::file_name},
};

/// When the recorder ends, unread logs are read for this long at most.
const CATCH_UP: Duration = Duration::from_secs(5);
/// The writer needs about this time for a batch.
const A_BATCH: Duration = Duration::from_millis(10);

/// All logs.
#[derive(Default)]
pub(super) struct Logs {
    files: RayLogs,
    kmsg: Option<Kmsg>,
    folders: Folders,
    drivers: Drivers,
    /// The threshold that each raylet's monitor logged first, until it is taken.
    thresholds: HashMap<ProcessKey, Bytes>,
    /// The number of log records so far.
    words: u64,
}

/// The log folders of clusters.
#[derive(Default)]
struct Folders(HashMap<ProcessKey, Arc<Folder>>);

impl Folders {
    /// Returns the folder of one cluster. It is kept open once it exists.
    fn of(&mut self, raylet: ProcessKey, cluster: &Cluster) -> Option<Arc<Folder>> {
        if let Some(folder) = self.0.get(&raylet) {
            return Some(Arc::clone(folder));
        }
        let folder = Arc::new(Folder::logs(cluster)?);
        self.0.insert(raylet, Arc::clone(&folder));
        Some(folder)
    }
}

impl Logs {
    pub(super) fn new(kmsg: Option<Kmsg>) -> Self {
        Self {
            kmsg,
            ..Self::default()
        }
    }

    /// Follows the logs of raylets and GCSs that exist by now. A raylet makes its file some time
    /// after it started.
    pub(super) fn follow(&mut self, clusters: &Clusters, processes: &Processes) {
        for (raylet, cluster) in clusters.all() {
            let Some(folder) = self.folders.of(raylet, cluster) else {
                continue;
            };
            self.files.set_owner(raylet, clusters.owner(raylet));
            let known = processes.known_as(raylet);
            let argv = known.map_or(&[][..], |known| &known.argv);
            let own = clusters::log_name(raylet.pid, argv);
            for name in [own.as_str(), "gcs_server.out"] {
                self.files
                    .follow(raylet, &folder, name, cluster.log_utc_offset_s);
            }
        }
    }

    /// Follows a driver's log, or keeps a worker's open for its end. The log is taken from the
    /// session's folder, or else from where the process has it open.
    pub(super) fn hold(
        &mut self,
        process: ProcessKey,
        cluster: ProcessKey,
        log: &OwnLog,
        clusters: &Clusters,
    ) {
        let Some(name) = log.path.file_name().and_then(|name| name.to_str()) else {
            return;
        };
        let known = clusters.get(cluster);
        let session = known.and_then(|known| self.folders.of(cluster.truncated(), known));
        let there = session.filter(|folder| folder.file(name.as_ref()).is_some());
        let elsewhere = || Folder::of_open_file(process.pid, &log.path).map(Arc::new);
        let Some(folder) = there.or_else(elsewhere) else {
            return;
        };
        let offset = known.and_then(|known| known.log_utc_offset_s);
        if log.name.driver {
            self.files.follow(cluster, &folder, name, offset);
        } else {
            self.files.hold(process, cluster, &folder, name, offset);
        }
    }

    /// Returns the cluster of a driver that has this log open. Several raylets may name its folder.
    pub(super) fn cluster_of_driver(
        &mut self,
        log: &DriverLog,
        driver: Pid,
        clusters: &Clusters,
    ) -> Option<ProcessKey> {
        let (device, inode, owner) = log.folder.identity()?;
        let names_it = |(raylet, cluster): (ProcessKey, &Cluster)| {
            let folder = self.folders.of(raylet, cluster)?.identity()?;
            (folder.0 == device && folder.1 == inode).then_some(raylet)
        };
        let all: Vec<ProcessKey> = clusters.all().filter_map(names_it).collect();
        clusters.first_of_user(all, [processes::only_user(driver), Some(owner)])
    }

    /// Follows the log of a driver.
    pub(super) fn follow_driver(&mut self, log: &DriverLog, clusters: &Clusters) {
        if let Some(cluster) = clusters.get(log.cluster) {
            let offset = cluster.log_utc_offset_s;
            self.files
                .follow(log.cluster, &log.folder, &log.name, offset);
        }
    }

    /// Sets a new UTC offset for a cluster's logs.
    pub(super) fn set_offset(&mut self, cluster: ProcessKey, offset: Option<i32>) {
        self.files.set_offset(cluster, offset);
    }

    /// Forgets a cluster that is over.
    pub(super) fn forget(&mut self, cluster: ProcessKey) {
        self.folders.0.remove(&cluster);
        self.drivers.forget(cluster);
        self.files.forget(cluster);
    }

    /// Closes the logs of drivers that have been over for a while.
    pub(super) fn forget_drivers(&mut self, processes: &Processes) {
        let lives = |cluster, pid| processes.lives_in(cluster, pid);
        self.files.forget_drivers(SCANS_UNTIL_OVER, lives);
    }

    /// Reads the last lines that a dying worker wrote.
    pub(super) fn last_words(
        &mut self,
        process: ProcessKey,
        ns_pid: Option<Pid>,
        found: RayState<'_>,
        out: &mut Output,
    ) {
        if may_be_worker(process, found.processes, out) {
            self.hold_late(process, ns_pid, found.clusters, out);
        }
        let mut lines = Vec::new();
        self.files.last_words(process, &mut |line| lines.push(line));
        self.say(lines, out);
    }

    /// Opens the log of a worker that died before it was identified, by the pid in the names of its
    /// session's files.
    fn hold_late(
        &mut self,
        process: ProcessKey,
        ns_pid: Option<Pid>,
        clusters: &Clusters,
        out: &mut Output,
    ) {
        let ending = format!("_{}.log", ns_pid.unwrap_or(process.pid));
        let own = out.judge().cluster(process);
        let is_own = |raylet: ProcessKey| own.is_none_or(|own| own.same(raylet));
        let mut found = Vec::new();
        for (raylet, cluster) in clusters.all().filter(|(raylet, _)| is_own(*raylet)) {
            let Some(folder) = self.folders.of(raylet, cluster) else {
                continue;
            };
            let ending = ending.clone();
            let names = self.files.names(raylet, &folder, move |name| {
                name.starts_with("python-core-worker-") && name.ends_with(&ending)
            });
            let offset = cluster.log_utc_offset_s;
            found.extend(
                names
                    .into_iter()
                    .map(|name| (raylet, Arc::clone(&folder), name, offset)),
            );
        }
        // The pid may have been another worker's before. So the name must be unambiguous, and the
        // file one that this process can have made.
        if let [(raylet, folder, name, offset)] = found.as_slice()
            && folder
                .file(name.as_ref())
                .is_some_and(|log| made_by(log, process))
        {
            self.files.hold(process, *raylet, folder, name, *offset);
            if let Some(worker_id) = file_name::parse(name).and_then(|name| name.worker_id) {
                let from = name.clone();
                let worker = Worker {
                    process,
                    worker_id,
                    from,
                    ..Worker::default()
                };
                out.emit_now(Source::Proc, Observation::Worker(worker));
            }
        }
    }

    /// Reads what Ray wrote since the last call, if the queue has room for it.
    /// Returns whether it read anything.
    pub(super) fn read(&mut self, out: &mut Output) -> bool {
        let room = out.recording.room_for_log_records();
        let mut lines = Vec::new();
        let any = room > 0 && self.files.poll(room, &mut |line| lines.push(line));
        self.say(lines, out);
        any
    }

    /// Takes the thresholds that raylets' monitors logged since the last call.
    pub(super) fn take_thresholds(&mut self) -> HashMap<ProcessKey, Bytes> {
        std::mem::take(&mut self.thresholds)
    }

    /// Reads what the kernel wrote since the last call.
    pub(super) fn read_kmsg(&mut self, out: &mut Output) {
        if let Some(kmsg) = &mut self.kmsg {
            kmsg.poll(|time, line| out.emit(Source::Kmsg, time, Observation::Kmsg(line)));
        }
    }

    /// Reads the settings that frameworks print.
    pub(super) fn read_configurations(&mut self, out: &mut Output) {
        let mut lines = Vec::new();
        self.files.configurations(&mut |line| lines.push(line));
        self.say(lines, out);
    }

    fn say(&mut self, lines: Vec<Line>, out: &mut Output) {
        self.words += lines.len() as u64;
        for line in lines {
            if let (Source::RayLog, Some(raylet), RayFact::MonitorStarted { threshold, .. }) =
                (line.source, line.log.cluster, &line.log.fact)
            {
                self.thresholds.entry(raylet).or_insert(*threshold);
            }
            out.emit(line.source, line.time, Observation::RayLog(line.log));
        }
        out.drop_old_log_records();
    }

    /// Reads the rest of logs that were written faster than they were read, and counts what is left
    /// after that.
    pub(super) fn catch_up(&mut self, out: &mut Output) {
        let began = Instant::now();
        while self.files.is_behind() && began.elapsed() < CATCH_UP {
            let has_room = out.recording.room_for_log_records() > 0;
            // If there is room and nothing is read, the rest is over its cluster's budget.
            if !self.read(out) && has_room {
                break;
            }
            if !has_room {
                thread::sleep(A_BATCH);
            }
        }
        self.files.leave_out_unread();
    }

    /// Returns the number of kernel log records that were overwritten before they were read.
    pub(super) fn lost_of_kernel(&self) -> u64 {
        self.kmsg.as_ref().map_or(0, |kmsg| kmsg.lost)
    }

    /// Returns, for each cluster, what was over its budget: lines that were not read and files that
    /// were not opened, and drivers' logs that were not checked.
    pub(super) fn left_out(&self) -> Vec<(String, u64)> {
        let lines = self.files.left_out().iter();
        let lines = lines.map(|(raylet, count)| (format!("logs of raylet {}", raylet.pid), *count));
        let drivers = self.drivers.left_out.iter();
        let drivers = drivers
            .map(|(raylet, count)| (format!("drivers' logs of raylet {}", raylet.pid), *count));
        let mut rows: Vec<(String, u64)> = lines.chain(drivers).collect();
        rows.sort();
        rows
    }

    /// Returns the ledger of Ray's logs. `dropped` counts records that were dropped.
    pub(super) fn ledger(&self, out: &Output) -> Ledger {
        let dropped = out.recording.dropped_log_records();
        Ledger {
            hook: "ray logs".into(),
            seen: self.words,
            submitted: self.words,
            received: self.words,
            written: self.words.saturating_sub(dropped),
            dropped,
            ..Ledger::default()
        }
    }
}

/// Whether a process that ends may be a worker that was not identified.
fn may_be_worker(process: ProcessKey, processes: &Processes, out: &Output) -> bool {
    let known = processes.get(process.pid);
    let other = out.judge().role(process);
    other.is_none_or(|role| role == Role::Worker)
        && known.is_none_or(|known| !known.identified && known.role == Role::Worker)
}

/// Whether a process existed when the file was made.
fn made_by(log: File, process: ProcessKey) -> bool {
    let made = move || {
        let data = log.metadata().ok()?;
        data.created().or_else(|_| data.modified()).ok()
    };
    let Some(made) = timed_read::run_optional(process.pid, made) else {
        return false;
    };
    let age = made.elapsed().unwrap_or_default();
    let lived = clock::boot().since(process.start);
    // Starts of processes are counted in hundredths of a second.
    lived + 20_000_000 >= i64::try_from(age.as_nanos()).unwrap_or(i64::MAX)
}
