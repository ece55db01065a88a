//! Publishes deaths as Kubernetes Events, from a queue and with the pace and back-off of client-go.
//!
//! The queue is saved in the state file of `publish` and sent after a restart. An Event that
//! already exists is not created again.

mod api;
mod budget;

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use jiff::Timestamp;

use crate::{
    ids::MINUTE_NS,
    show::publish::{metrics::EventCounts, pod_event::PodEvent},
};
use api::{Answer, Api};
use budget::{Bucket, Budget, Request};

/// The most deaths in the queue. More are counted as dropped.
const MOST: usize = 256;
/// Older Events are not sent: an API server keeps Events for an hour, so nobody would see them.
const OLD_NS: i64 = 60 * MINUTE_NS;
/// Rate of client-go's `rest.Config`: ten requests at once, then five a second.
const BURST: f64 = 10.0;
const EACH: Duration = Duration::from_millis(200);
/// client-go's `maxTriesPerEvent`.
const TRIES: u32 = 12;
/// The pause after the first failure, and the longest one. The pause doubles after each failure.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The longest pause that an API server may ask for.
const LONGEST: Duration = Duration::from_secs(300);

/// The sending side of the queue.
#[derive(Clone)]
pub(super) struct Events(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<PodEvent>,
    counts: EventCounts,
}

impl Events {
    /// Starts the thread. `waiting` holds the Events that an earlier `publish` did not send.
    pub(super) fn start(folder: &Path, waiting: &[PodEvent]) -> anyhow::Result<Self> {
        let api = Api::of_environment(folder).map_err(super::super::usage)?;
        let events = Self(Arc::default());
        events.push(waiting.to_vec());
        let shared = Arc::clone(&events.0);
        thread::Builder::new()
            .name("k8s-events".into())
            .spawn(move || Sending::new(api).run(&shared))
            .context("cannot start the thread that sends Events")?;
        Ok(events)
    }

    /// Adds Events to the queue.
    pub(super) fn push(&self, events: Vec<PodEvent>) {
        let mut queue = self.0.lock();
        for event in events {
            if queue.waiting.len() < MOST {
                queue.waiting.push_back(event);
            } else {
                queue.counts.dropped += 1;
            }
        }
        self.0.more.notify_one();
    }

    /// Returns the Events in the queue, for the state file.
    pub(super) fn waiting(&self) -> Vec<PodEvent> {
        self.0.lock().waiting.iter().cloned().collect()
    }

    /// Returns how many Events were sent, dropped and failed.
    pub(super) fn counts(&self) -> EventCounts {
        self.0.lock().counts
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> PodEvent {
        let mut queue = self.lock();
        loop {
            if let Some(event) = queue.waiting.front() {
                return event.clone();
            }
            let waited = self.more.wait(queue);
            queue = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, sent: Sent) {
        let mut queue = self.lock();
        queue.waiting.pop_front();
        match sent {
            Sent::Yes => queue.counts.sent += 1,
            Sent::OverBudget => queue.counts.dropped += 1,
            Sent::Failed => queue.counts.failed += 1,
        }
    }
}

/// The outcome of sending an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Yes,
    OverBudget,
    Failed,
}

/// The state of the sending thread.
struct Sending {
    api: Api,
    budget: Budget,
    requests: Bucket,
}

impl Sending {
    fn new(api: Api) -> Self {
        Self {
            api,
            budget: Budget::default(),
            requests: Bucket::new(BURST, EACH, Instant::now()),
        }
    }

    fn run(mut self, shared: &Shared) {
        loop {
            let event = shared.first();
            let sent = self.send(&event);
            shared.done(sent);
        }
    }

    fn send(&mut self, event: &PodEvent) -> Sent {
        let Some(mut request) = self.budget.request(event, Instant::now()) else {
            return Sent::OverBudget;
        };
        for tried in 0..TRIES {
            if is_old(event, Timestamp::now()) {
                return Sent::OverBudget;
            }
            while !self.requests.take(Instant::now()) {
                thread::sleep(self.requests.wait(Instant::now()));
            }
            match self.api.ask(event, &request) {
                Answer::Done => return Sent::Yes,
                Answer::Refused(why) => {
                    tracing::warn!("the API server refused an Event on {}: {why}", event.pod);
                    return Sent::Failed;
                }
                Answer::Gone => {
                    let (Request::Create { message } | Request::Count { message, .. }) = request;
                    request = Request::Create { message };
                }
                Answer::Later(why, after) => {
                    tracing::info!("an Event on {} waits: {why}", event.pod);
                    thread::sleep(pause(tried, after, event));
                }
            }
        }
        tracing::warn!("an Event on {} was given up after {TRIES} tries", event.pod);
        Sent::Failed
    }
}

fn is_old(event: &PodEvent, now: Timestamp) -> bool {
    now.as_nanosecond() - i128::from(event.at) > i128::from(OLD_NS)
}

/// Returns how long to wait after `tried` failures: what the server asks for, else a time that
/// doubles. Half of it depends on a hash of host, death and number, so that nodes do not retry at
/// once.
fn pause(tried: u32, after: Option<Duration>, event: &PodEvent) -> Duration {
    if let Some(after) = after {
        return after.min(LONGEST);
    }
    let whole = (PAUSE.0 * 2_u32.saturating_pow(tried)).min(PAUSE.1);
    let mut hasher = DefaultHasher::new();
    (&event.host, &event.death, tried).hash(&mut hasher);
    whole / 2 + (whole / 2).mul_f64((hasher.finish() >> 32) as f64 / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::publish::pod_event::tests::one;

    #[test]
    fn pause_grows_or_obeys_the_server() {
        let event = one("a", 1);
        let pauses: Vec<Duration> = (0..TRIES).map(|tried| pause(tried, None, &event)).collect();
        assert!(
            pauses[0] >= PAUSE.0 / 2 && pauses[0] <= PAUSE.0,
            "{pauses:?}"
        );
        assert!(pauses.iter().all(|pause| *pause <= PAUSE.1), "{pauses:?}");
        assert!(pauses[11] >= PAUSE.1 / 2, "{pauses:?}");
        let asked = Some(Duration::from_secs(7));
        assert_eq!(pause(0, asked, &event), Duration::from_secs(7));
        assert_eq!(pause(0, Some(Duration::MAX), &event), LONGEST);
    }

    #[test]
    fn queue_is_bounded_and_drops_old_deaths() {
        let events = Events(Arc::default());
        events.push((0..300).map(|number| one("a", number)).collect());
        assert_eq!(events.waiting().len(), MOST);
        assert_eq!(events.counts().dropped, 300 - MOST as u64);
        let event = one("a", 1);
        let at = |seconds: i64| {
            Timestamp::from_nanosecond(i128::from(event.at + seconds * 1_000_000_000))
        };
        assert!(!is_old(&event, at(3599).expect("a time")));
        assert!(is_old(&event, at(3601).expect("a time")));
    }
}
