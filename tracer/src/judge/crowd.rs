//! Who held memory at a death besides the dying process: the biggest live processes with class, role, cluster and cgroup.

use crate::{
    event::{NodeMemory, Role},
    ids::{Bytes, Pid, ProcessKey},
    judge::{processes::ProcessState, world::World},
    ray::identify,
};

/// Processes that a death keeps.
const MOST: usize = 64;

/// The live processes at a death.
#[derive(Debug, Clone, Default)]
pub(super) struct Crowd {
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
    pub(super) private: Bytes,
}

/// The crowd around the end of `dying`, which held `own`.
pub(super) fn around(world: &World, dying: ProcessKey, own: Option<Bytes>) -> Crowd {
    let mut alive: Vec<(&ProcessState, Bytes)> = world
        .processes
        .iter()
        .filter_map(|state| {
            let private = if state.key.same(dying) {
                own
            } else {
                let (_, split) = state.memory.filter(|_| state.exit.is_none())?;
                split.anon
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
        private,
    };
    Crowd {
        members: alive.into_iter().map(member).collect(),
        tracked,
        node: world.node.as_ref().map(|(_, node)| node.clone()),
    }
}

fn class(state: &ProcessState) -> Option<String> {
    let title = state.title.as_deref().and_then(identify::title);
    let of_title = title.and_then(|title| title.actor_class.or(title.task));
    of_title.or_else(|| state.actor_class.clone())
}
