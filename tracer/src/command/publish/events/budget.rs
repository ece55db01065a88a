//! Limits how many Events are sent, as client-go does (`tools/record/events_cache.go`, 1.34). Pure.
//!
//! More than ten similar Events within ten minutes become one Event with a count. A pod gets 25
//! Events at once, then one every five minutes.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::show::publish::pod_event::PodEvent;

/// How many similar Events (same pod, same reason) are sent one by one.
const ALIKE: u32 = 10;
/// Events further apart than this are not counted as similar.
const APART: Duration = Duration::from_secs(600);
/// How many Events a pod gets at once; after that, one each [`REFILL`].
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);
/// How many pods are remembered.
const PODS: usize = 1024;
/// Prefix of the message of an Event that stands for several.
const COMBINED: &str = "(combined from similar events): ";

/// A request for the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// A new Event.
    Create { message: String },
    /// Raise the count of the Event `name`, which stands for several.
    Count {
        name: String,
        message: String,
        count: u32,
    },
}

/// What was sent for each pod.
#[derive(Debug, Default)]
pub(super) struct Budget {
    pods: HashMap<String, Pod>,
}

#[derive(Debug)]
struct Pod {
    bucket: Bucket,
    /// Similar Events, by reason.
    alike: HashMap<String, Alike>,
}

#[derive(Debug)]
struct Alike {
    last: Instant,
    seen: u32,
    /// Name and count of the Event that stands for several.
    combined: Option<(String, u32)>,
}

impl Budget {
    /// Returns the request to send for this death, if any.
    pub(super) fn request(&mut self, event: &PodEvent, now: Instant) -> Option<Request> {
        self.forget(now);
        let pod = self.pods.entry(event.uid.clone()).or_insert_with(|| Pod {
            bucket: Bucket::new(BURST, REFILL, now),
            alike: HashMap::new(),
        });
        let alike = pod.alike.entry(event.reason.clone()).or_insert(Alike {
            last: now,
            seen: 0,
            combined: None,
        });
        if now.duration_since(alike.last) > APART {
            (alike.seen, alike.combined) = (0, None);
        }
        alike.last = now;
        alike.seen += 1;
        if !pod.bucket.take(now) {
            return None;
        }
        if alike.seen <= ALIKE {
            let message = event.message.clone();
            return Some(Request::Create { message });
        }
        let message = format!("{COMBINED}{}", event.message);
        let Some((name, count)) = &mut alike.combined else {
            alike.combined = Some((event.name(), 1));
            return Some(Request::Create { message });
        };
        *count += 1;
        Some(Request::Count {
            name: name.clone(),
            message,
            count: *count,
        })
    }

    /// Forgets pods with a full budget, and the oldest pod if there are still too many.
    fn forget(&mut self, now: Instant) {
        if self.pods.len() < PODS {
            return;
        }
        let last = |pod: &Pod| pod.alike.values().map(|alike| alike.last).max();
        self.pods.retain(|_, pod| !pod.bucket.is_full(now));
        if self.pods.len() < PODS {
            return;
        }
        let oldest = self.pods.iter().min_by_key(|(_, pod)| last(pod));
        if let Some(oldest) = oldest.map(|(uid, _)| uid.clone()) {
            self.pods.remove(&oldest);
        }
    }
}

/// A token bucket: `most` at once, then one more every `each`.
#[derive(Debug)]
pub(super) struct Bucket {
    most: f64,
    each: Duration,
    left: f64,
    at: Instant,
}

impl Bucket {
    pub(super) fn new(most: f64, each: Duration, now: Instant) -> Self {
        Self {
            most,
            each,
            left: most,
            at: now,
        }
    }

    /// Takes a token, and returns whether there was one.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.fill(now);
        let there = self.left >= 1.0;
        if there {
            self.left -= 1.0;
        }
        there
    }

    /// Returns how long it takes until there is a token.
    pub(super) fn wait(&mut self, now: Instant) -> Duration {
        self.fill(now);
        self.each.mul_f64((1.0 - self.left).max(0.0))
    }

    fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.left >= self.most
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed / self.each.as_secs_f64()).min(self.most);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::publish::pod_event::tests::one;

    fn asked(budget: &mut Budget, pod: &str, count: u32, now: Instant) -> Vec<Option<Request>> {
        (0..count)
            .map(|number| budget.request(&one(pod, number), now))
            .collect()
    }

    /// More than ten similar Events become one with a count.
    #[test]
    fn similar_events_are_counted_within_pods_budget() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        let requests = asked(&mut budget, "a", 100, now);
        let created = |request: &&Option<Request>| matches!(request, Some(Request::Create { .. }));
        assert_eq!(requests.iter().filter(created).count(), 11);
        assert_eq!(requests.iter().flatten().count(), 25);
        let Some(Some(Request::Count {
            name,
            count,
            message,
        })) = requests.iter().rfind(|one| one.is_some())
        else {
            panic!("{requests:?}");
        };
        assert_eq!((name, *count), (&one("a", 10).name(), 15));
        assert!(message.starts_with(COMBINED));
        // Each pod has its own budget.
        assert_eq!(asked(&mut budget, "b", 1, now).iter().flatten().count(), 1);
        // One more every five minutes.
        let later = now + REFILL;
        assert_eq!(
            asked(&mut budget, "a", 5, later).iter().flatten().count(),
            1
        );
    }

    #[test]
    fn events_far_apart_are_not_similar() {
        let (mut budget, mut now) = (Budget::default(), Instant::now());
        for number in 0..40 {
            let request = budget.request(&one("a", number), now);
            assert!(matches!(request, Some(Request::Create { .. })), "{number}");
            now += APART + Duration::from_secs(1);
        }
    }

    #[test]
    fn number_of_remembered_pods_is_bounded() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        for pod in 0..2 * PODS {
            asked(&mut budget, &format!("p{pod}"), 1, now);
        }
        assert!(budget.pods.len() <= PODS);
    }

    #[test]
    fn bucket_tells_how_long_to_wait() {
        let now = Instant::now();
        let mut bucket = Bucket::new(2.0, Duration::from_millis(200), now);
        assert!(bucket.take(now) && bucket.take(now) && !bucket.take(now));
        assert_eq!(bucket.wait(now), Duration::from_millis(200));
        assert!(bucket.take(now + Duration::from_millis(200)));
    }
}
