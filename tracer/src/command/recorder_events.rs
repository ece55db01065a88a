//! Reads the events of one recorder from its files, as often as needed and never all at once.

use std::{ops::ControlFlow, path::PathBuf};

use crate::{
    event::{Event, Observation},
    ids::EventId,
    recording::{self, ReadSummary, RecordingError},
    slice::Members,
};

/// The events of one recorder, or those of a job in them.
pub(super) struct RecorderEvents {
    files: Vec<PathBuf>,
    job: Option<Members>,
    /// The last event to read: later events of a recording that is still written are left out.
    last: Option<EventId>,
}

impl RecorderEvents {
    /// Selects all events of files that follow each other.
    pub(super) fn of(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            job: None,
            last: None,
        }
    }

    /// Keeps only what the job's owner may see.
    pub(super) fn of_job(self, job: Members) -> Self {
        let job = Some(job);
        Self { job, ..self }
    }

    /// Sets the last event to read.
    pub(super) fn up_to(&mut self, last: EventId) {
        self.last = Some(last);
    }

    /// Calls `tell` for each event, in the order of ids.
    pub(super) fn for_each(
        &self,
        mut tell: impl FnMut(&Event),
    ) -> Result<ReadSummary, RecordingError> {
        self.try_for_each(|event| {
            tell(event);
            ControlFlow::Continue(())
        })
    }

    /// Calls `tell` for each event until it breaks.
    pub(super) fn try_for_each(
        &self,
        mut tell: impl FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<ReadSummary, RecordingError> {
        recording::parts_in_batches_until(&self.files, |batch| {
            let wanted = |event: &Event| self.last.is_none_or(|last| event.id <= last);
            let events = batch.into_iter().filter(wanted);
            let mut events = events.filter_map(|event| match &self.job {
                Some(job) => job.keep(event),
                None => Some(event),
            });
            events.try_for_each(|event| tell(&event))
        })
    }

    /// Returns all events except memory samples: few, even of a long recording.
    pub(super) fn without_samples(&self) -> Result<Vec<Event>, RecordingError> {
        let mut events = Vec::new();
        self.for_each(|event| {
            if !is_sample(event) {
                events.push(event.clone());
            }
        })?;
        Ok(events)
    }
}

/// Returns whether an event is a memory sample, the most frequent kind of event.
pub(super) fn is_sample(event: &Event) -> bool {
    matches!(
        event.what,
        Observation::Memory(_)
            | Observation::Node(_)
            | Observation::Cgroup(_)
            | Observation::Mapped(_)
    )
}
