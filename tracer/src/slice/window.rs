//! Selects a span of time: its events, and earlier ones that describe the processes alive then.

use crate::{
    event::{Event, Observation, RecordingStarted},
    ids::{BootTime, ByProcess, ProcessKey, SECOND_NS, WallTime},
};

/// Events this long before the window are kept in full. Each process has at least one sample a
/// minute.
const BEFORE_NS: i64 = 90 * SECOND_NS;

/// A span of time, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first moment.
    pub from: BootTime,
    /// The last moment.
    pub until: BootTime,
}

impl Window {
    /// Returns whether samples at this time are kept.
    pub fn reaches(self, time: BootTime) -> bool {
        time >= self.from.plus(-BEFORE_NS) && time <= self.until
    }

    /// Returns the events of the window, and those before it that describe the machine, the
    /// clusters and the processes still alive.
    pub fn cut(self, events: Vec<Event>) -> Vec<Event> {
        let from = self.from.plus(-BEFORE_NS);
        let ended = ends_before(&events, from);
        let clock = last_clock(&events, from);
        let ended_before = |process: ProcessKey, time: BootTime| {
            ended
                .get(&process.truncated())
                .is_some_and(|end| *end >= time && *end < from)
        };
        let kept = events.into_iter().filter_map(|event| {
            if event.time > self.until {
                // The recorder went on. Without this the slice would look cut off.
                let is_end = matches!(event.what, Observation::RecordingEnded);
                let time = self.until;
                return is_end.then_some(Event { time, ..event });
            }
            if event.time >= from {
                return Some(event);
            }
            match &event.what {
                Observation::RecordingStarted(started) => Some(began(&event, started, from, clock)),
                Observation::Probe(_) | Observation::Cluster(_) => Some(event),
                what => {
                    let process = identity(what)?;
                    (!ended_before(process, event.time)).then_some(event)
                }
            }
        });
        kept.collect()
    }
}

/// Returns the process, if the event describes it for its whole life.
fn identity(what: &Observation) -> Option<ProcessKey> {
    match what {
        Observation::Process(process) => Some(process.process),
        Observation::Worker(worker) => Some(worker.process),
        Observation::Fork { child, .. } => Some(*child),
        Observation::Exec(exec) => Some(exec.process),
        Observation::Title { process, .. } | Observation::DriverSettings { process, .. } => {
            Some(*process)
        }
        _ => None,
    }
}

fn ends_before(events: &[Event], from: BootTime) -> ByProcess<BootTime> {
    let ends = events.iter().filter(|event| event.time < from);
    let ends = ends.filter_map(|event| match &event.what {
        Observation::Exit(exit) => Some((exit.process.truncated(), event.time)),
        _ => None,
    });
    ends.collect()
}

/// Returns the last wall clock reading before the window.
fn last_clock(events: &[Event], from: BootTime) -> Option<(BootTime, WallTime)> {
    let before = events.iter().filter(|event| event.time <= from);
    before
        .filter_map(|event| match &event.what {
            Observation::Clock { wall, .. } => Some((event.time, *wall)),
            Observation::RecordingStarted(started) => Some((event.time, started.wall)),
            _ => None,
        })
        .next_back()
}

/// Makes the first event of the slice: it has the window's time and the id of the recording's first
/// event.
fn began(
    event: &Event,
    started: &RecordingStarted,
    from: BootTime,
    clock: Option<(BootTime, WallTime)>,
) -> Event {
    let (boot, wall) = clock.unwrap_or((event.time, started.wall));
    Event {
        time: from,
        what: Observation::RecordingStarted(RecordingStarted {
            wall: WallTime(wall.0.saturating_add(from.since(boot))),
            part: None,
            previous: None,
            ..started.clone()
        }),
        ..*event
    }
}
