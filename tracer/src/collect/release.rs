//! Releases folders, logs and state of clusters and drivers that have ended.
//!
//! A node of days sees many of them, and a file that is held keeps its file system from being taken away.

use std::collections::HashSet;

use super::Collector;
use crate::ids::{Pid, ProcessKey};

/// Looks, ten seconds apart, at which nothing of it was alive: last lines are written and causes asked for until then.
const ROUNDS: u32 = 15;

impl Collector {
    /// Called with each look at the whole machine.
    pub fn release(&mut self) {
        let processes = self.known.values().map(|known| &known.process);
        let alive: HashSet<ProcessKey> = processes.filter_map(|process| process.cluster).collect();
        self.ended_clusters.retain(|key, _| !alive.contains(key));
        for key in self.clusters.keys().filter(|key| !alive.contains(key)) {
            *self.ended_clusters.entry(*key).or_default() += 1;
        }
        let over: Vec<ProcessKey> = self
            .ended_clusters
            .extract_if(|_, rounds| *rounds >= ROUNDS)
            .map(|(key, _)| key)
            .collect();
        for key in over {
            self.clusters.remove(&key);
            self.folders.remove(&key);
            self.owners.remove(&key);
            self.drivers.forget(key);
            self.surroundings.forget(key);
            self.logs.forget(key);
        }
        let known = &self.known;
        let lives = |cluster: ProcessKey, pid: Pid| {
            known.values().any(|known| {
                let own = &known.process;
                own.cluster == Some(cluster) && own.ns_pid.unwrap_or(own.process.pid) == pid
            })
        };
        self.logs.forget_drivers(ROUNDS, lives);
    }
}
