//! Finds methods that keep more memory with each call, and how far the nearest limit is.

use std::collections::BTreeMap;

use super::facts::GrowingMethod;
use crate::{
    event::{Cluster, Role},
    ids::Bytes,
    judge::{
        query::headroom,
        state::{calls::Calls, processes::ProcessState, world::World},
    },
    ray::identify,
};

/// Returns the methods of all clusters.
pub(super) fn methods(world: &World) -> Vec<GrowingMethod> {
    let clusters = world.clusters.iter();
    clusters
        .flat_map(|cluster| of_cluster(world, cluster))
        .collect()
}

fn of_cluster(world: &World, cluster: &Cluster) -> Vec<GrowingMethod> {
    let mut found: BTreeMap<String, GrowingMethod> = BTreeMap::new();
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
        let one = found.entry(task.clone()).or_insert_with(|| GrowingMethod {
            task,
            headroom: headroom::of(world, cluster),
            ..GrowingMethod::default()
        });
        one.kept.0 += growth.kept().0;
        one.workers += 1;
        one.calls = one.calls.max(growth.calls);
        one.per_call = one.per_call.max(each);
        if let Some(exit) = worker.exit {
            one.ended.push(exit);
        } else {
            one.alive.0 += each.0;
            one.ahead += next_call_growth(calls, worker, &growth.title, each)
                .unwrap_or(each.0.cast_signed());
        }
    }
    let matters = |one: &GrowingMethod| {
        let headroom = one.headroom.as_ref();
        headroom.is_none_or(|headroom| headroom.is_filled_by(one.kept))
    };
    found.into_values().filter(matters).collect()
}

/// Returns what the worker's next call takes on top of what it holds.
fn next_call_growth(calls: &Calls, worker: &ProcessState, title: &str, each: Bytes) -> Option<i64> {
    let (_, split) = worker.memory?;
    calls.next_call_peak_above(title, each, split.anon?)
}
