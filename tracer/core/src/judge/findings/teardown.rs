//! Finds deaths around the end of a successful job: Ray cleaned up, which is no problem.

use super::Run;
use crate::{
    ids::SECOND_NS,
    judge::report::{Certainty, Death, Finding, Job, Killer, Outcome},
    phrase,
};

/// Deaths this long before and after the job's end are around it.
const NEAR_NS: i64 = 10 * SECOND_NS;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let succeeded = run
        .report
        .jobs
        .iter()
        .filter(|job| job.outcome == Outcome::Succeeded);
    succeeded.filter_map(|job| noise(run, job)).collect()
}

fn noise(run: Run<'_>, job: &Job) -> Option<Finding> {
    let end = job.ended?.0.0;
    let deaths: Vec<&Death> = run
        .report
        .deaths
        .iter()
        .filter(|death| death.listed && death.cluster == job.cluster)
        .filter(|death| death.work.job_id.as_ref() == Some(&job.job_id))
        .filter(|death| matches!(death.verdict.killer, Killer::RayCollapse | Killer::Unknown))
        .filter(|death| {
            death
                .when
                .time
                .is_some_and(|time| (time.0.0 - end).abs() <= NEAR_NS)
        })
        .collect();
    if deaths.is_empty() {
        return None;
    }
    let summary = format!(
        "{} of job {} ended within 10 s of its end, and the job succeeded: Ray was cleaning up",
        phrase::count(deaths.len(), "process", "processes"),
        job.job_id
    );
    Some(Finding {
        evidence: vec!["its driver exited with code 0".into()],
        not_if: Some("the job's results are incomplete".into()),
        deaths: deaths.iter().map(|death| death.id).collect(),
        ..Finding::new("teardown", Certainty::Inferred, summary)
    })
}
