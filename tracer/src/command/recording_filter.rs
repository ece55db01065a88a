//! Options that choose one node, job or cluster, for every command that reads several recordings.

use super::{recorder_events::RecorderEvents, usage};
use crate::{
    cgroup_path,
    ids::HexId,
    judge::report::Report,
    show::recording_filter::RecordingFilter,
    slice::{Members, Place, SliceError},
};

/// The options.
#[derive(Debug, Default, clap::Args)]
pub struct RecordingFilterArgs {
    /// Only this node: its name, or the first 4 or more digits of its id.
    #[arg(long, value_name = "NODE", help_heading = "Selection")]
    node: Option<String>,
    /// Only this job: Ray's job id, as the report prints it (01000000).
    #[arg(long, value_name = "ID", value_parser = job, help_heading = "Selection")]
    job: Option<HexId>,
    /// Only this cluster: its session's name, or part of it.
    #[arg(long, value_name = "SESSION", help_heading = "Selection")]
    cluster: Option<String>,
    /// Only this Slurm job: its number, as squeue prints it.
    #[arg(long, value_name = "NUMBER", value_parser = slurm_job, help_heading = "Selection")]
    slurm_job: Option<String>,
    /// Only this pod: NAMESPACE/NAME, its name, or its uid.
    #[arg(long, value_name = "POD", help_heading = "Selection")]
    pod: Option<String>,
}

impl RecordingFilterArgs {
    /// Converts the options into a selection.
    pub(super) fn to_filter(&self) -> RecordingFilter {
        RecordingFilter {
            node: self.node.clone(),
            job: self.job.clone(),
            cluster: self.cluster.clone(),
            slurm_job: self.slurm_job.clone(),
            pod: self.pod.clone(),
        }
    }
}

/// Parses a job's id as Ray prints it.
pub(super) fn job(text: &str) -> Result<HexId, String> {
    HexId::parse(text)
        .filter(|id| id.0.len() == 8)
        .ok_or_else(|| format!("invalid job id {text}: 8 hexadecimal digits, for example 01000000"))
}

/// Parses the number of a Slurm job.
pub(super) fn slurm_job(text: &str) -> Result<String, String> {
    let is_number = cgroup_path::is_slurm_id(text);
    is_number.then(|| text.to_owned()).ok_or_else(|| {
        format!("invalid Slurm job {text}: a number, for example 4711; of an array's task, the one that squeue -o %A prints")
    })
}

/// Returns what is selected of recording `number` in the report: all of its events, those of a job,
/// or nothing.
pub(super) fn of_recording(
    filter: &RecordingFilter,
    (report, number): (&Report, u32),
    events: RecorderEvents,
) -> anyhow::Result<Option<RecorderEvents>> {
    if !filter.has_recording(report, number) {
        return Ok(None);
    }
    let slurm_job = filter.slurm_job.clone().map(Place::SlurmJob);
    let pod = filter.pod.clone().map(Place::Pod);
    let members = match (&filter.job, slurm_job, pod) {
        (None, None, None) => return Ok(Some(events)),
        (Some(job), None, None) => {
            let session = filter.session(report);
            Members::of(&events.without_samples()?, job, session.as_deref())
        }
        (None, Some(place), None) | (None, None, Some(place)) => {
            Members::of_place(&events.without_samples()?, &place)
        }
        _ => {
            let message = "only one of --job, --slurm-job and --pod can choose events";
            return Err(usage(message.to_owned()));
        }
    };
    match members {
        Ok(members) => Ok(Some(events.of_job(members))),
        Err(SliceError::NoSuchJob(_) | SliceError::NothingThere(_)) => Ok(None),
        Err(error) => Err(usage(format!(
            "{error}; name one of them: --cluster SESSION"
        ))),
    }
}

/// Returns the error for a selection that matches no recording.
pub(super) fn nothing() -> anyhow::Error {
    usage(
        "no recording matches the selection; list nodes and jobs: raytrace report FILES".to_owned(),
    )
}
