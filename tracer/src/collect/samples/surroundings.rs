//! Samples what surrounds tracked processes: their memory cgroups, `/dev/shm`, and all limits.
//!
//! A limit is anything that causes a kill when it is full.

use std::collections::{BTreeSet, HashSet};

use super::{
    margins::Limit,
    rows::{Rows, moved},
};
use crate::{
    cgroup_path::is_below,
    collect::{
        output::Output,
        processes::{Processes, RayState},
    },
    event::{CgroupState, Cluster, NodeMemory, Observation, SharedMemory, Source},
    ids::{BootTime, Bytes, ProcessKey},
    observe::{
        cgroups::{self, Hierarchy},
        sessions,
    },
    ray::{
        memory_monitor::{self, Config, Count},
        version::Version,
    },
};

/// The last row of each, and the cgroup hierarchy.
pub(super) struct Surroundings {
    hierarchy: Option<Hierarchy>,
    /// The cgroups that tracked processes are in, as of the last second.
    paths: BTreeSet<String>,
    cgroups: Rows<String, CgroupState>,
    shared_memory: Rows<ProcessKey, SharedMemory>,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self {
            hierarchy: Hierarchy::find(),
            paths: BTreeSet::new(),
            cgroups: Rows::default(),
            shared_memory: Rows::default(),
        }
    }
}

impl Surroundings {
    /// Returns the cgroup of each tracked process, and those of its parents that have a limit. At a
    /// `turn` it finds out again which cgroups these are.
    pub(super) fn read_cgroups(&mut self, turn: bool, processes: &Processes) -> Vec<CgroupState> {
        if turn {
            let all = processes.all();
            let paths = all.filter_map(|known| known.process.cgroup.as_deref());
            let paths: BTreeSet<&str> = paths.collect();
            self.paths = paths.into_iter().map(str::to_owned).collect();
        }
        let paths = self.paths.iter().map(String::as_str);
        let hierarchy = self.hierarchy.as_ref();
        hierarchy.map_or_else(Vec::new, |hierarchy| hierarchy.levels_with_limits(paths))
    }

    /// Writes a row for each cgroup with a figure that changed.
    pub(super) fn sample_cgroups(
        &mut self,
        now: BootTime,
        levels: Vec<CgroupState>,
        out: &mut Output,
    ) {
        let there: HashSet<&str> = levels.iter().map(|level| level.path.as_str()).collect();
        self.cgroups.retain(|path| there.contains(path.as_str()));
        for state in levels {
            let path = state.path.clone();
            let row = self.cgroups.next(now, path, state, |last, state| {
                last.oom_kills != state.oom_kills
                    || last.limit != state.limit
                    || moved(Some(last.usage), Some(state.usage))
                    || moved(last.anon, state.anon)
                    || moved(last.shmem, state.shmem)
                    || moved(last.swap, state.swap)
            });
            if let Some(state) = row {
                out.emit(Source::Cgroup, now, Observation::Cgroup(state));
            }
        }
    }

    /// Samples `/dev/shm` as each live raylet sees it. The pid of a raylet that is gone may be
    /// another process's by now.
    pub(super) fn sample_shared_memory(
        &mut self,
        now: BootTime,
        found: RayState<'_>,
        out: &mut Output,
    ) {
        for cluster in live(found) {
            let raylet = cluster.raylet;
            let Some((free, total)) = sessions::space_seen_by(raylet.pid, "/dev/shm") else {
                continue;
            };
            let used = Bytes(total.0.saturating_sub(free.0));
            let state = SharedMemory {
                raylet,
                total,
                used,
            };
            let is_news = |last: &SharedMemory, state: &SharedMemory| {
                moved(Some(last.used), Some(state.used))
            };
            if let Some(state) = self.shared_memory.next(now, raylet, state, is_news) {
                out.emit(Source::Proc, now, Observation::SharedMemory(state));
            }
        }
    }

    /// Forgets a raylet that is gone for good.
    pub(super) fn forget(&mut self, raylet: ProcessKey) {
        self.shared_memory.retain(|known| !known.same(raylet));
    }
}

/// Returns the clusters with a live raylet.
fn live(found: RayState<'_>) -> impl Iterator<Item = &Cluster> {
    let all = found.clusters.all().map(|(_, cluster)| cluster);
    all.filter(move |cluster| found.processes.known_as(cluster.raylet).is_some())
}

/// Returns all limits: the machine, the cgroups, and what each raylet's monitor counts.
pub(super) fn limits(
    node: &NodeMemory,
    cgroups: &[CgroupState],
    found: RayState<'_>,
) -> Vec<Limit> {
    let mut limits = vec![Limit {
        name: "machine".into(),
        used: node.used(),
        limit: node.total,
        ..Limit::default()
    }];
    limits.extend(cgroups.iter().filter_map(|level| {
        Some(Limit {
            name: level.path.clone(),
            used: level.needed(),
            limit: level.limit?,
            counts: Some(level.path.clone()),
            ..Limit::default()
        })
    }));
    for cluster in live(found) {
        let monitor = Config::of(&cluster.settings);
        if monitor.refresh_ms == 0 {
            continue;
        }
        let raylet = cluster.raylet;
        let version = cluster.ray_version.as_deref().and_then(Version::parse);
        let root = cgroups::root_of(raylet.pid);
        let machine = Count::of_machine(node.used(), node.total);
        let count = memory_monitor::count(machine, root.as_ref(), version);
        let own = found.processes.known_as(raylet);
        let own = own.and_then(|raylet| raylet.cgroup.as_deref());
        let own = own.filter(|_| count.total != node.total);
        limits.push(Limit {
            name: format!("raylet {}", raylet.pid),
            used: count.used,
            limit: monitor.threshold(count.total),
            logged: found.clusters.logged_threshold(raylet),
            counts: own.map(|own| counted_by(own, count.total, cgroups)),
            raylet: Some(raylet),
        });
    }
    limits
}

/// Returns the cgroup whose memory a raylet in this cgroup counts, if it takes `total` for all
/// memory that there is: the one on its path with this limit.
fn counted_by(own: &str, total: Bytes, cgroups: &[CgroupState]) -> String {
    let on_path = |level: &&CgroupState| is_below(own, &level.path);
    let mut levels = cgroups.iter().filter(on_path);
    let level = levels.find(|level| level.limit == Some(total));
    level.map_or(own, |level| &level.path).to_owned()
}
