//! Finds the ends of messages between this node and the GCS that were recorded here.
//!
//! [`crate::judge::fleet`] compares clocks by them. Mirrors `node_manager.cc`,
//! `gcs_worker_manager.cc`, `gcs_actor_manager.cc` and `gcs_node_manager.cc` of Ray (2.9 to 2.60).
//! Each logs its end before it sends, or when it has received.

use std::collections::{HashMap, HashSet};

use crate::{
    event::{Cluster, RayLog},
    ids::{BootTime, HexId, ProcessKey},
    judge::{
        report::{MessageKind, MessageTime},
        state::world::World,
    },
    ray::{
        facts::RayFact,
        words::{EndedWith, lost_the_gcs, owner_gone},
    },
};

type Ends = HashMap<(u32, bool, MessageKind, HexId), BootTime>;

/// Returns the first message of each kind.
pub(crate) fn all(
    world: &World,
    number: impl Fn(Option<ProcessKey>) -> Option<u32>,
) -> Vec<MessageTime> {
    let mut ends = Ends::new();
    let mut note = |cluster, by_gcs, (kind, id): (MessageKind, HexId), time: BootTime| {
        let first = ends.entry((cluster, by_gcs, kind, id)).or_insert(time);
        *first = time.min(*first);
    };
    for seen in world.ray_log_records.iter() {
        let Some(cluster) = number(seen.what.cluster) else {
            continue;
        };
        if seen.what.file.starts_with("gcs_server") {
            for end in by_gcs(&seen.what.fact) {
                note(cluster, true, end, seen.time);
            }
        } else {
            let own = own_node(world, &seen.what);
            if let Some(end) = on_node(&seen.what, own) {
                note(cluster, false, end, seen.time);
            }
        }
    }
    for cluster in &world.clusters {
        if let (Some(number), Some(node)) = (number(Some(cluster.raylet)), &cluster.node_id) {
            let end = (MessageKind::NodeUp, node.clone());
            note(number, false, end, cluster.raylet.start);
        }
    }
    for state in world.processes.iter() {
        let Some(number) = state.cluster.and_then(|cluster| number(Some(cluster))) else {
            continue;
        };
        if let Some(worker) = &state.worker_id {
            let end = (MessageKind::WorkerReady, worker.clone());
            note(number, false, end, state.key.start);
        }
        let calls = world.calls.get(&state.key.truncated());
        let first = calls.and_then(|calls| calls.leased(false));
        let Some(first) = first else { continue };
        let job = state.job_id.clone().or_else(|| world.ray_job(state.key));
        if let Some(job) = job {
            note(number, false, (MessageKind::JobBegan, job), first);
        }
    }
    into_message_times(world, ends)
}

fn into_message_times(world: &World, ends: Ends) -> Vec<MessageTime> {
    // A raylet may end what a worker of its own node owned before the GCS has entered that worker's
    // exit.
    let left: HashSet<(u32, HexId)> = ends
        .keys()
        .filter(|(_, by_gcs, kind, _)| !by_gcs && *kind == MessageKind::WorkerLeft)
        .map(|(cluster, _, _, id)| (*cluster, id.clone()))
        .collect();
    let message =
        |((cluster, by_gcs, kind, id), time): ((u32, bool, MessageKind, HexId), BootTime)| {
            let is_own =
                !by_gcs && kind == MessageKind::OwnerGone && left.contains(&(cluster, id.clone()));
            let time = world.clock.wall(time).filter(|_| !is_own)?;
            Some(MessageTime {
                time,
                cluster,
                by_gcs,
                kind,
                id,
            })
        };
    ends.into_iter().filter_map(message).collect()
}

fn own_node<'a>(world: &'a World, log: &RayLog) -> Option<&'a HexId> {
    let cluster: Option<&Cluster> = log.cluster.and_then(|raylet| world.cluster(raylet));
    cluster?.node_id.as_ref()
}

/// Returns what the GCS's own log says.
fn by_gcs(fact: &RayFact) -> Vec<(MessageKind, HexId)> {
    match fact {
        RayFact::GcsWorkerExit { worker_id, .. } => vec![
            (MessageKind::WorkerLeft, worker_id.clone()),
            (MessageKind::OwnerGone, worker_id.clone()),
        ],
        RayFact::ActorState {
            state,
            worker_id: Some(worker),
            ..
        } => match state.as_str() {
            "ALIVE" => vec![(MessageKind::WorkerReady, worker.clone())],
            "DEAD" | "RESTARTING" => vec![(MessageKind::ActorFailed, worker.clone())],
            _ => Vec::new(),
        },
        RayFact::NodeRegistered { node_id, .. } => vec![(MessageKind::NodeUp, node_id.clone())],
        RayFact::NodeDied { node_id, .. } => vec![(MessageKind::NodeGone, node_id.clone())],
        RayFact::JobStarted { job_id, .. } => vec![(MessageKind::JobBegan, job_id.clone())],
        _ => Vec::new(),
    }
}

/// Returns what this node's raylet and processes log.
fn on_node(log: &RayLog, own: Option<&HexId>) -> Option<(MessageKind, HexId)> {
    let of_core = log.file.contains("-core-");
    Some(match &log.fact {
        RayFact::Disconnected {
            worker_id: Some(worker),
            ..
        } => (MessageKind::WorkerLeft, worker.clone()),
        RayFact::OwnerDied {
            owner_worker_id: Some(owner),
            reason,
            ..
        } if EndedWith::of(reason) == EndedWith::Owner => (MessageKind::OwnerGone, owner.clone()),
        // The GCS has it killed once it has entered the owner's exit. The raylet may never say
        // whose end that was.
        RayFact::ForceKillActor { reason, .. } if of_core => {
            let gone = owner_gone(reason).filter(|gone| !gone.node_crashed)?;
            (MessageKind::OwnerGone, gone.owner?)
        }
        RayFact::RayletMarkedDead { reason } if !lost_the_gcs(reason) => {
            (MessageKind::NodeGone, own?.clone())
        }
        RayFact::ActorState {
            state,
            worker_id: Some(worker),
            ..
        } if of_core && state != "ALIVE" => (MessageKind::ActorFailed, worker.clone()),
        _ => return None,
    })
}
