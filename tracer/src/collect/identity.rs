//! Who a process is, found out while it lives: by its command line, and by the log files that it holds open.

use std::{fs::File, path::Path, sync::Arc};

use super::{Collector, Known, discover::held};
use crate::{
    event::{Observation, Process, Role, Source, Worker},
    ids::{BootTime, Pid, ProcessKey},
    observe::{clock, clusters, processes, rooted::Folder, stall},
    ray::{identify, log::file_name},
};

/// After exec a worker opens its logs within a second; /proc is asked then, and a few times more.
const LOOKS_NS: [i64; 5] = [
    150_000_000,
    500_000_000,
    1_500_000_000,
    4_000_000_000,
    10_000_000_000,
];

/// Processes that are to be looked at, with the time of their exec and how often they were.
#[derive(Default)]
pub(super) struct Identities {
    due: Vec<(ProcessKey, BootTime, usize)>,
}

impl Identities {
    pub(super) fn expect(&mut self, process: ProcessKey, exec: BootTime) {
        self.forget(process);
        self.due.push((process, exec, 0));
    }

    /// Looks once more at one that is not known for sure, unless that is due.
    pub(super) fn expect_again(&mut self, process: ProcessKey, now: BootTime) {
        if !self.due.iter().any(|(known, ..)| known.same(process)) {
            self.due.push((process, now, 0));
        }
    }

    pub(super) fn forget(&mut self, process: ProcessKey) {
        self.due.retain(|(known, ..)| !known.same(process));
    }

    fn take(&mut self, now: BootTime) -> Vec<(ProcessKey, BootTime, usize)> {
        let ready = |look: &(ProcessKey, BootTime, usize)| {
            now.since(look.1) >= LOOKS_NS.get(look.2).copied().unwrap_or(0)
        };
        self.due.extract_if(.., |look| ready(look)).collect()
    }
}

impl Collector {
    /// Looks at every process whose turn it is.
    pub(super) fn identify_due(&mut self) {
        for (process, exec, looks) in self.identities.take(clock::boot()) {
            let done = self.identify(process.pid);
            if !done && looks + 1 < LOOKS_NS.len() {
                self.identities.due.push((process, exec, looks + 1));
            }
        }
    }

    /// Keeps what is known of a process, which is sampled from now on.
    pub(super) fn know(&mut self, known: Known) {
        let process = known.process.process;
        let before = self.known.insert(process.pid, known);
        if before.is_some_and(|before| before.process.process.same(process)) {
            return;
        }
        // Of an earlier one with its pid.
        self.samples.forget(process.pid);
        self.samples.begin(process);
    }

    /// Describes a process and finds its worker id; true when nothing more is to be learnt.
    pub(super) fn identify(&mut self, pid: Pid) -> bool {
        let Some(mut process) = processes::describe(pid) else {
            return true;
        };
        let role = identify::role(&process.comm, &process.argv);
        if role == Some(Role::Raylet) {
            // Else it has not executed its own program yet.
            let is_one = clusters::is_raylet(&process.argv, process.parent);
            if is_one {
                self.found_raylet(&process);
            }
            return is_one;
        }
        let known = self.known_as(process.process);
        if process.argv.is_empty() && known.is_some() {
            // It is ending, or cannot be read now: what is known of it stays.
            return false;
        }
        process.cluster = self.cluster_of(&process);
        process.role = role.unwrap_or(Role::Other);
        let key = process.process;
        let changed = self
            .known
            .get(&pid)
            .is_none_or(|known| known.process != process);
        if changed {
            self.emit(
                Source::Proc,
                clock::boot(),
                Observation::Process(process.clone()),
            );
        }
        let may_be_worker = matches!(process.role, Role::Worker | Role::Other | Role::Driver);
        let identified = self
            .known
            .get(&pid)
            .is_some_and(|known| known.process.process.same(key) && known.identified)
            || (may_be_worker && self.find_worker(&process));
        let role = if identified && process.role == Role::Other {
            Role::Driver
        } else {
            process.role
        };
        let done = identified || !may_be_worker;
        let news = self.known.get(&pid).is_none_or(|known| !known.identified);
        if identified && news && role == Role::Driver {
            self.driver_settings(key);
        }
        self.know(Known {
            process,
            role,
            identified,
        });
        done
    }

    /// The worker that a process is, by the logs that it holds open, which are held from now on.
    fn find_worker(&mut self, process: &Process) -> bool {
        let mut found = None;
        for path in processes::open_logs(process.process.pid) {
            let Some(name) = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(file_name::parse)
            else {
                continue;
            };
            // A child inherits its worker's standard output: the pid in the name must be its own.
            let own = process.ns_pid.unwrap_or(process.process.pid);
            if name.pid != Some(own) {
                continue;
            }
            if let Some(cluster) = process.cluster {
                self.open_log(process, cluster, &path, name.driver);
            }
            if name.kind == crate::ray::log::FileKind::CoreWorker {
                found = name.worker_id.map(|worker_id| Worker {
                    process: process.process,
                    worker_id,
                    job_id: name.job_id,
                    actor_class: None,
                    driver: name.driver,
                    from: path.to_string_lossy().into_owned(),
                });
            }
        }
        let identified = found.is_some();
        if let Some(worker) = found {
            self.emit(Source::Proc, clock::boot(), Observation::Worker(worker));
        }
        identified
    }

    /// Follows a driver's log, or holds a worker's for its end: in the session's folder, else where the process has it.
    fn open_log(&mut self, process: &Process, cluster: ProcessKey, path: &Path, driver: bool) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return;
        };
        let known = self.clusters.get(&cluster.truncated());
        let session = known.and_then(|known| held(&mut self.folders, cluster.truncated(), known));
        let there = session.filter(|folder| folder.file(name.as_ref()).is_some());
        let elsewhere = || Folder::of_open_file(process.process.pid, path).map(Arc::new);
        let Some(folder) = there.or_else(elsewhere) else {
            return;
        };
        let offset = known.and_then(|known| known.log_utc_offset_s);
        if driver {
            self.logs.follow(cluster, &folder, name, offset);
        } else {
            self.logs
                .hold(process.process, cluster, &folder, name, offset);
        }
    }

    /// Opens the log of a worker that died before anyone looked: by the pid in the names of its session's files.
    pub(super) fn hold_late(&mut self, process: ProcessKey, ns_pid: Option<Pid>) {
        let known = self.known.get(&process.pid);
        let other = self
            .judge
            .role(process)
            .is_some_and(|role| role != Role::Worker);
        if other || known.is_some_and(|known| known.identified || known.role != Role::Worker) {
            return;
        }
        let ending = format!("_{}.log", ns_pid.unwrap_or(process.pid));
        let own = self.judge.cluster(process);
        let is_own = |raylet: &ProcessKey| own.is_none_or(|own| own.same(*raylet));
        let mut found = Vec::new();
        for (raylet, cluster) in self.clusters.iter().filter(|(raylet, _)| is_own(raylet)) {
            let Some(folder) = held(&mut self.folders, *raylet, cluster) else {
                continue;
            };
            let ours =
                |name: &String| name.starts_with("python-core-worker-") && name.ends_with(&ending);
            let names = folder.names().into_iter().filter(ours);
            let offset = cluster.log_utc_offset_s;
            found.extend(names.map(|name| (*raylet, Arc::clone(&folder), name, offset)));
        }
        // The pid may have been another worker's before: only an unambiguous name counts, of a file that it can have made.
        if let [(raylet, folder, name, offset)] = found.as_slice()
            && folder
                .file(name.as_ref())
                .is_some_and(|log| made_by(log, process))
        {
            self.logs.hold(process, *raylet, folder, name, *offset);
            if let Some(worker_id) = file_name::parse(name).and_then(|name| name.worker_id) {
                let from = name.clone();
                let worker = Worker {
                    process,
                    worker_id,
                    job_id: None,
                    actor_class: None,
                    driver: false,
                    from,
                };
                self.emit(Source::Proc, clock::boot(), Observation::Worker(worker));
            }
        }
    }
}

/// Whether a process was there when the file was made.
fn made_by(log: File, process: ProcessKey) -> bool {
    let made = move || {
        let data = log.metadata().ok()?;
        data.created().or_else(|_| data.modified()).ok()
    };
    let Some(made) = stall::ask_for(process.pid, made) else {
        return false;
    };
    let age = made.elapsed().unwrap_or_default();
    let lived = clock::boot().since(process.start);
    // Starts are counted in hundredths of a second.
    lived + 20_000_000 >= i64::try_from(age.as_nanos()).unwrap_or(i64::MAX)
}
