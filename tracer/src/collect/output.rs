//! Passes events to the recording and the judge, and collects the deaths to report.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    deaths::{self, DeathUpdate, Deaths},
    event::{Event, LimitWarning, Observation, Source},
    ids::{BootTime, EventId},
    judge::{Judge, forecast::LimitForecaster, report::Utc},
    observe::clock,
    recording,
};

/// Gives events their ids. The threads that make events share it.
#[derive(Clone, Default)]
pub struct Ids(Arc<AtomicU64>);

impl Ids {
    /// Returns the next id; the first is 1.
    pub fn next(&self) -> EventId {
        EventId(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// The recording, the judge, and what was not reported yet.
pub(super) struct Output {
    pub(super) ids: Ids,
    pub(super) recording: recording::Sender,
    judge: Judge,
    deaths: Deaths,
    forecaster: LimitForecaster,
    /// Warnings that the caller has not taken yet.
    warnings: Vec<(BootTime, LimitWarning)>,
    /// Whether the recording has ended, so that no verdict waits any longer.
    over: bool,
}

impl Output {
    pub(super) fn new(ids: Ids, recording: recording::Sender) -> Self {
        Self {
            ids,
            recording,
            judge: Judge::default(),
            deaths: Deaths::default(),
            forecaster: LimitForecaster::default(),
            warnings: Vec::new(),
            over: false,
        }
    }

    /// Records the end: no more events follow.
    pub(super) fn end(&mut self) {
        self.emit_now(Source::Recorder, Observation::RecordingEnded);
        self.over = true;
    }

    /// Records an observation that the collector made itself.
    pub(super) fn emit(&mut self, source: Source, time: BootTime, what: Observation) {
        let event = Event {
            id: self.ids.next(),
            time,
            source,
            what,
        };
        self.observe(&event);
        self.recording.send(event);
    }

    /// Does the same for an observation made now.
    pub(super) fn emit_now(&mut self, source: Source, what: Observation) {
        self.emit(source, clock::boot(), what);
    }

    /// Takes an event that the recording has, or is about to get.
    pub(super) fn observe(&mut self, event: &Event) {
        self.judge.observe(event);
        match &event.what {
            Observation::Exit(exit) => self.deaths.add(event.id, exit.process, event.time),
            Observation::Call(call) => self.forecaster.called(call),
            _ => {}
        }
    }

    /// Returns the judge, which knows everything observed so far.
    pub(super) fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Forgets what logs said long ago.
    pub(super) fn drop_old_log_records(&mut self) {
        self.judge.drop_old_log_records();
    }

    /// Forecasts when each limit will be hit, and records warnings that begin or end.
    pub(super) fn forecast_limits(&mut self) {
        let now = clock::boot();
        for warning in self.forecaster.look(now, &self.judge) {
            self.warnings.push((now, warning.clone()));
            self.emit(Source::Recorder, now, Observation::LimitWarning(warning));
        }
    }

    /// Returns warnings that began or ended since the last call, each with its time.
    pub(super) fn warnings(&mut self) -> Vec<(Option<Utc>, LimitWarning)> {
        let told = std::mem::take(&mut self.warnings);
        let wall = |(time, warning)| (self.judge.wall(time), warning);
        told.into_iter().map(wall).collect()
    }

    /// Returns deaths with a verdict that is new or has settled since the last call.
    pub(super) fn take_updates(&mut self) -> Vec<DeathUpdate> {
        let now = clock::boot();
        let now = if self.over {
            deaths::time_when_all_settled(now)
        } else {
            now
        };
        let (told, done) = self.deaths.take_due(&self.judge, now);
        for update in &told {
            self.forecaster.died(&update.death);
        }
        for process in done {
            self.judge.forget(process);
        }
        told
    }

    /// Whether a verdict waits for Ray's logs.
    pub(super) fn any_waiting(&self) -> bool {
        self.deaths.any_waiting(clock::boot())
    }
}
