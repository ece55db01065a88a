//! Estimates which process a killer would choose now.
//!
//! Ray's monitor chooses by the policy of its version, the kernel by its score. Mirrors
//! `worker_killing_policy*.cc` of Ray (2.9 to 2.60) and `oom_badness` of `mm/oom_kill.c` (Linux
//! 5.10 to 7.2).

use super::counted;
use crate::{
    event::{ForecastProcess, LimitOwner, Role},
    ids::{BootTime, Bytes},
    judge::{
        live,
        state::{processes::ProcessState, world::World},
    },
    ray::version::Version,
};

/// From this version on, idle workers that hold at least [`IDLE`] bytes are chosen first.
const BY_TIME: Version = Version(2, 56);
const IDLE: u64 = 1 << 30;

/// What a worker does, in the order in which Ray's monitor chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// Nothing, but it holds much memory.
    Idle,
    /// A task, which Ray retries by default.
    Task,
    /// An actor, which Ray does not restart by default.
    Actor,
}

/// Returns the process that the killer of a limit would choose.
pub(super) fn likely(
    world: &World,
    limit_owner: &LimitOwner,
    now: BootTime,
) -> Option<ForecastProcess> {
    let found = match limit_owner {
        LimitOwner::RayMonitor => by_ray(world, now),
        LimitOwner::Cgroup(_) | LimitOwner::Machine => by_kernel(world, limit_owner, now),
    }?;
    Some(ForecastProcess {
        process: found.key,
        name: found.owner(),
        call: None,
        moved: Bytes(0),
    })
}

fn private(state: &ProcessState) -> u64 {
    let split = state.memory.map(|(_, split)| split);
    split.and_then(|split| split.anon).unwrap_or_default().0
}

/// Returns Ray's choice: an idle worker with much memory, else a task, else an actor. Of several,
/// the one leased last is chosen, or the first with `retriable_fifo`.
fn by_ray(world: &World, now: BootTime) -> Option<&ProcessState> {
    let cluster = live::clusters(world).next()?;
    let setting = |wanted: &str| {
        let found = cluster.settings.iter().find(|(key, _)| key == wanted);
        found.map_or("", |(_, value)| value.trim())
    };
    let version = cluster.ray_version.as_deref().and_then(Version::parse);
    let by_group = matches!(setting("RAY_worker_killing_policy_by_group"), "1" | "true");
    let takes_idle = version.is_none_or(|version| version >= BY_TIME) && !by_group;
    let oldest = setting("RAY_worker_killing_policy") == "retriable_fifo";
    let work = |state: &ProcessState| {
        let calls = world.calls.get(&state.key.truncated());
        let is_idle = calls.is_some_and(|calls| calls.is_idle(now));
        let is_actor = state.class().is_some();
        match state.task().filter(|_| !is_idle) {
            _ if is_actor => Some(Work::Actor),
            Some(_) => Some(Work::Task),
            None => (takes_idle && private(state) >= IDLE).then_some(Work::Idle),
        }
    };
    let workers = counted(world, &LimitOwner::RayMonitor, now);
    let workers =
        workers.filter(|state| state.role == Role::Worker && state.belongs_to(cluster.raylet));
    let ranked = workers.filter_map(|state| {
        let calls = world.calls.get(&state.key.truncated());
        let work = work(state)?;
        let leased = calls.and_then(|calls| calls.leased(work == Work::Task));
        let leased = leased.unwrap_or(state.key.start).0;
        let order = if oldest { leased } else { u64::MAX - leased };
        Some(((work, order), state))
    });
    Some(ranked.min_by_key(|(rank, _)| *rank)?.1)
}

/// Returns the process with the highest score, which is what it holds. Each worker, and what it
/// starts, has the machine's whole memory on top.
fn by_kernel<'a>(
    world: &'a World,
    limit_owner: &'a LimitOwner,
    now: BootTime,
) -> Option<&'a ProcessState> {
    let score = |state: &&ProcessState| {
        let adjusted = matches!(state.role, Role::Worker | Role::Descendant);
        let split = state.memory.map(|(_, split)| split).unwrap_or_default();
        let resident = split.resident().unwrap_or_default().0;
        (adjusted, resident + split.swap.unwrap_or_default().0)
    };
    counted(world, limit_owner, now).max_by_key(score)
}
