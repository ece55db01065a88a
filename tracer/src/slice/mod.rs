//! A part of a recording as a recording of its own: one job, one death, or a span of time. Pure: events in, fewer events out.
//!
//! What is kept of a job is listed kind by kind: an event that is not known to be the job's is left out.

mod job;
mod log_facts;
#[cfg(test)]
mod tests;
mod window;

use crate::{
    event::{Event, Observation},
    ids::{BootTime, EventId, HexId},
};
pub use job::Members;
pub use window::Window;

/// Why nothing can be cut out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// No process is known to be of the job.
    #[error("no process of job {0} is in the recording")]
    NoSuchJob(HexId),
    /// Jobs are numbered anew in each cluster.
    #[error("job {job} is in several clusters of this machine: {}", sessions.join(", "))]
    SeveralClusters {
        /// The job.
        job: HexId,
        /// Their sessions.
        sessions: Vec<String>,
    },
}

/// When the process of this exit event ended.
#[must_use]
pub fn end_of(events: &[Event], exit: EventId) -> Option<BootTime> {
    let is_it = |event: &&Event| event.id == exit && matches!(event.what, Observation::Exit(_));
    events.iter().find(is_it).map(|event| event.time)
}
