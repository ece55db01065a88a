//! Identifies a process while it lives, by its command line and the log files that it has open.

use std::path::PathBuf;

use super::{KnownProcess, Processes};
use crate::{
    budget::{Budgets, Most, Payer, Rate},
    collect::{clusters::Clusters, output::Output},
    event::{Observation, Process, Role, Source, Worker},
    ids::{BootTime, ProcessKey},
    judge::Judge,
    observe::{clusters, packages, processes},
    ray::log::{FileKind, file_name},
};

/// Times after its exec at which a process is identified. A worker opens its logs within a second.
const LOOKS_NS: [i64; 5] = [
    150_000_000,
    500_000_000,
    1_500_000_000,
    4_000_000_000,
    10_000_000_000,
];

/// How many processes are looked at. Each look costs about 70 µs, and a user may start thousands of
/// processes at once. Further looks come later.
const LOOKS: Most<Rate> = Most {
    cluster: Rate {
        each_second: 100,
        at_once: 2_000,
    },
    user: Rate {
        each_second: 100,
        at_once: 2_000,
    },
    whole: Rate {
        each_second: 200,
        at_once: 4_000,
    },
};

/// A process that is to be identified, the time of its exec, and how often this was tried.
pub(in crate::collect) type DueLook = (ProcessKey, BootTime, usize);

/// The processes that are to be identified.
pub(super) struct Identities {
    due: Vec<DueLook>,
    budgets: Budgets,
}

impl Default for Identities {
    fn default() -> Self {
        Self {
            due: Vec::new(),
            budgets: Budgets::new(LOOKS),
        }
    }
}

impl Identities {
    pub(super) fn expect(&mut self, process: ProcessKey, exec: BootTime) {
        self.forget(process);
        self.due.push((process, exec, 0));
    }

    /// Schedules another try for a process that is not identified, unless one is scheduled already.
    pub(super) fn expect_again(&mut self, process: ProcessKey, now: BootTime) {
        if !self.due.iter().any(|(known, ..)| known.same(process)) {
            self.due.push((process, now, 0));
        }
    }

    pub(super) fn forget(&mut self, process: ProcessKey) {
        self.due.retain(|(known, ..)| !known.same(process));
    }

    /// Takes the processes that are due, first those that were looked at least often, as far as
    /// the budgets of their payers allow.
    fn take(&mut self, now: BootTime, payer: impl Fn(ProcessKey) -> Payer) -> Vec<DueLook> {
        let ready =
            |look: &DueLook| now.since(look.1) >= LOOKS_NS.get(look.2).copied().unwrap_or(0);
        let mut ready: Vec<DueLook> = self.due.extract_if(.., |look| ready(look)).collect();
        if ready.is_empty() {
            return ready;
        }
        ready.sort_by_key(|(_, exec, looks)| (*looks, *exec));
        let payers: Vec<Payer> = ready.iter().map(|look| payer(look.0)).collect();
        let mut shares = (self.budgets).shares(payers.iter().copied(), u64::MAX, now);
        let mut payers = payers.into_iter();
        let mut may_look = || {
            let payer = payers.next()?;
            let share = shares.get_mut(&payer.cluster)?;
            *share = share.checked_sub(1)?;
            self.budgets.spend(payer, 1, now);
            Some(())
        };
        let taken = ready.extract_if(.., |_| may_look().is_some()).collect();
        self.due.append(&mut ready);
        taken
    }
}

/// A log file of its own that a process has open.
pub(in crate::collect) struct OwnLog {
    pub(in crate::collect) path: PathBuf,
    pub(in crate::collect) name: file_name::FileName,
}

/// The result of identifying a process.
#[derive(Default)]
pub(in crate::collect) struct Looked {
    /// Whether the process is fully identified.
    pub(in crate::collect) done: bool,
    /// The process's cluster, and the logs that are to be kept open from now on.
    pub(in crate::collect) cluster: Option<ProcessKey>,
    pub(in crate::collect) logs: Vec<OwnLog>,
}

impl Processes {
    /// Returns the processes that are due to be identified. `judge` knows whose they are.
    pub(in crate::collect) fn due_looks(&mut self, now: BootTime, judge: &Judge) -> Vec<DueLook> {
        self.identities.take(now, |process| {
            let user = judge.user(process);
            // Those of a user whose cluster is not known count as one.
            let none = || ProcessKey::new(0, user.map_or(0, |user| u64::from(user) + 1));
            let cluster = judge.cluster(process).unwrap_or_else(none);
            Payer { cluster, user }
        })
    }

    /// Schedules the next try for one of them.
    pub(in crate::collect) fn look_later(&mut self, (process, exec, looks): DueLook) {
        if looks + 1 < LOOKS_NS.len() {
            self.identities.due.push((process, exec, looks + 1));
        }
    }

    /// Records a process that is no raylet, and finds its worker id.
    pub(in crate::collect) fn identify(
        &mut self,
        mut process: Process,
        role: Option<Role>,
        clusters: &Clusters,
        out: &mut Output,
    ) -> Looked {
        let key = process.process;
        if process.argv.is_empty() && self.known_as(key).is_some() {
            // It is ending, or cannot be read now. What is known of it stays.
            return Looked::default();
        }
        process.cluster = self.cluster_of(&process, clusters);
        process.role = role.unwrap_or(Role::Other);
        if self
            .get(key.pid)
            .is_none_or(|known| known.process != process)
        {
            self.describe(&process, out);
        }
        let may_be_worker = matches!(process.role, Role::Worker | Role::Other | Role::Driver);
        let was_identified = self.get_as(key).is_some_and(|known| known.identified);
        let logs = if may_be_worker && !was_identified {
            own_logs(&process)
        } else {
            Vec::new()
        };
        let worker = worker_by(&logs, key);
        let identified = was_identified || worker.is_some();
        if let Some(worker) = worker {
            out.emit_now(Source::Proc, Observation::Worker(worker));
        }
        let role = if identified && process.role == Role::Other {
            Role::Driver
        } else {
            process.role
        };
        if identified && !was_identified && role == Role::Driver {
            let raylet = process.cluster.and_then(|raylet| self.known_as(raylet));
            emit_settings(&process, raylet, out);
        }
        let cluster = process.cluster;
        self.know(KnownProcess {
            process,
            role,
            identified,
        });
        Looked {
            done: identified || !may_be_worker,
            cluster,
            logs,
        }
    }
}

/// Returns the logs of Ray that a process has open and that are its own.
fn own_logs(process: &Process) -> Vec<OwnLog> {
    // A child inherits its worker's standard output, so the pid in the name must be its own.
    let own = process.ns_pid.unwrap_or(process.process.pid);
    let open = processes::open_logs(process.process.pid).into_iter();
    open.filter_map(|path| {
        let name = file_name::parse(path.file_name()?.to_str()?)?;
        (name.pid == Some(own)).then_some(OwnLog { path, name })
    })
    .collect()
}

/// Returns the worker that a process is, by its logs.
fn worker_by(logs: &[OwnLog], process: ProcessKey) -> Option<Worker> {
    let is_its = |log: &&OwnLog| log.name.kind == FileKind::CoreWorker;
    let log = logs.iter().rfind(is_its)?;
    Some(Worker {
        process,
        worker_id: log.name.worker_id.clone()?,
        job_id: log.name.job_id.clone(),
        actor_class: None,
        driver: log.name.driver,
        from: log.path.to_string_lossy().into_owned(),
    })
}

/// Records the settings and packages of a driver, once it is identified as one.
fn emit_settings(driver: &Process, raylet: Option<&Process>, out: &mut Output) {
    let process = driver.process;
    let settings = clusters::settings(process.pid);
    let packages = raylet.map_or_else(Vec::new, |raylet| packages::of_driver(driver, raylet));
    if !settings.is_empty() || !packages.is_empty() {
        let what = Observation::DriverSettings {
            process,
            settings,
            packages,
        };
        out.emit_now(Source::Proc, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payer(process: ProcessKey) -> Payer {
        let user = u32::from(process.pid.0 >= 10_000);
        Payer {
            cluster: ProcessKey::new(user, 0),
            user: Some(user),
        }
    }

    /// A user's thousands of processes are looked at later, and another user's at once.
    #[test]
    fn many_processes_are_looked_at_within_a_budget() {
        let mut identities = Identities::default();
        let at = |ms: u64| BootTime(1_000_000_000 + ms * 1_000_000);
        for pid in 1..=3_000 {
            identities.expect(ProcessKey::new(pid, 0), at(0));
        }
        let first = identities.take(at(150), payer);
        assert_eq!(first.len(), 2_000);
        identities.expect(ProcessKey::new(10_000, 0), at(0));
        let second = identities.take(at(150), payer);
        let pids: Vec<u32> = second.iter().map(|(process, ..)| process.pid.0).collect();
        assert_eq!(pids, [10_000]);
        // A second look at the first ones waits until each was looked at once.
        for (process, exec, looks) in first {
            identities.due.push((process, exec, looks + 1));
        }
        let looks = (1..=150).flat_map(|tenth| identities.take(at(150 + tenth * 100), payer));
        let looks: Vec<usize> = looks.map(|(.., looks)| looks).collect();
        assert!((1_490..=1_500).contains(&looks.len()), "{}", looks.len());
        assert!(looks.is_sorted(), "{looks:?}");
        assert_eq!(looks.iter().filter(|looks| **looks == 0).count(), 1_000);
    }
}
