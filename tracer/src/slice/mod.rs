//! Makes a recording of a part of one: a job, a death, or a span of time. Pure.
//!
//! For a job, each kind of event is selected by its own rule. An event that is not known to belong
//! to the job is left out.

mod job;
mod log_facts;
#[cfg(test)]
mod tests;
mod window;

use crate::{
    event::{Event, Observation},
    ids::{BootTime, EventId, HexId},
};
pub use job::{Members, Place};
pub use window::Window;

/// Why no slice can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// No process in the recording is known to belong to the job.
    #[error("no process of job {0} is in the recording")]
    NoSuchJob(HexId),
    /// No process in the recording is known to have run there.
    #[error("no process of {0} is in the recording")]
    NothingThere(Place),
    /// No cluster that has this job has such a session.
    #[error("job {job} is in no cluster of this name; it is in {}", sessions.join(", "))]
    NoSuchCluster {
        /// The job.
        job: HexId,
        /// The sessions of the clusters that have it.
        sessions: Vec<String>,
    },
    /// Several clusters have this job, since each cluster numbers its jobs from one.
    #[error("job {job} is in several clusters: {}", sessions.join(", "))]
    SeveralClusters {
        /// The job.
        job: HexId,
        /// The sessions of these clusters.
        sessions: Vec<String>,
    },
}

/// Returns when the process of this exit event ended.
pub fn end_of(events: &[Event], exit: EventId) -> Option<BootTime> {
    let is_it = |event: &&Event| event.id == exit && matches!(event.what, Observation::Exit(_));
    events.iter().find(is_it).map(|event| event.time)
}
