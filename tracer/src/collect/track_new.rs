//! Tracks what is found: raylets, their descendants and drivers are known to each part from then on.

use super::{
    Collector,
    logs::DriverLog,
    processes::{Known, Table, table},
};
use crate::{
    event::{Observation, Process, Role, Source},
    ids::Pid,
    observe::{
        clock, clusters,
        processes::{self, describe},
    },
    ray::identify,
};

impl Collector {
    /// New raylets, and all that belongs to the known ones.
    pub(super) fn scan_in(&mut self, table: &Table) {
        self.find_raylets(table);
        self.track_family(table);
        self.find_drivers();
    }

    /// Takes up the raylets that are new.
    pub(super) fn find_raylets(&mut self, table: &Table) {
        let named = table.iter().filter(|(_, stat)| stat.comm == "raylet");
        let called: Vec<Pid> = named.map(|(pid, _)| *pid).collect();
        self.clusters.keep_refused(&called);
        for pid in called {
            let known = self.processes.get(pid);
            let is_known = known.is_some_and(|known| known.role == Role::Raylet);
            if is_known || processes::key(pid).is_none_or(|key| self.clusters.is_refused(key)) {
                continue;
            }
            if let Some(process) = describe(pid)
                && clusters::is_raylet(&process.argv, process.parent)
            {
                self.found_raylet(process);
            }
        }
    }

    /// Takes up a raylet: its cluster, its logs, itself.
    fn found_raylet(&mut self, mut process: Process) {
        let Some(cluster) = self.clusters.add(&process) else {
            return;
        };
        tracing::info!(
            "following raylet {} of {:?}",
            cluster.raylet,
            cluster
                .session_dir
                .as_deref()
                .unwrap_or("no folder that is known")
        );
        self.processes.track(process.process);
        let found = Observation::Cluster(cluster.clone());
        self.out.emit_now(Source::Proc, found);
        self.gcs.ask(&process, &cluster);
        let pid = process.process.pid;
        process.cluster = Some(process.process.truncated());
        process.role = Role::Raylet;
        let known = Known {
            process,
            role: Role::Raylet,
            identified: true,
        };
        self.processes.track_known(known, &mut self.out);
        if cluster.raylet_ns_pid != pid {
            self.watch_init(pid);
        }
        self.logs.follow(&self.clusters, &self.processes);
        self.processes.forget_non_ray_processes();
    }

    /// The init of a raylet's container: with it the kernel ends all of them, so that its death is the cause of theirs.
    fn watch_init(&mut self, raylet: Pid) {
        let init = processes::in_namespace(raylet, Pid(1));
        if let Some(init) = init.filter(|init| self.processes.get(*init).is_none()) {
            self.watch_root(init);
        }
    }

    /// Has a process outside Ray tracked with all its descendants.
    pub(super) fn watch_root(&mut self, pid: Pid) {
        if let Some(process) = describe(pid) {
            let known = Known {
                process,
                role: Role::Descendant,
                identified: false,
            };
            self.processes.track_known(known, &mut self.out);
        }
    }

    /// Every descendant of what is tracked, and what of a session lost its parent: marked until nothing is new.
    pub(super) fn track_family(&mut self, first: &Table) {
        let mut again;
        let mut current = first;
        for _ in 0..4 {
            let judge = self.out.judge();
            let new = self.processes.new_family(current, &self.clusters, judge);
            if new.is_empty() {
                return;
            }
            for process in &new {
                self.processes.track(*process);
            }
            for process in new {
                self.identify(process.pid);
            }
            again = table();
            current = &again;
        }
    }

    /// Looks at every process whose turn it is.
    pub(super) fn identify_due(&mut self) {
        for look in self.processes.due_looks(clock::boot()) {
            if !self.identify(look.0.pid) {
                self.processes.look_later(look);
            }
        }
    }

    /// Describes a process and finds its worker id; true when nothing more is to be learnt.
    fn identify(&mut self, pid: Pid) -> bool {
        let Some(process) = describe(pid) else {
            return true;
        };
        let role = identify::role(&process.comm, &process.argv);
        if role == Some(Role::Raylet) {
            // Else it has not executed its own program yet.
            let is_one = clusters::is_raylet(&process.argv, process.parent);
            if is_one {
                self.found_raylet(process);
            }
            return is_one;
        }
        let key = process.process;
        let (clusters, out) = (&self.clusters, &mut self.out);
        let looked = self.processes.identify(process, role, clusters, out);
        if let Some(cluster) = looked.cluster {
            for log in &looked.logs {
                self.logs.hold(key, cluster, log, clusters);
            }
        }
        looked.done
    }

    /// Drivers connect without being anyone's child: they are known by the logs that they make.
    pub(super) fn find_drivers(&mut self) {
        let mut found = false;
        for log in self.logs.new_drivers(&self.clusters) {
            found |= self.look_at_log(&log);
        }
        if found {
            self.track_family(&table());
        }
    }

    /// Whether it is one of a driver that lives or has just ended.
    fn look_at_log(&mut self, log: &DriverLog) -> bool {
        let Some(file) = log.file() else {
            return false;
        };
        let is_its = log.driver.is_some_and(|pid| {
            self.is_known(pid) || log.is_open_in(pid, file) && self.found_driver(log, pid)
        });
        let is_wanted = is_its || log.is_fresh();
        if is_wanted {
            self.logs.follow_driver(log, &self.clusters);
        }
        is_wanted
    }

    fn is_known(&self, pid: Pid) -> bool {
        let known = self.processes.get(pid);
        known.is_some_and(|known| known.identified)
    }

    /// Tracks a driver, once; its log names the pid that it has in Ray's namespace. False where it is gone.
    fn found_driver(&mut self, log: &DriverLog, pid: Pid) -> bool {
        let Some(mut process) = describe(pid) else {
            return false;
        };
        let key = process.process;
        let cluster = self.logs.cluster_of_driver(log, pid, &self.clusters);
        let Some(cluster) = cluster else {
            return false;
        };
        process.cluster = Some(cluster);
        let known = Known {
            process,
            role: Role::Other,
            identified: false,
        };
        self.processes.track_known(known, &mut self.out);
        if !self.identify(pid) {
            self.processes.expect(key, clock::boot());
        }
        true
    }
}
