//! Tracks raylets, their descendants and drivers once they are found, and tells each part of them.

use super::{
    Collector,
    logs::DriverLog,
    processes::{KnownProcess, ProcessTable, read_process_table},
};
use crate::{
    event::{Observation, Process, Role, Source},
    ids::Pid,
    observe::{
        clock, clusters,
        processes::{self, describe},
        slurm,
    },
    ray::identify,
};

impl Collector {
    /// Finds new raylets and all processes of the known clusters.
    pub(super) fn scan_in(&mut self, table: &ProcessTable) {
        self.find_raylets(table);
        self.track_family(table);
        self.find_drivers();
    }

    /// Begins to follow new raylets.
    pub(super) fn find_raylets(&mut self, table: &ProcessTable) {
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

    /// Begins to follow a raylet: its cluster, its logs and itself.
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
        slurm::look_at_environment(&mut process);
        let found = Observation::Cluster(cluster.clone());
        self.out.emit_now(Source::Proc, found);
        self.gcs.ask(&process, &cluster);
        let pid = process.process.pid;
        process.cluster = Some(process.process.truncated());
        process.role = Role::Raylet;
        let known = KnownProcess {
            process,
            role: Role::Raylet,
            identified: true,
        };
        self.processes.track_known(known, &mut self.out);
        if cluster.raylet_ns_pid != pid {
            self.watch_init(pid);
        }
        self.watch_step(pid);
        self.identify_earlier_parts();
        self.logs.follow(&self.clusters, &self.processes);
        self.processes.forget_non_ray_processes();
    }

    /// Identifies parts of Ray again that were found before the raylet of their cluster, such as
    /// the GCS, which starts first.
    fn identify_earlier_parts(&mut self) {
        let is_early = |known: &&KnownProcess| {
            let rays = matches!(known.role, Role::Gcs | Role::Dashboard | Role::Agent);
            rays && known.process.cluster.is_none()
        };
        let early = self.processes.all().filter(is_early);
        let early: Vec<Pid> = early.map(|known| known.process.process.pid).collect();
        for pid in early {
            self.identify(pid);
        }
    }

    /// Tracks the init of a raylet's container. When it dies, the kernel ends all processes of the
    /// container, so its death is the cause of theirs.
    fn watch_init(&mut self, raylet: Pid) {
        let init = processes::in_namespace(raylet, Pid(1));
        if let Some(init) = init.filter(|init| self.processes.get(*init).is_none()) {
            self.watch_root(init);
        }
    }

    /// Tracks the tasks of the Slurm step that a process runs in. Slurm asks only them to end, and
    /// ends the rest of the step when they have ended.
    fn watch_step(&mut self, of: Pid) {
        for task in slurm::tasks(of) {
            if self.processes.get(task).is_some() {
                continue;
            }
            if let Some(mut process) = describe(task) {
                process.role = Role::Descendant;
                slurm::look_at_environment(&mut process);
                let known = KnownProcess {
                    process,
                    role: Role::Descendant,
                    identified: false,
                };
                self.processes.track_known(known, &mut self.out);
            }
        }
    }

    /// Tracks a process outside Ray with all its descendants.
    pub(super) fn watch_root(&mut self, pid: Pid) {
        if let Some(process) = describe(pid) {
            let known = KnownProcess {
                process,
                role: Role::Descendant,
                identified: false,
            };
            self.processes.track_known(known, &mut self.out);
        }
    }

    /// Tracks every descendant of a tracked process, and the parts of a session that lost their
    /// parent. Repeats this until nothing new is found.
    pub(super) fn track_family(&mut self, first: &ProcessTable) {
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
            again = read_process_table();
            current = &again;
        }
    }

    /// Identifies every process that is due.
    pub(super) fn identify_due(&mut self) {
        let due = self.processes.due_looks(clock::boot(), self.out.judge());
        for look in due {
            if !self.identify(look.0.pid) {
                self.processes.look_later(look);
            }
        }
    }

    /// Describes a process and finds its worker id. Returns true when the process is fully
    /// identified.
    fn identify(&mut self, pid: Pid) -> bool {
        let Some(process) = describe(pid) else {
            return true;
        };
        let role = identify::role(&process.comm, &process.argv);
        if role == Some(Role::Raylet) {
            // If it is not, it has not executed its own program yet.
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

    /// Finds drivers by the logs that they make. A driver connects without being a child of a known
    /// process.
    pub(super) fn find_drivers(&mut self) {
        let mut found = false;
        for log in self.logs.new_drivers(&self.clusters) {
            found |= self.look_at_log(&log);
        }
        if found {
            self.track_family(&read_process_table());
        }
    }

    /// Follows a log if its driver is alive or has just ended. Returns whether it does.
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

    /// Tracks a driver, once. Its log names the pid that it has in Ray's namespace. Returns false
    /// if the driver is gone or its cluster is not known.
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
        slurm::look_at_environment(&mut process);
        let known = KnownProcess {
            process,
            role: Role::Other,
            identified: false,
        };
        self.processes.track_known(known, &mut self.out);
        self.watch_step(pid);
        if !self.identify(pid) {
            self.processes.expect(key, clock::boot());
        }
        true
    }
}
