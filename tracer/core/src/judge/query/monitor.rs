//! Reports what a raylet's memory monitor logged of itself, and what it counted before a death.

use crate::{
    ids::{BootTime, Bytes, ProcessKey, SECOND_NS},
    judge::{report::Monitor, state::world::World},
    ray::facts::RayFact,
};

/// The time from a look of the monitor to the end of what it kills. It acts some 50 ms later, and
/// memory takes a while to be given back.
const MONITOR_NS: i64 = 3 * SECOND_NS;

/// Returns what the monitor of a cluster last logged of itself.
pub(crate) fn of(world: &World, raylet: ProcessKey) -> Option<Monitor> {
    world
        .ray_of_cluster(raylet)
        .rev()
        .find_map(|record| Monitor::logged(&record.what.fact))
}

/// Returns the first threshold that the monitor of a cluster logged. It did so as its raylet
/// started, when no other process could write to its log.
pub(crate) fn first_threshold(world: &World, raylet: ProcessKey) -> Option<Bytes> {
    let mut records = world.ray_of_cluster(raylet);
    records.find_map(|record| match &record.what.fact {
        RayFact::MonitorStarted { threshold, .. } => Some(*threshold),
        _ => None,
    })
}

/// Returns the most that the monitor counted before the end of a process at `time`, and its
/// threshold.
pub(crate) fn counted(
    world: &World,
    process: ProcessKey,
    time: BootTime,
) -> Option<(Bytes, Bytes)> {
    let raylet = world.processes.get(process)?.cluster?;
    let counts = world.monitors.get(&raylet.truncated())?;
    let lately = counts
        .iter()
        .filter(|seen| time.since(seen.time) <= MONITOR_NS);
    // A figure that did not move has no row of its own.
    let in_force = counts
        .iter()
        .rfind(|seen| time.since(seen.time) > MONITOR_NS);
    let highest = lately.chain(in_force).max_by_key(|seen| seen.what.used)?;
    Some((highest.what.used, highest.what.threshold))
}
