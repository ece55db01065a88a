//! What Ray's GCS said of jobs, actors, placement groups and nodes, and what of it concerns one process. It changes no verdict.

use std::collections::HashMap;

use crate::{
    event::Role,
    ids::{HexId, ProcessKey},
    judge::{
        processes::ProcessState,
        report::{GcsOwner, GcsReport},
        world::World,
    },
    ray::gcs::{GcsActor, GcsRow},
};

/// Rows of one kind that are kept.
const MOST: usize = 100_000;
/// Names of one class's actors that are reported.
const MOST_NAMES: usize = 8;
/// Forks between a worker and a process of its own.
const DEEPEST: usize = 16;

/// Everything by cluster and id; actors by the worker that they run in.
#[derive(Debug, Default)]
pub(super) struct GcsTables {
    actors: HashMap<(ProcessKey, HexId), GcsActor>,
    groups: HashMap<(ProcessKey, HexId), String>,
    nodes: HashMap<(ProcessKey, HexId), String>,
    entrypoints: HashMap<(ProcessKey, HexId), String>,
}

impl GcsTables {
    /// Keeps a row; the worker of an actor, where it has one.
    pub(super) fn take(&mut self, cluster: ProcessKey, row: &GcsRow) -> Option<HexId> {
        let cluster = cluster.truncated();
        let named = match row {
            GcsRow::Actor(actor) => {
                let worker = actor.worker_id.clone()?;
                if self.actors.len() < MOST {
                    let key = (cluster, worker.clone());
                    self.actors.insert(key, actor.clone());
                }
                return Some(worker);
            }
            GcsRow::PlacementGroup(group) => (&mut self.groups, &group.name),
            GcsRow::Node(node) => (&mut self.nodes, &node.name),
            GcsRow::Job(job) => (&mut self.entrypoints, &job.entrypoint),
        };
        if let (table, Some(name)) = named
            && table.len() < MOST
        {
            table.insert((cluster, row.id().clone()), name.clone());
        }
        None
    }

    /// The actor of a worker process.
    pub(super) fn actor(&self, state: &ProcessState) -> Option<&GcsActor> {
        let cluster = state.cluster?.truncated();
        self.actors.get(&(cluster, state.worker_id.clone()?))
    }

    /// What a job was started with.
    pub(super) fn entrypoint(&self, cluster: ProcessKey, job: &HexId) -> Option<&String> {
        self.entrypoints.get(&(cluster.truncated(), job.clone()))
    }

    pub(super) fn forget(&mut self, state: &ProcessState) {
        if let (Some(cluster), Some(worker)) = (state.cluster, &state.worker_id) {
            self.actors.remove(&(cluster.truncated(), worker.clone()));
        }
    }
}

/// The actor whose worker a process is, or whose worker has started it.
pub(super) fn actor_of<'a>(world: &'a World, state: &'a ProcessState) -> Option<&'a GcsActor> {
    let mut state = state;
    for _ in 0..DEEPEST {
        if state.role != Role::Descendant {
            return world.gcs.actor(state);
        }
        let parent = state.parent_key.and_then(|key| world.processes.get(key));
        state = parent.or_else(|| world.processes.latest(state.parent?))?;
    }
    None
}

/// What the GCS adds to what titles and logs say of a process, if anything.
pub(super) fn report(
    world: &World,
    state: &ProcessState,
    job: Option<&HexId>,
) -> Option<GcsReport> {
    let cluster = state.cluster?;
    let actor = actor_of(world, state);
    let of_group = |id: &HexId| world.gcs.groups.get(&(cluster.truncated(), id.clone()));
    let group_id = actor.and_then(|actor| actor.placement_group_id.clone());
    let own = || world.cluster(cluster).and_then(|one| one.node_id.clone());
    let node = actor.and_then(|actor| actor.node_id.clone()).or_else(own);
    let node = node.and_then(|id| world.gcs.nodes.get(&(cluster.truncated(), id)));
    let entrypoint = job.and_then(|job| world.gcs.entrypoint(cluster, job));
    let found = GcsReport {
        actor_name: actor.and_then(|actor| actor.name.clone()),
        placement_group: group_id.as_ref().and_then(of_group).cloned(),
        placement_group_id: group_id,
        job_entrypoint: entrypoint.cloned(),
        node_name: node.cloned(),
    };
    (actor.is_some() || entrypoint.is_some()).then_some(found)
}

/// What there is to say of each actor class.
pub(super) fn by_class(world: &World) -> HashMap<String, GcsOwner> {
    let mut classes: HashMap<String, GcsOwner> = HashMap::new();
    for ((cluster, _), actor) in &world.gcs.actors {
        let Some(class) = &actor.class else { continue };
        let of = classes.entry(class.clone()).or_default();
        let group = actor.placement_group_id.clone();
        let group = group.and_then(|id| world.gcs.groups.get(&(*cluster, id)));
        let job = actor.job_id.as_ref();
        let job = job.and_then(|job| world.gcs.entrypoint(*cluster, job));
        add(&mut of.actor_names, actor.name.as_ref());
        add(&mut of.placement_groups, group);
        add(&mut of.job_entrypoints, job);
    }
    classes
}

/// Adds a name to an ordered list, of which the first are kept.
fn add(names: &mut Vec<String>, name: Option<&String>) {
    if let Some(name) = name
        && let Err(at) = names.binary_search(name)
    {
        names.insert(at, name.clone());
        names.truncate(MOST_NAMES);
    }
}
