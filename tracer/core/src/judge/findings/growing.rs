//! Which methods keep more with each call, by the calls of a recording, and how far the next limit is.

use std::collections::BTreeMap;

use super::{
    facts::{Growing, Room},
    within,
};
use crate::{
    event::{Cluster, Role},
    ids::Bytes,
    judge::{
        killers,
        state::{calls::Calls, processes::ProcessState, world::World},
    },
    ray::{facts::RayFact, identify},
};

/// Those of all clusters.
pub(super) fn of(world: &World) -> Vec<Growing> {
    let clusters = world.clusters.iter();
    clusters
        .flat_map(|cluster| of_cluster(world, cluster))
        .collect()
}

fn of_cluster(world: &World, cluster: &Cluster) -> Vec<Growing> {
    let mut found: BTreeMap<String, Growing> = BTreeMap::new();
    let states = world.processes.iter();
    for worker in
        states.filter(|state| state.role == Role::Worker && state.belongs_to(cluster.raylet))
    {
        let calls = world.calls.get(&worker.key.truncated());
        let Some((calls, growth)) = calls.and_then(|calls| Some((calls, calls.steady()?))) else {
            continue;
        };
        let task = identify::title(&growth.title).and_then(|title| title.task);
        let (Some(task), Some(each)) = (task, growth.per_call) else {
            continue;
        };
        let one = found.entry(task.clone()).or_insert_with(|| Growing {
            task,
            workers: 0,
            calls: 0,
            per_call: Bytes(0),
            alive: Bytes(0),
            ahead: 0,
            ended: Vec::new(),
            room: room(world, cluster),
        });
        one.workers += 1;
        one.calls = one.calls.max(growth.calls);
        one.per_call = one.per_call.max(each);
        if let Some(exit) = worker.exit {
            one.ended.push(exit);
        } else {
            one.alive.0 += each.0;
            one.ahead += ahead(calls, worker, &growth.title, each).unwrap_or(each.0.cast_signed());
        }
    }
    found.into_values().collect()
}

/// What the worker's next call takes on top of what it holds.
fn ahead(calls: &Calls, worker: &ProcessState, title: &str, each: Bytes) -> Option<i64> {
    let (_, split) = worker.memory?;
    calls.ahead(title, each, split.anon?)
}

/// The limit that is next by the last figures: Ray's threshold, or that of a cgroup on the raylet's path.
pub(super) fn room(world: &World, cluster: &Cluster) -> Option<Room> {
    let raylet = world.processes.get(cluster.raylet)?;
    let on_path = |path: &String| within(raylet.cgroup.as_deref(), path);
    let last = world.cgroups.iter().filter(|(path, _)| on_path(path));
    let node = world.machine.node.as_ref().map(|(_, node)| node);
    let limits: Vec<(&String, Bytes, Bytes)> = last
        .filter_map(|(path, states)| {
            let state = &states.last()?.what;
            let limit = match node {
                Some(node) => killers::binding(state, node),
                None => state.limit,
            };
            Some((path, state.needed(), limit?))
        })
        .collect();
    let machine = node.map(|node| Room {
        limit: "the machine's end".into(),
        at: node.total,
        used: node.used(),
    });
    let cgroups = limits.iter().map(|(path, used, at)| Room {
        limit: format!("the limit of {path}"),
        at: *at,
        used: *used,
    });
    cgroups
        .chain(threshold(world, cluster, &limits))
        .chain(machine)
        .min_by_key(Room::left)
}

fn threshold(world: &World, cluster: &Cluster, limits: &[(&String, Bytes, Bytes)]) -> Option<Room> {
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
    Some(Room {
        limit: "Ray's threshold".into(),
        at,
        used: of_cgroup.or_else(of_machine)?,
    })
}
