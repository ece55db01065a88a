//! What bears on tracked processes from around them: their memory cgroups, `/dev/shm`, what drivers have set for Ray.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::Path,
};

use super::{
    Collector, Known,
    margins::{Counts, Limit},
    samples::{AT_LEAST_NS, moved},
};
use crate::{
    event::{CgroupState, Cluster, NodeMemory, Observation, SharedMemory, Source},
    ids::{BootTime, Bytes, ProcessKey},
    observe::{
        cgroups::{self, Hierarchy},
        clock, clusters, sessions,
    },
    ray::{
        memory_monitor::{self, Config},
        version::Version,
    },
};

/// The last row of each, and the hierarchy.
pub(super) struct Surroundings {
    hierarchy: Option<Hierarchy>,
    /// The cgroups that tracked processes are in, as of the last second.
    paths: BTreeSet<String>,
    cgroups: HashMap<String, (BootTime, CgroupState)>,
    shared_memory: HashMap<ProcessKey, (BootTime, SharedMemory)>,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self {
            hierarchy: Hierarchy::find(),
            paths: BTreeSet::new(),
            cgroups: HashMap::new(),
            shared_memory: HashMap::new(),
        }
    }
}

impl Surroundings {
    fn find_paths<'a>(&mut self, known: impl Iterator<Item = &'a Known>) {
        let paths: BTreeSet<&str> = known
            .filter_map(|known| known.process.cgroup.as_deref())
            .collect();
        self.paths = paths.into_iter().map(str::to_owned).collect();
    }

    /// A raylet is gone for good.
    pub(super) fn forget(&mut self, raylet: ProcessKey) {
        self.shared_memory.retain(|known, _| !known.same(raylet));
    }
}

impl Collector {
    /// The cgroup of each tracked process, and what of those above it has a limit. Which cgroups these are is found out where it is the `turn`.
    pub(super) fn read_cgroups(&mut self, turn: bool) -> Vec<CgroupState> {
        if turn {
            self.surroundings.find_paths(self.known.values());
        }
        let Some(hierarchy) = &self.surroundings.hierarchy else {
            return Vec::new();
        };
        let paths = self.surroundings.paths.iter().map(String::as_str);
        let mut levels: HashMap<String, CgroupState> = HashMap::new();
        for path in paths {
            let found = hierarchy.on_path(path).into_iter();
            let kept = found.filter(|level| level.limit.is_some() || level.path == path);
            levels.extend(kept.map(|level| (level.path.clone(), level)));
        }
        levels.into_values().collect()
    }

    /// Everything that kills when it is full: the machine, the cgroups, and what each raylet's monitor counts.
    pub(super) fn limits(&self, node: &NodeMemory, cgroups: &[CgroupState]) -> Vec<Limit> {
        let mut limits = vec![Limit {
            name: "machine".into(),
            used: node.used(),
            limit: node.total,
            counts: Counts::Machine,
            raylet: None,
        }];
        limits.extend(cgroups.iter().filter_map(|level| {
            Some(Limit {
                name: level.path.clone(),
                used: level.needed(),
                limit: level.limit?,
                counts: Counts::Cgroup(level.path.clone()),
                raylet: None,
            })
        }));
        let lives = |cluster: &&Cluster| self.known_as(cluster.raylet).is_some();
        for cluster in self.clusters.values().filter(lives) {
            let monitor = Config::of(&cluster.settings);
            if monitor.refresh_ms == 0 {
                continue;
            }
            let version = cluster.ray_version.as_deref().and_then(Version::parse);
            let root = cgroups::root_of(cluster.raylet.pid);
            let count = memory_monitor::count(node, root.as_ref(), version);
            limits.push(Limit {
                name: format!("raylet {}", cluster.raylet.pid),
                used: count.used,
                limit: monitor.threshold(count.total),
                counts: self.counted_by(cluster.raylet, count.total, node, cgroups),
                raylet: Some(cluster.raylet),
            });
        }
        limits
    }

    /// Whose memory a raylet's monitor counts, which takes `total` for all there is: that of the cgroup on its path with this limit.
    fn counted_by(
        &self,
        raylet: ProcessKey,
        total: Bytes,
        node: &NodeMemory,
        cgroups: &[CgroupState],
    ) -> Counts {
        let known = self.known.get(&raylet.pid);
        let own = known.and_then(|known| known.process.cgroup.as_deref());
        let Some(own) = own.filter(|_| total != node.total) else {
            return Counts::Machine;
        };
        let on_path = |level: &&CgroupState| Path::new(own).starts_with(&level.path);
        let mut levels = cgroups.iter().filter(on_path);
        let level = levels.find(|level| level.limit == Some(total));
        Counts::Cgroup(level.map_or(own, |level| &level.path).to_owned())
    }

    /// A row for each cgroup of which something moved.
    pub(super) fn sample_cgroups(&mut self, now: BootTime, levels: Vec<CgroupState>) {
        let there: HashSet<&str> = levels.iter().map(|level| level.path.as_str()).collect();
        let known = &mut self.surroundings.cgroups;
        known.retain(|path, _| there.contains(path.as_str()));
        for state in levels {
            let last = self.surroundings.cgroups.get(&state.path);
            let row = last.is_none_or(|(since, last)| {
                now.since(*since) >= AT_LEAST_NS
                    || last.oom_kills != state.oom_kills
                    || last.limit != state.limit
                    || moved(Some(last.usage), Some(state.usage))
                    || moved(last.anon, state.anon)
                    || moved(last.shmem, state.shmem)
                    || moved(last.swap, state.swap)
            });
            if row {
                let path = state.path.clone();
                self.surroundings.cgroups.insert(path, (now, state.clone()));
                self.emit(Source::Cgroup, now, Observation::Cgroup(state));
            }
        }
    }

    pub(super) fn sample_shared_memory(&mut self, now: BootTime) {
        let raylets = self.clusters.values().map(|cluster| cluster.raylet);
        // The pid of one that is gone may be another's by now.
        let raylets: Vec<ProcessKey> = raylets
            .filter(|raylet| self.known_as(*raylet).is_some())
            .collect();
        for raylet in raylets {
            let Some((free, total)) = sessions::space_seen_by(raylet.pid, "/dev/shm") else {
                continue;
            };
            let used = Bytes(total.0.saturating_sub(free.0));
            let last = self.surroundings.shared_memory.get(&raylet);
            let row = last.is_none_or(|(since, last)| {
                now.since(*since) >= AT_LEAST_NS || moved(Some(last.used), Some(used))
            });
            if row {
                let state = SharedMemory {
                    raylet,
                    total,
                    used,
                };
                self.surroundings
                    .shared_memory
                    .insert(raylet, (now, state.clone()));
                self.emit(Source::Proc, now, Observation::SharedMemory(state));
            }
        }
    }

    /// The `RAY_*` variables of a driver, once it is known as one.
    pub(super) fn driver_settings(&mut self, process: ProcessKey) {
        let settings = clusters::settings(process.pid);
        if !settings.is_empty() {
            let what = Observation::DriverSettings { process, settings };
            self.emit(Source::Proc, clock::boot(), what);
        }
    }
}
