//! Selects what Ray's logs say about one job.

use std::collections::HashSet;

use crate::{
    event::{Event, Observation, RayLog, Worker},
    ids::{ByProcess, HexId, ProcessKey},
    ray::{
        facts::{Candidate, MonitorKill, RayFact},
        gcs::GcsRow,
        log::file_name,
    },
};

/// Replaces the text of a kill record, because its first line may name every candidate.
const KILL_RECORD: &str = "a kill record of Ray's memory monitor";

/// The ids of a job.
#[derive(Clone, Copy)]
pub(super) struct JobIds<'a> {
    pub(super) job: &'a HexId,
    /// The raylet of its cluster.
    pub(super) cluster: ProcessKey,
    pub(super) workers: &'a HashSet<HexId>,
}

/// Returns whether a worker or driver belongs to the job.
pub(super) fn is_of_job(worker: &Worker, job: &HexId) -> bool {
    let drives = worker.driver && worker.worker_id.0.starts_with(&job.0);
    drives || worker.job_id.as_ref() == Some(job)
}

/// Returns the cluster of each described process.
pub(super) fn clusters_of_processes(events: &[Event]) -> ByProcess<ProcessKey> {
    let of_event = |event: &Event| match &event.what {
        Observation::Process(process) => {
            let cluster = process.cluster?.truncated();
            Some((process.process.truncated(), cluster))
        }
        _ => None,
    };
    events.iter().filter_map(of_event).collect()
}

/// Returns the ids of the job's workers in a cluster.
pub(super) fn workers_of(events: &[Event], cluster: ProcessKey, job: &HexId) -> HashSet<HexId> {
    let mut workers = HashSet::new();
    let own = Some(job);
    let clusters = clusters_of_processes(events);
    let is_here = |process: ProcessKey| clusters.get(&process.truncated()) == Some(&cluster);
    for event in events {
        let record = match &event.what {
            Observation::Worker(worker) if is_of_job(worker, job) && is_here(worker.process) => {
                workers.insert(worker.worker_id.clone());
                continue;
            }
            Observation::RayLog(record) => record,
            _ => continue,
        };
        if !record.cluster.is_some_and(|of| of.same(cluster)) {
            continue;
        }
        match &record.fact {
            RayFact::Marker {
                name,
                value,
                worker_id: Some(worker),
            } if name == "job_id" && *value == job.0 => {
                workers.insert(worker.clone());
            }
            RayFact::Disconnected {
                worker_id: Some(worker),
                job_id,
                ..
            } if job_id.as_ref() == own => {
                workers.insert(worker.clone());
            }
            RayFact::Gcs(GcsRow::Actor(actor)) if actor.job_id.as_ref() == own => {
                workers.extend(actor.worker_id.clone());
            }
            RayFact::ActorState {
                actor_id,
                worker_id: Some(worker),
                ..
            } if actor_id.job_of_actor().as_ref() == own => {
                workers.insert(worker.clone());
            }
            RayFact::MonitorKill(kill) => {
                let of_job = kill.selected.iter().chain(&kill.spared);
                let of_job = of_job.filter(|one| one.job_id.as_ref() == own);
                workers.extend(of_job.filter_map(|one| one.worker_id.clone()));
            }
            _ => {}
        }
    }
    workers
}

/// Returns the record as the job's owner may see it, or nothing.
pub(super) fn keep(own: JobIds<'_>, record: RayLog) -> Option<RayLog> {
    if !record.cluster.is_some_and(|of| of.same(own.cluster)) {
        return None;
    }
    if let RayFact::MonitorKill(kill) = &record.fact {
        let kill = own_part(own, kill)?;
        return Some(RayLog {
            text: KILL_RECORD.to_owned(),
            fact: RayFact::MonitorKill(kill),
            ..record
        });
    }
    // A worker's or driver's own file belongs to one job.
    let writer = file_name::parse(&record.file).and_then(|name| name.worker_id);
    let by_own = writer.map(|writer| own.workers.contains(&writer));
    match by_own {
        Some(true) => Some(record),
        Some(false) => None,
        None => is_about(own, &record.fact).then_some(record),
    }
}

/// Returns whether a record of Ray's own processes is about the node or about this job.
///
/// A pid alone is not enough, because it may belong to another job. Output of a process belongs to
/// the job that its file's name states.
fn is_about(own: JobIds<'_>, fact: &RayFact) -> bool {
    let about = fact.about();
    about.node
        || about.jobs.contains(own.job)
        || about.workers.iter().any(|id| own.workers.contains(id))
}

/// Reduces a kill record to the node's figures and the job's own workers. Returns nothing if none
/// of them was selected.
fn own_part(job: JobIds<'_>, kill: &MonitorKill) -> Option<MonitorKill> {
    let own = |one: &&Candidate| {
        let by_job = one.job_id.as_ref() == Some(job.job);
        let by_id = |id: &HexId| job.workers.contains(id);
        by_job || one.worker_id.as_ref().is_some_and(by_id)
    };
    let selected: Vec<Candidate> = kill.selected.iter().filter(own).cloned().collect();
    if selected.is_empty() {
        return None;
    }
    let spared: Vec<Candidate> = kill.spared.iter().filter(own).cloned().collect();
    let is_own = |pid| {
        let mut own = selected.iter().chain(&spared);
        own.any(|one| one.pid == Some(pid))
    };
    let top = kill.top.iter().filter(|user| is_own(user.pid));
    let top = top.cloned().collect();
    Some(MonitorKill {
        selected,
        spared,
        top,
        ..kill.clone()
    })
}
