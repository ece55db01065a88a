//! Finds what to change when Slurm ended a job: time, memory, or a checkpoint before the end.

use std::collections::BTreeMap;

use super::Run;
use crate::judge::{
    cause::{SlurmEnd, SlurmReason, slurm},
    report::{Certainty, Death, Finding},
};

/// Asks Slurm for a signal before it ends a job.
const WARN: &str = "to save a checkpoint before the end: #SBATCH --signal=USR1@90 with a handler in the program, and #SBATCH --requeue (examples/warn)";

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let mut acts: BTreeMap<_, Vec<(&SlurmEnd, &Death)>> = BTreeMap::new();
    for death in run.report.deaths.iter().filter(|death| death.listed) {
        if let Some(end) = death.verdict.cause.by_slurm() {
            acts.entry(end.job_id.as_deref())
                .or_default()
                .push((end, death));
        }
    }
    acts.into_values().filter_map(|act| finding(&act)).collect()
}

fn finding(act: &[(&SlurmEnd, &Death)]) -> Option<Finding> {
    // What was asked first may not show the reason that the later kill shows.
    let shown = |end: &SlurmEnd| end.reason != SlurmReason::NotShown;
    let (end, _) = act.iter().find(|(end, _)| shown(end)).or(act.first())?;
    let job = end.job_id.as_deref().unwrap_or("JOB");
    let ask = format!("see why: {}", slurm::sacct(job));
    let remedy = match &end.reason {
        SlurmReason::NotShown => vec![
            ask,
            "if it was the time limit: more --time".to_owned(),
            WARN.to_owned(),
        ],
        SlurmReason::TimeLimit => vec!["more --time".to_owned(), WARN.to_owned()],
        SlurmReason::OverMemory { .. } => {
            vec!["more --mem, or less memory in the job".to_owned(), ask]
        }
        SlurmReason::OtherTaskFailed { code, .. } => vec![format!(
            "look at the output of the task that exited with code {code}; without --kill-on-bad-exit the other tasks go on"
        )],
        SlurmReason::TaskEnded { .. } => {
            vec!["the batch script must wait for what it starts in the background: wait".to_owned()]
        }
        SlurmReason::Requested => return None,
    };
    Some(Finding {
        remedy,
        deaths: act.iter().map(|(_, death)| death.id).collect(),
        ..Finding::new("slurm-ended", Certainty::Inferred, end.act())
    })
}
