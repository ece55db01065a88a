//! What bears on tracked processes from around them: their memory cgroups, `/dev/shm`, what drivers have set for Ray.

use std::collections::{BTreeSet, HashMap};

use super::{
    Collector,
    samples::{AT_LEAST_NS, moved},
};
use crate::{
    event::{CgroupState, Observation, SharedMemory, Source},
    ids::{BootTime, ProcessKey},
    observe::{cgroups::Hierarchy, clock, clusters, sessions},
};

/// The last row of each, and the hierarchy.
pub(super) struct Surroundings {
    hierarchy: Option<Hierarchy>,
    cgroups: HashMap<String, (BootTime, CgroupState)>,
    shared_memory: HashMap<ProcessKey, (BootTime, SharedMemory)>,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self {
            hierarchy: Hierarchy::find(),
            cgroups: HashMap::new(),
            shared_memory: HashMap::new(),
        }
    }
}

impl Collector {
    /// Reads them; a row only when something moved.
    pub(super) fn look_around(&mut self) {
        self.sample_cgroups();
        self.sample_shared_memory();
    }

    /// The cgroup of each tracked process, and what of those above it has a limit.
    fn sample_cgroups(&mut self) {
        let Some(hierarchy) = &self.surroundings.hierarchy else {
            return;
        };
        let known = self.known.values();
        let paths: BTreeSet<&str> = known
            .filter_map(|known| known.process.cgroup.as_deref())
            .collect();
        let mut states: HashMap<String, CgroupState> = HashMap::new();
        for path in paths {
            let levels = hierarchy.on_path(path).into_iter().map(|level| level.state);
            let kept = levels.filter(|state| state.limit.is_some() || state.path == path);
            states.extend(kept.map(|state| (state.path.clone(), state)));
        }
        let now = clock::boot();
        for (path, state) in states {
            let last = self.surroundings.cgroups.get(&path);
            let row = last.is_none_or(|(since, last)| {
                now.since(*since) >= AT_LEAST_NS
                    || last.oom_kills != state.oom_kills
                    || last.limit != state.limit
                    || moved(Some(last.usage), Some(state.usage))
            });
            if row {
                self.surroundings.cgroups.insert(path, (now, state.clone()));
                self.emit(Source::Cgroup, now, Observation::Cgroup(state));
            }
        }
    }

    fn sample_shared_memory(&mut self) {
        let now = clock::boot();
        let raylets: Vec<ProcessKey> = self
            .clusters
            .values()
            .map(|cluster| cluster.raylet)
            .collect();
        for raylet in raylets {
            let path = sessions::seen_by(raylet.pid, "/dev/shm");
            let Some((free, total)) = sessions::space(&path) else {
                continue;
            };
            let used = crate::ids::Bytes(total.0.saturating_sub(free.0));
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
