//! Reports what the GCS says of one process, or of one class of actors. It changes no verdict.

use std::collections::HashMap;

use crate::{
    event::Role,
    ids::HexId,
    judge::{
        report::{GcsOwner, GcsReport},
        state::{processes::ProcessState, world::World},
    },
    ray::gcs::GcsActor,
};

/// At most this many names of one class's actors are reported.
const MOST_NAMES: usize = 8;

/// Returns the actor whose worker the process is, or was started by.
pub(crate) fn actor_of<'a>(world: &'a World, state: &'a ProcessState) -> Option<&'a GcsActor> {
    if state.role != Role::Descendant {
        return world.gcs.actor(state);
    }
    world.gcs.actor(world.processes.worker_above(state.key)?)
}

/// Returns what the GCS adds to what titles and logs say of a process, if anything.
pub(crate) fn report(
    world: &World,
    state: &ProcessState,
    job: Option<&HexId>,
) -> Option<GcsReport> {
    let cluster = state.cluster?;
    let actor = actor_of(world, state);
    let of_group = |id: &HexId| world.gcs.group(cluster, id);
    let group_id = actor.and_then(|actor| actor.placement_group_id.clone());
    let own = || world.cluster(cluster).and_then(|one| one.node_id.clone());
    let node = actor.and_then(|actor| actor.node_id.clone()).or_else(own);
    let node = node.and_then(|id| world.gcs.node(cluster, &id));
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

/// Returns what the GCS says of each actor class.
pub(crate) fn by_class(world: &World) -> HashMap<String, GcsOwner> {
    let mut classes: HashMap<String, GcsOwner> = HashMap::new();
    for (cluster, actor) in world.gcs.actors() {
        let Some(class) = &actor.class else { continue };
        let of = classes.entry(class.clone()).or_default();
        let group = actor.placement_group_id.clone();
        let group = group.and_then(|id| world.gcs.group(cluster, &id));
        let job = actor.job_id.as_ref();
        let job = job.and_then(|job| world.gcs.entrypoint(cluster, job));
        add(&mut of.actor_names, actor.name.as_ref());
        add(&mut of.placement_groups, group);
        add(&mut of.job_entrypoints, job);
    }
    classes
}

/// Adds a name to a sorted list that keeps only the first names.
fn add(names: &mut Vec<String>, name: Option<&String>) {
    if let Some(name) = name
        && let Err(at) = names.binary_search(name)
    {
        names.insert(at, name.clone());
        names.truncate(MOST_NAMES);
    }
}
