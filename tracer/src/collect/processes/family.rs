//! Finds the processes of a cluster: descendants of known ones, and parts that lost their parent.

use std::collections::{HashMap, HashSet};

use super::{ProcessTable, Processes, sweep::is_dead};
use crate::{
    collect::clusters::Clusters,
    event::Process,
    ids::{BootTime, Pid, ProcessKey},
    judge::Judge,
    observe::processes::{self, Stat},
    ray::identify,
};

/// Processes that were checked and are no part of Ray, with their start times.
#[derive(Default)]
pub(super) struct NonRayProcesses(HashMap<Pid, BootTime>);

impl NonRayProcesses {
    fn has(&self, pid: Pid, stat: &Stat) -> bool {
        self.0.get(&pid) == Some(&stat.start)
    }
}

impl Processes {
    /// Forgets these processes. They may be parts of a cluster that is new.
    pub(in crate::collect) fn forget_non_ray_processes(&mut self) {
        self.non_ray = NonRayProcesses::default();
    }

    /// Returns the processes in this table that belong to the clusters and are not known yet.
    pub(in crate::collect) fn new_family(
        &mut self,
        table: &ProcessTable,
        clusters: &Clusters,
        judge: &Judge,
    ) -> Vec<ProcessKey> {
        let own = Pid(std::process::id());
        let mut family: HashSet<Pid> = self.known.keys().copied().collect();
        family.extend(self.parts(table, clusters));
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
                // A process that was dead when the recorder started is no death of this recording.
                let stat = table.get(&pid).filter(|stat| !is_dead(stat))?;
                Some(ProcessKey {
                    pid,
                    start: stat.start,
                })
            })
            // A process that frees tens of gigabytes is in /proc for seconds after its end was
            // reported.
            .filter(|process| !judge.has_ended(*process))
            .collect()
    }

    /// Returns parts of the known clusters that are not children of known processes: `ray start`
    /// leaves the GCS, the dashboard and its helpers to init. Their command lines name the session
    /// or the GCS.
    fn parts(&mut self, table: &ProcessTable, clusters: &Clusters) -> Vec<Pid> {
        let is_new =
            |pid: &Pid, stat: &Stat| !self.known.contains_key(pid) && !self.non_ray.has(*pid, stat);
        let is_part = |pid: Pid, stat: &Stat| {
            let argv = processes::argv(pid);
            let process = ProcessKey {
                pid,
                start: stat.start,
            };
            identify::role(&stat.comm, &argv).is_some() && clusters.named(&argv, process).is_some()
        };
        let new = table.iter().filter(|(pid, stat)| is_new(pid, stat));
        let found = new.filter(|(pid, stat)| is_part(**pid, stat));
        let found = found.map(|(pid, _)| *pid).collect();
        let seen = table.iter().map(|(pid, stat)| (*pid, stat.start));
        self.non_ray = NonRayProcesses(seen.collect());
        found
    }

    /// Returns the cluster that a process belongs to: its parent's, or one of its user's that its
    /// command line names.
    pub(super) fn cluster_of(&self, process: &Process, clusters: &Clusters) -> Option<ProcessKey> {
        let of = |pid: Pid| self.get(pid).and_then(|known| known.process.cluster);
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
        clusters.named(&process.argv, process.process)
    }
}
