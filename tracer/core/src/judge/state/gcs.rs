//! Keeps what Ray's GCS said of jobs, actors, placement groups and nodes.

use std::collections::HashMap;

use crate::{
    ids::{HexId, ProcessKey},
    judge::state::processes::ProcessState,
    ray::gcs::{GcsActor, GcsRow},
};

/// At most this many rows of one kind are kept.
const MOST: usize = 100_000;
/// What the GCS said, by cluster and id. Actors are kept by the worker that they run in.
#[derive(Debug, Default)]
pub(crate) struct GcsTables {
    actors: HashMap<(ProcessKey, HexId), GcsActor>,
    groups: HashMap<(ProcessKey, HexId), String>,
    nodes: HashMap<(ProcessKey, HexId), String>,
    entrypoints: HashMap<(ProcessKey, HexId), String>,
}

impl GcsTables {
    /// Keeps a row. Returns the worker of an actor, if it has one.
    pub(crate) fn take(&mut self, cluster: ProcessKey, row: &GcsRow) -> Option<HexId> {
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

    /// Returns the actor of a worker process.
    pub(crate) fn actor(&self, state: &ProcessState) -> Option<&GcsActor> {
        let cluster = state.cluster?.truncated();
        self.actors.get(&(cluster, state.worker_id.clone()?))
    }

    /// Returns what a job was started with.
    pub(crate) fn entrypoint(&self, cluster: ProcessKey, job: &HexId) -> Option<&String> {
        self.entrypoints.get(&(cluster.truncated(), job.clone()))
    }

    /// Returns the name of a placement group.
    pub(crate) fn group(&self, cluster: ProcessKey, id: &HexId) -> Option<&String> {
        self.groups.get(&(cluster.truncated(), id.clone()))
    }

    /// Returns the name of a node.
    pub(crate) fn node(&self, cluster: ProcessKey, id: &HexId) -> Option<&String> {
        self.nodes.get(&(cluster.truncated(), id.clone()))
    }

    /// Returns all actors, each with its cluster.
    pub(crate) fn actors(&self) -> impl Iterator<Item = (ProcessKey, &GcsActor)> {
        let actors = self.actors.iter();
        actors.map(|((cluster, _), actor)| (*cluster, actor))
    }

    pub(crate) fn forget(&mut self, state: &ProcessState) {
        if let (Some(cluster), Some(worker)) = (state.cluster, &state.worker_id) {
            self.actors.remove(&(cluster.truncated(), worker.clone()));
        }
    }
}
