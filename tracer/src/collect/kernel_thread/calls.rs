//! Turns titles into calls: each change of a worker's title ends one call and may begin another.
//!
//! This runs in the thread that empties the kernel's ring, so it keeps little state and reads no
//! clock. Async and threaded actors overwrite each other's title. Their calls then end where the
//! next one begins.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::{
    event::{Call, MemorySplit},
    ids::{BootTime, Bytes, Pid, ProcessKey, SECOND_NS},
    ray::identify,
};

/// A call of at least this length is recorded, whatever its memory did.
const LONG_NS: i64 = 50_000_000;
/// A call that runs for this time is recorded before it ends, because its process may die in it.
const ANNOUNCED_NS: i64 = SECOND_NS;
/// How often running calls are checked for this.
const LOOKED_THROUGH_NS: i64 = 500_000_000;
/// A change of memory that makes a short call worth a row.
const MOVED: u64 = 1 << 20;
/// The most titles of one process that are counted. Each task may have a name of its own.
const MAX_TITLES: usize = 256;
/// The most titles of all processes, of about 120 bytes each, as long as each process may have
/// [`MIN_TITLES`].
const ALL_TITLES: usize = 65_536;
const MIN_TITLES: usize = 8;

/// The calls that run in each process.
#[derive(Default)]
pub(super) struct Calls {
    lanes: FxHashMap<Pid, Lane>,
    looked_through: BootTime,
}

/// The calls of one process.
struct Lane {
    process: ProcessKey,
    /// The class of its actor.
    actor: Option<String>,
    running: Option<Running>,
    counts: FxHashMap<Arc<str>, u32>,
    /// Anonymous memory when the last recorded call ended; before any, when the first call began.
    told: Option<Bytes>,
}

struct Running {
    title: Arc<str>,
    nth: u32,
    began: BootTime,
    before: MemorySplit,
    announced: bool,
}

impl Running {
    fn call(&self, process: ProcessKey) -> Call {
        Call {
            process,
            title: self.title.to_string(),
            nth: self.nth,
            began: self.began,
            before: self.before.anon,
            ..Call::default()
        }
    }

    fn ended(&self, process: ProcessKey, time: BootTime, after: &MemorySplit) -> Call {
        Call {
            ended: Some(time),
            after: after.anon,
            peak: peak(&self.before, after),
            ..self.call(process)
        }
    }
}

/// Returns the private part of the high-water mark, if it rose. Most likely, the memory that is
/// shared at the end was also shared at the peak.
fn peak(before: &MemorySplit, after: &MemorySplit) -> Option<Bytes> {
    let high = after.peak.filter(|high| Some(*high) > before.peak)?;
    let shared = after.file.unwrap_or_default().0 + after.shmem.unwrap_or_default().0;
    let private = Bytes(high.0.saturating_sub(shared));
    Some(private.max(after.anon.unwrap_or_default()))
}

impl Calls {
    /// Takes a new title of a process. Returns the call that this ended, if it is worth a row.
    pub(super) fn titled(
        &mut self,
        process: ProcessKey,
        title: &str,
        time: BootTime,
        memory: &MemorySplit,
    ) -> Option<Call> {
        let room = (ALL_TITLES / (self.lanes.len() + 1)).clamp(MIN_TITLES, MAX_TITLES);
        let lane = self
            .lanes
            .entry(process.pid)
            .or_insert_with(|| Lane::new(process));
        if !lane.process.same(process) {
            *lane = Lane::new(process);
        }
        lane.titled(title, time, memory, room)
    }

    /// Notes that titles of a process were left out. When the running call ended is not known, so
    /// it is no call any more.
    pub(super) fn lost_titles(&mut self, process: ProcessKey) {
        if let Some(lane) = self.lanes.get_mut(&process.pid) {
            lane.running = None;
        }
    }

    /// Returns calls that have run for a while by `now`. Each call is returned once.
    pub(super) fn due(&mut self, now: BootTime) -> Vec<Call> {
        if now.since(self.looked_through) < LOOKED_THROUGH_NS {
            return Vec::new();
        }
        self.looked_through = now;
        let old = |lane: &mut Lane| {
            let running = lane
                .running
                .as_mut()
                .filter(|running| !running.announced && now.since(running.began) >= ANNOUNCED_NS)?;
            running.announced = true;
            Some(running.call(lane.process))
        };
        self.lanes.values_mut().filter_map(old).collect()
    }

    /// Takes the end of a process. Returns the call that it died in, if that was not recorded yet.
    pub(super) fn ended(&mut self, process: ProcessKey) -> Option<Call> {
        // An end that is reported late may be that of an earlier process with this pid.
        self.lanes
            .get(&process.pid)
            .filter(|lane| lane.process.same(process))?;
        let lane = self.lanes.remove(&process.pid)?;
        let running = lane.running.filter(|running| !running.announced)?;
        Some(running.call(lane.process))
    }
}

impl Lane {
    fn new(process: ProcessKey) -> Self {
        Self {
            process,
            actor: None,
            running: None,
            counts: FxHashMap::default(),
            told: None,
        }
    }

    fn titled(
        &mut self,
        title: &str,
        time: BootTime,
        memory: &MemorySplit,
        room: usize,
    ) -> Option<Call> {
        let class = identify::class_of_call(title);
        let ended = self.running.take().filter(|running| {
            // An actor between two calls has only its class as its title. A task of that name would
            // have the same title.
            class.is_none_or(|class| running.title.strip_prefix("ray::") != Some(class))
        });
        if class.is_some() && class != self.actor.as_deref() {
            self.actor = class.map(str::to_owned);
        }
        let call = ended.and_then(|running| self.worth(&running, time, memory));
        let idle = identify::is_idle(title)
            || (self.actor.is_some() && title.strip_prefix("ray::") == self.actor.as_deref());
        if !idle {
            self.told = self.told.or(memory.anon);
            let (title, nth) = self.count(title, room);
            self.running = Some(Running {
                title,
                nth,
                began: time,
                before: *memory,
                announced: false,
            });
        }
        call
    }

    fn worth(&mut self, running: &Running, time: BootTime, memory: &MemorySplit) -> Option<Call> {
        let way = |anon: Bytes| self.told.map_or(0, |told| anon.0.abs_diff(told.0));
        let moved = memory.anon.is_some_and(|anon| way(anon) >= MOVED);
        let long = time.since(running.began) >= LONG_NS;
        if !(long || moved || running.announced) {
            return None;
        }
        self.told = memory.anon;
        Some(running.ended(self.process, time, memory))
    }

    /// Counts a title. Returns its only stored copy, and how often it came. At most `room` titles
    /// are kept.
    fn count(&mut self, title: &str, room: usize) -> (Arc<str>, u32) {
        if self.counts.len() >= room && !self.counts.contains_key(title) {
            self.counts.retain(|_, count| *count > 1);
            if self.counts.len() >= room {
                self.counts.clear();
            }
            self.counts.shrink_to(room);
        }
        let known = self.counts.get_key_value(title);
        let title = known.map_or_else(|| title.into(), |(title, _)| Arc::clone(title));
        let count = self.counts.entry(Arc::clone(&title)).or_default();
        *count += 1;
        (title, *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn holds(mib: u64) -> MemorySplit {
        MemorySplit {
            anon: Some(Bytes(mib << 20)),
            file: Some(Bytes(8 << 20)),
            shmem: Some(Bytes(0)),
            swap: None,
            peak: Some(Bytes((mib + 8) << 20)),
            own: None,
        }
    }

    /// Returns the calls recorded for titles at these ms, with the MiB held then.
    fn written(calls: &mut Calls, titles: &[(u64, &str, u64)]) -> Vec<(String, u32, u64)> {
        let process = ProcessKey::new(7, 1);
        let calls = titles.iter().filter_map(|(ms, title, mib)| {
            calls.titled(process, title, BootTime(ms * MS), &holds(*mib))
        });
        calls
            .map(|call| {
                let length = call.ended.expect("an end").since(call.began);
                (call.title, call.nth, length.unsigned_abs() / MS)
            })
            .collect()
    }

    #[test]
    fn actor_between_calls_runs_none() {
        let mut calls = Calls::default();
        let titles = [
            (0, "ray::IDLE", 10),
            (100, "ray::A.__init__", 10),
            (200, "ray::A", 10),
            (900, "ray::A.go", 10),
            (1000, "ray::A", 10),
            (2000, "ray::A.go", 10),
            (2060, "ray::A", 10),
        ];
        let expected = [
            ("ray::A.__init__", 1, 100),
            ("ray::A.go", 1, 100),
            ("ray::A.go", 2, 60),
        ];
        let expected = expected.map(|(title, nth, ms)| (title.to_owned(), nth, ms));
        assert_eq!(written(&mut calls, &titles), expected);
    }

    #[test]
    fn bare_class_title_is_no_call() {
        let titles = [
            (0, "ray::A", 10),
            (5000, "ray::A.go", 10),
            (5100, "ray::A", 10),
        ];
        let expected = [("ray::A.go".to_owned(), 1, 100)];
        assert_eq!(written(&mut Calls::default(), &titles), expected);
    }

    /// Short calls that change no memory are only counted.
    #[test]
    fn short_calls_are_written_when_memory_moves() {
        let titles = [
            (0, "ray::f", 10),
            (10, "ray::IDLE", 10),
            (20, "ray::f", 10),
            (30, "ray::IDLE", 12),
            (40, "ray::f", 12),
            (50, "ray::IDLE", 12),
        ];
        let expected = [("ray::f".to_owned(), 2, 10)];
        assert_eq!(written(&mut Calls::default(), &titles), expected);
    }

    /// Calls that each leak too little for a row get one once it adds up.
    #[test]
    fn small_leaks_are_written_in_sum() {
        let mut calls = Calls::default();
        let process = ProcessKey::new(7, 1);
        let mut rows = 0;
        for step in 0..100u64 {
            let held = MemorySplit {
                anon: Some(Bytes(step * 100 * 1024)),
                ..MemorySplit::default()
            };
            let title = if step % 2 == 0 { "ray::f" } else { "ray::IDLE" };
            let time = BootTime(step * MS);
            rows += usize::from(calls.titled(process, title, time, &held).is_some());
        }
        assert!((8..=10).contains(&rows), "{rows} rows for 9.8 MiB");
    }

    /// The call that a process dies in is always reported.
    #[test]
    fn long_call_is_reported_once() {
        let mut calls = Calls::default();
        let process = ProcessKey::new(7, 1);
        calls.titled(process, "ray::f", BootTime(0), &holds(10));
        assert!(calls.due(BootTime(500 * MS)).is_empty());
        assert_eq!(calls.due(BootTime(1500 * MS)).len(), 1);
        assert!(calls.due(BootTime(2500 * MS)).is_empty());
        assert_eq!(calls.ended(process), None);
        calls.titled(process, "ray::f", BootTime(3000 * MS), &holds(10));
        let died_in = calls.ended(process).expect("a call");
        assert_eq!((died_in.ended, died_in.nth), (None, 1));
    }

    /// A call with an end that is not known is not recorded as a long one.
    #[test]
    fn call_before_lost_titles_is_not_recorded() {
        let mut calls = Calls::default();
        let process = ProcessKey::new(7, 1);
        calls.titled(process, "ray::f", BootTime(0), &holds(10));
        calls.lost_titles(process);
        assert_eq!(
            calls.titled(process, "ray::g", BootTime(900 * MS), &holds(90)),
            None
        );
        let ended = calls.titled(process, "ray::IDLE", BootTime(1000 * MS), &holds(90));
        assert_eq!(ended.map(|call| call.title).as_deref(), Some("ray::g"));
    }

    /// Thousands of processes with a new title in each call.
    #[test]
    fn titles_of_all_processes_are_bounded() {
        let mut calls = Calls::default();
        for number in 0..300_000_u32 {
            let process = ProcessKey::new(number % 3_000, 1);
            let time = BootTime(u64::from(number) * MS);
            calls.titled(process, &format!("ray::f{number}"), time, &holds(10));
        }
        let kept: usize = calls.lanes.values().map(|lane| lane.counts.len()).sum();
        assert!(kept <= ALL_TITLES + 3_000, "{kept}");
    }

    #[test]
    fn peak_needs_a_higher_high_water_mark() {
        let high = |mib: u64| MemorySplit {
            peak: Some(Bytes(mib << 20)),
            ..holds(10)
        };
        assert_eq!(peak(&high(100), &high(100)), None);
        assert_eq!(peak(&high(100), &high(508)), Some(Bytes(500 << 20)));
    }
}
