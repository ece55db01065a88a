//! Lists the largest live processes at a death, with class, role, cluster and cgroup.

use crate::{
    cgroup_path::{self, is_within},
    event::Role,
    ids::{Bytes, ProcessKey},
    judge::state::{
        calls::{Calls, IdleWorker},
        processes::ProcessState,
        snapshot::{LiveProcesses, Member, Names},
        world::World,
    },
    ray::identify::{self, Title},
};

/// At most this many processes are kept with a death.
const MOST: usize = 64;

/// Returns the live processes around the end of `dying`, which held `own`. If a cgroup was full,
/// those in it are kept before all others.
pub(crate) fn around(
    world: &World,
    names: &mut Names,
    dying: ProcessKey,
    own: Option<Bytes>,
    full: Option<&str>,
) -> LiveProcesses {
    let others = world.processes.alive();
    let others = others.filter(|state| !state.key.same(dying));
    let others = others.filter_map(|state| Some((state, state.memory?.1.private()?)));
    let own = world.processes.get(dying).zip(own);
    let mut alive: Vec<(&ProcessState, Bytes)> = others.chain(own).collect();
    let tracked = Bytes(alive.iter().map(|(_, private)| private.0).sum());
    let order = |(state, private): &(&ProcessState, Bytes)| {
        std::cmp::Reverse((*private, state.key.pid, state.key.start))
    };
    if alive.len() > MOST {
        let is_outside = |state: &ProcessState| {
            full.is_some_and(|full| !is_within(state.cgroup.as_deref(), full))
        };
        alive.select_nth_unstable_by_key(MOST, |one| (is_outside(one.0), order(one)));
        alive.truncate(MOST);
    }
    alive.sort_unstable_by_key(order);
    let mut kept = |name: Option<&str>| name.map(|name| names.kept(name));
    let member = |(state, private): (&ProcessState, Bytes)| Member {
        pid: state.key.pid,
        role: state.role,
        class: kept(class(state).as_deref()),
        cluster: state.cluster,
        cgroup: kept(state.cgroup.as_deref()),
        doing: kept(state.doing().as_deref()),
        private,
        shared: state
            .memory
            .and_then(|(_, split)| split.shmem)
            .unwrap_or_default(),
        before: state.before,
        growth: calls(world, state).and_then(Calls::steady).map(Box::new),
        reused: calls(world, state).and_then(Calls::reused).map(Box::new),
        idle: idle(world, state).map(Box::new),
        on_gpu: world.gpus.has_held(state.key),
    };
    LiveProcesses {
        members: alive.into_iter().map(member).collect(),
        tracked,
        shared: shared(world, dying),
        node: world.machine.node.as_ref().map(|(_, node)| node.clone()),
        dropped: false,
    }
}

/// Returns the shared memory that is charged to the limited cgroups above a process: of the one that
/// has the least, since any of them may have been full.
fn shared(world: &World, process: ProcessKey) -> Option<Bytes> {
    let path = world.processes.get(process)?.cgroup.as_deref()?;
    let limited = cgroup_path::with_those_above(path).filter_map(|path| {
        let last = &world.cgroups.get(path)?.last()?.what;
        last.limit.and(last.shmem)
    });
    limited.min()
}

fn calls<'a>(world: &'a World, state: &ProcessState) -> Option<&'a Calls> {
    world
        .calls
        .get(&state.key.truncated())
        .map(|calls| &**calls)
}

/// Returns since when a worker of tasks has had nothing to do.
pub(crate) fn idle(world: &World, state: &ProcessState) -> Option<IdleWorker> {
    let of_tasks = state.role == Role::Worker && state.actor_class.is_none();
    let calls = calls(world, state).filter(|_| of_tasks)?;
    calls.idle(world.last_time)
}

/// Returns the class of its actor, else the task that it runs or ran last.
pub(crate) fn class(state: &ProcessState) -> Option<String> {
    let title = state.title.as_deref().and_then(identify::title);
    let of_title = title.and_then(Title::class);
    of_title.or_else(|| state.actor_class.clone())
}
