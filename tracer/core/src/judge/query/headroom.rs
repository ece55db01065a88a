//! Finds the nearest limit, how far it is, and whether what calls keep matters beside it.

use crate::{
    cgroup_path::is_below,
    event::Cluster,
    ids::{Bytes, ProcessKey},
    judge::state::{calls::Growth, world::World},
    ray::facts::RayFact,
};

/// What the calls of a method keep matters if it is, over all processes, at least one part in this
/// many of the limit. Allocators and caches vary by less.
const SHARE: u64 = 20;

/// What is left until a limit, at the end of what was seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Headroom {
    /// `Ray's threshold`, `the limit of /job`.
    pub(crate) limit: String,
    pub(crate) at: Bytes,
    pub(crate) used: Bytes,
}

impl Headroom {
    /// Whether this much is a part of it that is worth mentioning.
    pub(crate) fn is_filled_by(&self, kept: Bytes) -> bool {
        kept.0 >= self.at.0 / SHARE
    }

    pub(crate) fn left(&self) -> Bytes {
        Bytes(self.at.0.saturating_sub(self.used.0))
    }
}

/// Whether what the calls of a method keep matters beside the limit of their cluster. One process
/// keeps this much, and all processes that run the method count. True if no limit is known.
pub(crate) fn matters(world: &World, cluster: Option<ProcessKey>, growth: &Growth) -> bool {
    let mut clusters = world.clusters.iter();
    let cluster = cluster.and_then(|raylet| clusters.find(|one| one.raylet.same(raylet)));
    let Some(headroom) = cluster.and_then(|cluster| of(world, cluster)) else {
        return true;
    };
    let all = world.calls.values();
    let run_it = all.filter(|calls| calls.latest() == Some(growth.title.as_str()));
    let many = run_it.count().max(1) as u64;
    headroom.is_filled_by(Bytes(growth.kept().0.saturating_mul(many)))
}

/// Returns the nearest limit by the last figures: Ray's threshold, or that of a cgroup on the
/// raylet's path.
pub(crate) fn of(world: &World, cluster: &Cluster) -> Option<Headroom> {
    let raylet = world.processes.get(cluster.raylet)?;
    let own = raylet.cgroup.as_deref();
    let on_path = |path: &String| own.is_some_and(|own| is_below(own, path));
    let last = world.cgroups.iter().filter(|(path, _)| on_path(path));
    let node = world.machine.node.as_ref().map(|(_, node)| node);
    let limits: Vec<(&String, Bytes, Bytes)> = last
        .filter_map(|(path, states)| {
            let state = &states.last()?.what;
            let limit = match node {
                Some(node) => state.binding(node),
                None => state.limit,
            };
            Some((path, state.needed(), limit?))
        })
        .collect();
    let machine = node.map(|node| Headroom {
        limit: "the machine's end".into(),
        at: Bytes(node.total.0 + node.swap_size().0),
        used: Bytes(node.used().0 + node.swap_used.0),
    });
    let cgroups = limits.iter().map(|(path, used, at)| Headroom {
        limit: format!("the limit of {path}"),
        at: *at,
        used: *used,
    });
    cgroups
        .chain(threshold(world, cluster, &limits))
        .chain(machine)
        .min_by_key(Headroom::left)
}

fn threshold(
    world: &World,
    cluster: &Cluster,
    limits: &[(&String, Bytes, Bytes)],
) -> Option<Headroom> {
    let mut said = world.ray_of_cluster(cluster.raylet).rev();
    let (at, total) = said.find_map(|seen| match seen.what.fact {
        RayFact::MonitorStarted {
            threshold, total, ..
        } => Some((threshold, total)),
        _ => None,
    })?;
    // Ray counts the cgroup whose limit it takes for the machine's memory.
    let of_cgroup = limits.iter().find(|(_, _, limit)| *limit == total);
    let of_cgroup = of_cgroup.map(|(_, used, _)| *used);
    let of_machine = || {
        let (_, node) = world.machine.node.as_ref()?;
        Some(node.used())
    };
    Some(Headroom {
        limit: "Ray's threshold".into(),
        at,
        used: of_cgroup.or_else(of_machine)?,
    })
}
