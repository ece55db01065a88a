//! Joins jobs across nodes. A job ends on its driver's node; its cause may be on another.

use std::{collections::HashMap, mem};

use super::nodes;
use crate::{
    ids::{EventId, HexId},
    judge::report::{Death, Job, Outcome, OutcomeReason, Report, SurvivedDeath, Utc},
};

/// Keeps each job once if several recordings of the head have it, from the one that knows its end
/// best.
pub(super) fn unite(report: &mut Report) {
    let groups = nodes::groups(report);
    let jobs = mem::take(&mut report.jobs);
    let mut places: HashMap<(usize, HexId), usize> = HashMap::new();
    let mut united: Vec<Job> = Vec::new();
    for job in jobs {
        let group = job.cluster.and_then(|one| groups.get(one as usize));
        let key = group.map(|group| (*group, job.job_id.clone()));
        let known = key.as_ref().and_then(|key| places.get(key)).copied();
        match known {
            Some(at) if united[at].recording_id != job.recording_id => {
                let knows_more = knowledge(report, &job) > knowledge(report, &united[at]);
                let other = if knows_more {
                    mem::replace(&mut united[at], job)
                } else {
                    job
                };
                add(&mut united[at], other);
            }
            _ => {
                places.extend(key.map(|key| (key, united.len())));
                united.push(job);
            }
        }
    }
    report.jobs = united;
}

/// Ranks what a recording knows of a job: its end, then the death of its driver, then the later
/// end.
fn knowledge(report: &Report, job: &Job) -> (bool, bool, Option<Utc>) {
    let ended = job.outcome != Outcome::Running;
    (ended, driver(&report.deaths, job).is_some(), job.ended)
}

/// Adds what another recording knows of the same job.
fn add(job: &mut Job, other: Job) {
    job.entrypoint = job.entrypoint.take().or(other.entrypoint);
    job.framework = job.framework.take().or(other.framework);
    job.last_step = job.last_step.or(other.last_step);
    for survived in other.survived {
        let is_known = |known: &SurvivedDeath| known.death_id == survived.death_id;
        if job.ended_by_death_id != Some(survived.death_id) && !job.survived.iter().any(is_known) {
            job.survived.push(survived);
        }
    }
}

/// Returns the death of a job's driver.
fn driver<'a>(deaths: &'a [Death], job: &Job) -> Option<&'a Death> {
    deaths.iter().find(|death| {
        Some(death.process.pid) == job.driver_pid
            && death.recording_id == job.recording_id
            && death
                .work
                .job_id
                .as_ref()
                .is_none_or(|id| *id == job.job_id)
            && death.process.role == crate::event::Role::Driver
    })
}

/// Names the first cause of each failed job, on any node.
pub(super) fn ended_elsewhere(report: &mut Report) {
    let by_id: HashMap<EventId, &Death> = report
        .deaths
        .iter()
        .map(|death| (death.id, death))
        .collect();
    let found: Vec<Option<(EventId, Option<OutcomeReason>)>> = report
        .jobs
        .iter()
        .map(|job| first_cause(job, &report.deaths, &by_id))
        .collect();
    for (job, found) in report.jobs.iter_mut().zip(found) {
        let Some((cause, because)) = found else {
            continue;
        };
        job.ended_by_death_id = Some(cause);
        job.ended_by_recording_id = Some(cause.recording());
        job.survived.retain(|survived| survived.death_id != cause);
        if let Some(because) = because {
            job.because = because;
        }
    }
}

/// Returns the first death in the chain that ended a job, and the reason, if another recording has
/// them.
fn first_cause(
    job: &Job,
    deaths: &[Death],
    by_id: &HashMap<EventId, &Death>,
) -> Option<(EventId, Option<OutcomeReason>)> {
    let ended_by = job.ended_by_death_id?;
    if job.outcome != Outcome::Failed {
        return Some((ended_by, None));
    }
    let driver = driver(deaths, job);
    // What the driver's own log names takes precedence over the order of deaths.
    let linked = driver.filter(|driver| driver.verdict.cause_link.is_some());
    let from = linked.or_else(|| by_id.get(&ended_by).copied())?;
    let root = root(by_id, from);
    let because = linked.and_then(|driver| {
        let link = driver.verdict.cause_link.as_ref()?;
        Some(OutcomeReason::OnAnotherNode {
            code: driver.end.exit_code,
            link: link.because.clone(),
            node: link.node.clone(),
        })
    });
    Some((root.id, because))
}

fn root<'a>(by_id: &HashMap<EventId, &'a Death>, death: &'a Death) -> &'a Death {
    let next = |death: &&'a Death| by_id.get(&death.verdict.cause()?).copied();
    // Chains of causes have no cycle, and none is this long.
    std::iter::successors(Some(death), next)
        .take(64)
        .last()
        .unwrap_or(death)
}
