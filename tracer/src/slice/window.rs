//! A span of time: what happens in it, and of what was before the rows that say who was there.

use crate::{
    event::{Event, Observation, RecordingStarted},
    ids::{BootTime, ByProcess, ProcessKey, SECOND_NS, WallTime},
};

/// What is true of a process is said in a minute before at the latest: each has a sample then.
const BEFORE_NS: i64 = 90 * SECOND_NS;

/// From one moment to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// From.
    pub from: BootTime,
    /// To, that moment included.
    pub until: BootTime,
}

impl Window {
    /// Whether samples of this time may be kept.
    #[must_use]
    pub fn reaches(self, time: BootTime) -> bool {
        time >= self.from.plus(-BEFORE_NS) && time <= self.until
    }

    /// The events of the window, and of what came before it who lived and what held then.
    #[must_use]
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
                return None;
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

/// The process that an event describes for as long as it lives.
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

/// The last statement of the wall clock before the window.
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

/// The slice begins with its window, under the id of the recording's own first event.
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
