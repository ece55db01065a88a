//! Who held memory at a death besides the dying process: the biggest live processes with class, role, cluster and cgroup.

use crate::{
    event::{NodeMemory, Role},
    ids::{Bytes, Pid, ProcessKey},
    judge::{
        calls::{Calls, Growth, Idle, Reused},
        processes::ProcessState,
        world::World,
    },
    ray::identify,
};

/// Processes that a death keeps.
const MOST: usize = 64;

/// The live processes at a death.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveProcesses {
    /// The biggest, in their order; the dying one is among them.
    pub(super) members: Vec<Member>,
    /// Private memory of everything that is tracked.
    pub(super) tracked: Bytes,
    /// The machine, as sampled last.
    pub(super) node: Option<NodeMemory>,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) pid: Pid,
    pub(super) role: Role,
    /// The actor's class, else the task that runs.
    pub(super) class: Option<String>,
    pub(super) cluster: Option<ProcessKey>,
    pub(super) cgroup: Option<String>,
    /// What it runs: `WorkerDict.save_checkpoint`.
    pub(super) doing: Option<String>,
    pub(super) private: Bytes,
    /// Shared memory that it has mapped and touched.
    pub(super) shared: Bytes,
    /// What it held when it began that.
    pub(super) before: Option<Bytes>,
    /// The method that left most behind in each of several calls.
    pub(super) growth: Option<Growth>,
    /// What its tasks left resident and used again.
    pub(super) reused: Option<Reused>,
    /// Since when it had nothing to do.
    pub(super) idle: Option<Idle>,
}

/// The crowd around the end of `dying`, which held `own`.
pub(super) fn around(world: &World, dying: ProcessKey, own: Option<Bytes>) -> LiveProcesses {
    let mut alive: Vec<(&ProcessState, Bytes)> = world
        .processes
        .iter()
        .filter_map(|state| {
            let private = if state.key.same(dying) {
                own
            } else {
                let (_, split) = state.memory.filter(|_| state.exit.is_none())?;
                split.private()
            };
            Some((state, private?))
        })
        .collect();
    let tracked = Bytes(alive.iter().map(|(_, private)| private.0).sum());
    alive.sort_by_key(|(state, private)| std::cmp::Reverse((*private, state.key.pid)));
    alive.truncate(MOST);
    let member = |(state, private): (&ProcessState, Bytes)| Member {
        pid: state.key.pid,
        role: state.role,
        class: class(state),
        cluster: state.cluster,
        cgroup: state.cgroup.clone(),
        doing: state
            .title
            .as_deref()
            .and_then(identify::title)
            .and_then(|title| title.task),
        private,
        shared: state
            .memory
            .and_then(|(_, split)| split.shmem)
            .unwrap_or_default(),
        before: state.before,
        growth: calls(world, state).and_then(Calls::steady),
        reused: calls(world, state).and_then(Calls::reused),
        idle: idle(world, state),
    };
    LiveProcesses {
        members: alive.into_iter().map(member).collect(),
        tracked,
        node: world.node.as_ref().map(|(_, node)| node.clone()),
    }
}

fn calls<'a>(world: &'a World, state: &ProcessState) -> Option<&'a Calls> {
    world.calls.get(&state.key.truncated())
}

/// Since when a worker of tasks has had nothing to do.
pub(super) fn idle(world: &World, state: &ProcessState) -> Option<Idle> {
    let of_tasks = state.role == Role::Worker && state.actor_class.is_none();
    let calls = calls(world, state).filter(|_| of_tasks)?;
    calls.idle(world.last_time)
}

/// The class of its actor, else the task that it runs.
pub(super) fn class(state: &ProcessState) -> Option<String> {
    let title = state.title.as_deref().and_then(identify::title);
    let of_title = title.and_then(|title| title.actor_class.or(title.task));
    of_title.or_else(|| state.actor_class.clone())
}
