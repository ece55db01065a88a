//! Collects what this recording's logs say of processes and nodes that may be elsewhere.
//!
//! [`super::fleet`] joins reports by it.

use crate::{
    ids::{HexId, ProcessKey},
    judge::{
        report::{LogMention, Mention},
        state::world::World,
    },
    ray::{
        facts::RayFact,
        log::{after_effects, file_name},
        words::{self, EndedWith, OwnerGone, lost_the_gcs, owner_gone},
    },
};

/// Returns all mentions, in the order in which they were read.
pub(super) fn all(
    world: &World,
    number: impl Fn(Option<ProcessKey>) -> Option<u32>,
) -> Vec<LogMention> {
    let mut all: Vec<LogMention> = Vec::new();
    for seen in world.ray_log_records.iter() {
        let by = file_name::parse(&seen.what.file).and_then(|name| name.worker_id);
        let found = mentions(&seen.what.fact).into_iter();
        all.extend(found.map(|what| LogMention {
            time: world.clock.wall(seen.time),
            cluster: number(seen.what.cluster),
            source: seen.what.file.clone(),
            by: by.clone(),
            what,
        }));
    }
    all
}

/// Returns the mentions in one record. A record may say where a process ran, and what became of it.
pub fn mentions(fact: &RayFact) -> Vec<Mention> {
    let one = match fact {
        RayFact::OwnerDied {
            worker_id,
            owner_worker_id,
            reason,
        } => Some(Mention::OwnerDied {
            worker: worker_id.clone(),
            owner: owner_worker_id.clone(),
            node: EndedWith::of(reason) == EndedWith::OwnerNode,
        })
        .filter(|_| EndedWith::of(reason) != EndedWith::Job),
        RayFact::ForceKillActor {
            reason,
            worker_id: Some(worker),
        } => after_owner(worker, reason),
        RayFact::ActorState {
            actor_id,
            state,
            worker_id,
            node_id,
            ..
        } => {
            let of_actor = actor(actor_id, state, worker_id.as_ref());
            let of_worker = on(worker_id.as_ref(), node_id.as_ref());
            return of_actor.into_iter().chain(of_worker).collect();
        }
        RayFact::GcsWorkerExit {
            worker_id, node_id, ..
        } => on(Some(worker_id), node_id.as_ref()),
        RayFact::TaskFailed {
            task_id: Some(task),
            will_retry: Some(false),
            error,
            ..
        } if words::means_actor_died(error) => called(task),
        RayFact::NodeRegistered {
            node_id,
            name,
            address,
        } => Some(Mention::NodeIs {
            node: node_id.clone(),
            name: name.clone(),
            address: address.clone(),
        }),
        RayFact::NodeDied {
            node_id,
            reason,
            message,
        } => Some(Mention::NodeDied {
            node: node_id.clone(),
            reason: reason.clone(),
            message: message.clone(),
        }),
        RayFact::RayletMarkedDead { reason } => lost_the_gcs(reason).then_some(Mention::GcsLost),
        RayFact::Exception { class, message, .. } => peer_error(class, message),
        _ => None,
    };
    one.into_iter().collect()
}

fn actor(actor: &HexId, state: &str, worker: Option<&HexId>) -> Option<Mention> {
    let actor = actor.clone();
    match (state, worker.cloned()) {
        ("DEAD", worker) => Some(Mention::ActorDied { actor, worker }),
        ("ALIVE", Some(worker)) => Some(Mention::ActorIn { actor, worker }),
        _ => None,
    }
}

fn on(worker: Option<&HexId>, node: Option<&HexId>) -> Option<Mention> {
    Some(Mention::WorkerOn {
        worker: worker?.clone(),
        node: node?.clone(),
    })
}

fn after_owner(worker: &HexId, reason: &str) -> Option<Mention> {
    let OwnerGone {
        owner,
        node_crashed,
    } = owner_gone(reason)?;
    Some(Mention::OwnerDied {
        worker: worker.clone(),
        owner,
        node: node_crashed,
    })
}

/// Returns the mention in a failed call of a method. The id of the actor is the end of the task's
/// id.
fn called(task: &HexId) -> Option<Mention> {
    Some(Mention::ActorDied {
        actor: task.actor_of_task()?,
        worker: None,
    })
}

/// Returns what the last exception of a worker, or a line of its output, says of its peers.
pub fn peer_error(class: &str, message: &str) -> Option<Mention> {
    let kind = after_effects::kind(message).or_else(|| after_effects::kind(class))?;
    Some(Mention::PeerError {
        kind,
        timeout_ms: after_effects::timeout_ms(message),
    })
}
