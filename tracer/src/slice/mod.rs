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

/// What is wanted; several wishes hold together.
#[derive(Debug, Clone, Default)]
pub struct SliceFilter {
    /// Only this job.
    pub job: Option<HexId>,
    /// Only this session's cluster, where several on a machine have such a job.
    pub session: Option<String>,
    /// Only this time.
    pub window: Option<Window>,
}

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

/// The events that are wanted, in their order.
pub fn cut(events: Vec<Event>, wanted: &SliceFilter) -> Result<Vec<Event>, SliceError> {
    let mut events = events;
    if let Some(job) = &wanted.job {
        let members = Members::of(&events, job, wanted.session.as_deref())?;
        events = events
            .into_iter()
            .filter_map(|event| members.keep(event))
            .collect();
    }
    if let Some(window) = wanted.window {
        events = window.cut(events);
    }
    Ok(events)
}

/// When the process of this exit event ended.
#[must_use]
pub fn end_of(events: &[Event], exit: EventId) -> Option<BootTime> {
    let is_it = |event: &&Event| event.id == exit && matches!(event.what, Observation::Exit(_));
    events.iter().find(is_it).map(|event| event.time)
}
