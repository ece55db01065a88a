//! Judges a process that exited because a part of Ray that it watches had died.
//!
//! The table of Ray's process tree says which part watches which ([`crate::ray::tree`]).

use super::{Case, Draft, aftermath, senders};
use crate::{
    event::Role,
    ids::{BootTime, ProcessKey, SECOND_NS},
    judge::{
        cause::Cause,
        report::Certainty,
        state::{processes::ProcessState, world::World},
    },
    ray::{identify, tree::Part},
};

/// Workers check for their raylet each second; on a busy machine they are late.
const AFTER_RAYLET_NS: i64 = 10 * SECOND_NS;
/// An agent tells the GCS about its raylet's end before it ends itself. If the GCS is gone, it
/// tries for a minute (`python/ray/_private/process_watcher.py`).
const AGENT_AFTER_RAYLET_NS: i64 = 90 * SECOND_NS;
/// The dashboard's modules check for their parent each second.
const AFTER_PARENT_NS: i64 = 10 * SECOND_NS;

/// Returns which part of Ray a process is, if it is one.
pub(super) fn part(world: &World, process: ProcessKey) -> Option<Part> {
    let state = world.processes.get(process)?;
    Some(match state.role {
        Role::Worker => Part::Worker,
        Role::Driver => Part::Driver,
        Role::Raylet => Part::Raylet,
        Role::Gcs => Part::Gcs,
        Role::Dashboard => Part::Dashboard,
        Role::Agent if is_runtime_env_agent(state) => Part::RuntimeEnvAgent,
        Role::Agent => Part::DashboardAgent,
        Role::Descendant => return None,
        Role::Other => return part_of_another(world, state),
    })
}

fn is_runtime_env_agent(state: &ProcessState) -> bool {
    let label = state.label();
    label.contains("RuntimeEnvAgent") || label.contains("runtime_env/agent")
}

/// Returns the part of a process without a role of its own: a helper of the node, or a process that
/// the dashboard started.
fn part_of_another(world: &World, state: &ProcessState) -> Option<Part> {
    if let Some(helper) = identify::helper(&state.argv) {
        return Some(helper);
    }
    let parent = world.processes.parent_of(state)?;
    (parent.role == Role::Dashboard).then_some(Part::DashboardModule)
}

/// Judges a process that the dashboard started, which watches its parent alone.
pub(super) fn after_parent(case: &Case<'_>) -> Option<Draft> {
    let part = case.part()?;
    if part != Part::DashboardModule || !part.watches(Part::Dashboard) {
        return None;
    }
    let parent = senders::parent_of(case, case.key())?;
    let died = case.act_time(parent)?;
    if !(0..AFTER_PARENT_NS).contains(&case.exit.time.since(died)) {
        return None;
    }
    let killer = case.killer_after(parent);
    let cause = Cause::DashboardGone {
        dashboard_pid: parent.pid,
    };
    Some(Draft::new(killer, Certainty::Inferred, cause).caused_by(Some(parent)))
}

/// Judges a part of Ray that watches the raylet and exited after the raylet had died.
pub(super) fn after_raylet(case: &Case<'_>) -> Option<Draft> {
    let raylet = case.cluster().filter(|raylet| !raylet.same(case.key()))?;
    if !case.part()?.watches(Part::Raylet) || aftermath::has_own_code(case) {
        return None;
    }
    // Of drivers, only one that failed counts, unless it had ended its own Ray before.
    if case.role() == Role::Driver && (case.exit.exit.code() == Some(0) || ended_by(case, raylet)) {
        return None;
    }
    let died = case.act_time(raylet)?;
    let lived_then = case.key().start <= died;
    let within = match case.role() {
        Role::Agent => AGENT_AFTER_RAYLET_NS,
        _ => AFTER_RAYLET_NS,
    };
    if !lived_then || !(0..within).contains(&case.exit.time.since(died)) {
        return None;
    }
    let killer = case.killer_after(raylet);
    let cause = Cause::RayletDied {
        raylet_pid: Some(raylet.pid),
        by_own_log: false,
    };
    Some(Draft::new(killer, Certainty::Inferred, cause).caused_by(Some(raylet)))
}

/// Returns whether this process had sent a signal to the raylet.
fn ended_by(case: &Case<'_>, raylet: ProcessKey) -> bool {
    let signals = case.world.signals_to(raylet);
    signals
        .iter()
        .any(|seen| seen.what.sender.process.same(case.key()))
}

/// Returns whether the raylet's shutdown, which began at `began`, can have ended this process
/// without a signal. The process must have been alive then, belong to this raylet, and be a part of
/// Ray, which ends with its node.
pub(super) fn ends_at_shutdown(case: &Case<'_>, raylet: ProcessKey, began: BootTime) -> bool {
    let lived = case.key().start <= began;
    let own = case.cluster().is_none_or(|cluster| cluster.same(raylet));
    lived && own && case.part().is_some()
}
