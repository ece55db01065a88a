//! A job ends on its driver's node; what ended it may have died on another.

use std::collections::HashMap;

use crate::{
    ids::EventId,
    judge::report::{Because, Death, Job, Outcome, Report},
};

/// Names the first cause of each failed job, on whatever node.
pub(super) fn ended_elsewhere(report: &mut Report) {
    let by_id: HashMap<EventId, &Death> = report
        .deaths
        .iter()
        .map(|death| (death.id, death))
        .collect();
    let found: Vec<Option<(EventId, Option<Because>)>> = report
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

/// The death at the root of what ended a job, and why it is that one, where another recording says so.
fn first_cause(
    job: &Job,
    deaths: &[Death],
    by_id: &HashMap<EventId, &Death>,
) -> Option<(EventId, Option<Because>)> {
    let ended_by = job.ended_by_death_id?;
    if job.outcome != Outcome::Failed {
        return Some((ended_by, None));
    }
    let driver = deaths.iter().find(|death| {
        Some(death.process.pid) == job.driver_pid
            && death.recording_id == job.recording_id
            && death
                .work
                .job_id
                .as_ref()
                .is_none_or(|id| *id == job.job_id)
            && death.process.role == crate::event::Role::Driver
    });
    // What the driver's own log names decides over the order of deaths.
    let linked = driver.filter(|driver| driver.verdict.cause_link.is_some());
    let from = linked.or_else(|| by_id.get(&ended_by).copied())?;
    let root = root(by_id, from);
    let because = linked.and_then(|driver| {
        let link = driver.verdict.cause_link.as_ref()?;
        Some(Because::OnAnotherNode {
            code: driver.end.exit_code,
            link: link.because.clone(),
            node: link.node.clone(),
        })
    });
    Some((root.id, because))
}

fn root<'a>(by_id: &HashMap<EventId, &'a Death>, death: &'a Death) -> &'a Death {
    let next = |death: &&'a Death| by_id.get(&death.verdict.cause()?).copied();
    // No chain bites its own tail, and none is as long.
    std::iter::successors(Some(death), next)
        .take(64)
        .last()
        .unwrap_or(death)
}
