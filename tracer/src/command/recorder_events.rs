//! The events of one recorder as they lie in its files: read as often as a form needs them, and never held as a whole.

use std::{ops::ControlFlow, path::PathBuf};

use crate::{
    event::{Event, Observation},
    ids::EventId,
    recording::{self, ReadSummary, RecordingError},
    slice::Members,
};

/// One recorder's events, or those of a job.
pub(super) struct RecorderEvents {
    files: Vec<PathBuf>,
    job: Option<Members>,
    /// Of a recording that is still written, what comes after the first reading is left out.
    last: Option<EventId>,
}

impl RecorderEvents {
    /// All events of files that follow each other.
    pub(super) fn of(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            job: None,
            last: None,
        }
    }

    /// Those that this job's owner may see.
    pub(super) fn of_job(self, job: Members) -> Self {
        let job = Some(job);
        Self { job, ..self }
    }

    /// Reads up to here from now on.
    pub(super) fn up_to(&mut self, last: EventId) {
        self.last = Some(last);
    }

    /// Tells each event, in the order of ids.
    pub(super) fn each(&self, mut tell: impl FnMut(&Event)) -> Result<ReadSummary, RecordingError> {
        self.each_until(|event| {
            tell(event);
            ControlFlow::Continue(())
        })
    }

    /// The same until `tell` has enough.
    pub(super) fn each_until(
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

    /// All but the samples of memory: few of a long recording.
    pub(super) fn without_samples(&self) -> Result<Vec<Event>, RecordingError> {
        let mut events = Vec::new();
        self.each(|event| {
            if !is_sample(event) {
                events.push(event.clone());
            }
        })?;
        Ok(events)
    }
}

/// Whether an event is one of the figures of which a recording has most.
pub(super) fn is_sample(event: &Event) -> bool {
    matches!(
        event.what,
        Observation::Memory(_)
            | Observation::Node(_)
            | Observation::Cgroup(_)
            | Observation::Mapped(_)
    )
}
