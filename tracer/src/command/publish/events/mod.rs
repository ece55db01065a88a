//! Publishes deaths as Kubernetes Events, from a queue and with the pace and back-off of client-go.
//!
//! The queue is saved in the state file of `publish` and sent after a restart. An Event that
//! already exists is not created again.

mod api;
mod budget;

use std::{
    collections::{HashMap, VecDeque},
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
const MOST: usize = 1024;
/// The most of one namespace. Where none may be created they wait, and must not take the places of
/// others.
const MOST_OF_ONE: usize = MOST / 4;
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
/// How long no Event is sent to a namespace where none may be created. Others go on.
const FORBIDDEN: Duration = Duration::from_secs(60);

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
    waiting: VecDeque<Waiting>,
    counts: EventCounts,
    /// Until when nothing is sent to a namespace.
    forbidden: HashMap<String, Instant>,
}

/// An Event in the queue, and its request if that was made before.
#[derive(Clone)]
struct Waiting {
    event: PodEvent,
    request: Option<Request>,
}

impl Queue {
    fn has_room(&self, namespace: &str) -> bool {
        let waiting = self.waiting.iter();
        let own = waiting.filter(|one| one.event.namespace == namespace);
        self.waiting.len() < MOST && own.count() < MOST_OF_ONE
    }

    /// Returns the first Event that may be sent now.
    fn next(&mut self, now: Instant) -> Option<Waiting> {
        self.forbidden.retain(|_, until| now < *until);
        let forbidden = &self.forbidden;
        let mut waiting = self.waiting.iter();
        let next = waiting.find(|one| !forbidden.contains_key(&one.event.namespace));
        next.cloned()
    }
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
            if queue.has_room(&event.namespace) {
                queue.waiting.push_back(Waiting {
                    event,
                    request: None,
                });
            } else {
                queue.counts.dropped += 1;
            }
        }
        self.0.more.notify_one();
    }

    /// Counts deaths in pods without a name, and says so once.
    pub(super) fn count_unnamed(&self, uids: &[String]) {
        let mut queue = self.0.lock();
        if let Some(uid) = uids.first().filter(|_| queue.counts.unnamed == 0) {
            tracing::warn!(
                "no Event for a death in pod {uid}: neither /var/log/pods nor RAY_CLUSTER_NAMESPACE \
                 and RAY_CLOUD_INSTANCE_ID name it; more of these are only counted"
            );
        }
        queue.counts.unnamed += uids.len() as u64;
    }

    /// Returns the Events in the queue, for the state file.
    pub(super) fn waiting(&self) -> Vec<PodEvent> {
        let queue = self.0.lock();
        queue.waiting.iter().map(|one| one.event.clone()).collect()
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

    fn first(&self) -> Waiting {
        let mut queue = self.lock();
        loop {
            if let Some(next) = queue.next(Instant::now()) {
                return next;
            }
            let until = queue.forbidden.values().min();
            let pause = until.map_or(FORBIDDEN, |until| until.duration_since(Instant::now()));
            let waited = self.more.wait_timeout(queue, pause);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes what became of an Event that [`Self::first`] returned.
    fn done(&self, event: &PodEvent, sent: Sent) {
        let mut queue = self.lock();
        let at = queue.waiting.iter().position(|one| one.event == *event);
        let waiting = at.and_then(|at| queue.waiting.remove(at));
        match sent {
            Sent::Yes => queue.counts.sent += 1,
            Sent::OverBudget => queue.counts.dropped += 1,
            Sent::Failed => queue.counts.failed += 1,
            Sent::Forbidden(request) => {
                let until = Instant::now() + FORBIDDEN;
                queue.forbidden.insert(event.namespace.clone(), until);
                queue.waiting.extend(waiting.map(|waiting| Waiting {
                    request: Some(request),
                    ..waiting
                }));
            }
        }
    }
}

/// The outcome of sending an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
    Yes,
    OverBudget,
    Failed,
    /// This request may be sent later.
    Forbidden(Request),
}

/// The state of the sending thread.
struct Sending {
    api: Api,
    budget: Budget,
    requests: Bucket,
    /// Whether it was said that Events wait.
    said: bool,
}

impl Sending {
    fn new(api: Api) -> Self {
        Self {
            api,
            budget: Budget::default(),
            requests: Bucket::new(BURST, EACH, Instant::now()),
            said: false,
        }
    }

    fn run(mut self, shared: &Shared) {
        loop {
            let waiting = shared.first();
            let sent = self.send(&waiting);
            shared.done(&waiting.event, sent);
        }
    }

    fn send(&mut self, waiting: &Waiting) -> Sent {
        let event = &waiting.event;
        // One that is too old takes nothing of its pod's budget.
        if is_old(event, Timestamp::now()) {
            return Sent::OverBudget;
        }
        let request = waiting.request.clone();
        let request = request.or_else(|| self.budget.request(event, Instant::now()));
        let Some(mut request) = request else {
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
                Answer::Done => {
                    self.goes_on();
                    return Sent::Yes;
                }
                Answer::Forbidden(why) => {
                    self.waits(event, &why);
                    return Sent::Forbidden(request);
                }
                Answer::Refused(why) => {
                    tracing::warn!("the API server refused an Event on {}: {why}", event.pod);
                    return Sent::Failed;
                }
                Answer::Gone => {
                    let (Request::Create { message } | Request::Count { message, .. }) = request;
                    request = Request::Create { message };
                }
                Answer::Later(why, after) => {
                    self.waits(event, &why);
                    thread::sleep(pause(tried, after, event));
                }
            }
        }
        tracing::warn!("an Event on {} was given up after {TRIES} tries", event.pod);
        Sent::Failed
    }

    /// Says once that Events wait, and each time only with `-v`.
    fn waits(&mut self, event: &PodEvent, why: &str) {
        if std::mem::replace(&mut self.said, true) {
            tracing::info!("an Event on {} waits: {why}", event.pod);
        } else {
            tracing::warn!("an Event on {} waits, and is tried again: {why}", event.pod);
        }
    }

    fn goes_on(&mut self) {
        if std::mem::take(&mut self.said) {
            tracing::warn!("Events are sent again");
        }
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

    /// An Event that may not be created waits, keeps its request, and stops no other namespace.
    #[test]
    fn forbidden_namespace_waits_and_others_go_on() {
        let shared = Shared::default();
        let (mut first, second) = (one("a", 1), one("b", 2));
        first.namespace = "closed".into();
        let waiting = [&first, &second].map(|event| Waiting {
            event: event.clone(),
            request: None,
        });
        shared.lock().waiting.extend(waiting);
        assert_eq!(shared.first().event, first);
        let request = Request::Create {
            message: "m".into(),
        };
        shared.done(&first, Sent::Forbidden(request.clone()));
        assert_eq!(shared.first().event, second);
        shared.done(&second, Sent::Yes);
        let later = Instant::now() + 2 * FORBIDDEN;
        assert!(shared.lock().next(Instant::now()).is_none());
        let next = shared.lock().next(later).expect("it is tried again");
        assert_eq!((next.event, next.request), (first, Some(request)));
        assert_eq!(shared.lock().counts.failed, 0);
    }

    #[test]
    fn queue_is_bounded_and_drops_old_deaths() {
        let events = Events(Arc::default());
        // Those of one namespace leave room for others.
        for namespace in 0..5 {
            let all = (0..300).map(|number| PodEvent {
                namespace: namespace.to_string(),
                ..one("a", number)
            });
            events.push(all.collect());
            let waiting = MOST.min((namespace + 1) * MOST_OF_ONE);
            assert_eq!(events.waiting().len(), waiting);
        }
        assert_eq!(events.counts().dropped, 1500 - MOST as u64);
        let event = one("a", 1);
        let at = |seconds: i64| {
            Timestamp::from_nanosecond(i128::from(event.at + seconds * 1_000_000_000))
        };
        assert!(!is_old(&event, at(3599).expect("a time")));
        assert!(is_old(&event, at(3601).expect("a time")));
    }
}
