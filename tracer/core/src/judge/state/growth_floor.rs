//! Keeps the least private memory that each process held in each part of its life.
//!
//! Memory that a process takes and gives back does not change the minimum of a part, if parts are
//! longer than that takes. Memory that it never gives back does. The parts grow with the life, so
//! their number is bounded.

use crate::ids::{BootTime, Bytes, MINUTE_NS, SECOND_NS};

/// At most this many parts are kept. Then each two become one.
const MOST_PARTS: usize = 32;
/// The length of a part at first.
const FIRST_NS: i64 = SECOND_NS;
/// A process that is seen for a shorter time, without its warm-up, has no rate.
const SHORTEST_NS: i64 = MINUTE_NS;
/// One part in this many, at the beginning of the life, is warm-up: imports, weights, caches.
const WARM_UP: usize = 4;
/// The rest is looked at in this many stretches. With two, a single step would count as growth.
const STRETCHES: usize = 4;
/// Each stretch must rise by at least one part in this many of the mean rise. Otherwise it was a
/// step and not growth.
const EVEN: u64 = 4;
/// Less growth in all does not fill memory. The value is that of calls.
const MATTERS: u64 = 32 << 20;
const HOUR_NS: f64 = 60.0 * MINUTE_NS as f64;

/// The least memory that one process held in each part of its life so far.
#[derive(Debug, Clone)]
pub(crate) struct GrowthFloor {
    began: BootTime,
    part_ns: i64,
    least: Vec<Bytes>,
    now: Bytes,
}

/// Growth that was not given back, and for how long it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// 0 if the process was seen for long enough and did not grow steadily.
    pub(crate) per_hour: Bytes,
    pub(crate) seconds: u64,
}

impl GrowthFloor {
    pub(crate) fn new(time: BootTime, held: Bytes) -> Self {
        Self {
            began: time,
            part_ns: FIRST_NS,
            least: vec![held],
            now: held,
        }
    }

    /// Records that the process holds this much from now on.
    pub(crate) fn sampled(&mut self, time: BootTime, held: Bytes) {
        let at = self.part(time);
        // A figure without a new row is as it was.
        while self.least.len() <= at {
            self.least.push(self.now);
        }
        self.now = held;
        if let Some(last) = self.least.last_mut() {
            *last = held.min(*last);
        }
    }

    /// Returns the part that `time` falls into. Halves the number of parts first if there would be
    /// too many.
    fn part(&mut self, time: BootTime) -> usize {
        loop {
            let at = time.since(self.began).max(0) / self.part_ns;
            match usize::try_from(at) {
                Ok(at) if at < MOST_PARTS => return at,
                _ => self.halve(),
            }
        }
    }

    fn halve(&mut self) {
        let pairs = self.least.chunks(2);
        self.least = pairs
            .filter_map(|pair| pair.iter().min().copied())
            .collect();
        self.part_ns *= 2;
    }

    /// Returns the rate of growth until `end`; `None` if the process was not seen for long enough
    /// to say.
    pub(crate) fn rate(&self, end: BootTime) -> Option<Rate> {
        let mut whole = self.clone();
        whole.sampled(end, self.now);
        // A process that ends gives everything back.
        whole.least.pop();
        let parts = whole.least.get(whole.least.len() / WARM_UP..)?;
        let each = parts.len() / STRETCHES;
        let length_ns = i64::try_from(each).ok()? * whole.part_ns;
        let seen_ns = length_ns * i64::try_from(STRETCHES).ok()?;
        if seen_ns < SHORTEST_NS {
            return None;
        }
        let stretches = parts.get(parts.len() - each * STRETCHES..)?;
        let levels: Vec<u64> = stretches
            .chunks(each)
            .filter_map(|part| part.iter().map(|least| least.0).min())
            .collect();
        let between_ns = (seen_ns - length_ns) as f64;
        Some(Rate {
            per_hour: Bytes(steady(&levels)).times(HOUR_NS / between_ns),
            seconds: u64::try_from(seen_ns / SECOND_NS).ok()?,
        })
    }
}

/// Returns by how much the levels rose from the first to the last, if each rose; else 0.
fn steady(levels: &[u64]) -> u64 {
    let (Some(first), Some(last)) = (levels.first(), levels.last()) else {
        return 0;
    };
    let risen = last.saturating_sub(*first);
    let steps = levels.len().saturating_sub(1).max(1) as u64;
    let least = risen / steps / EVEN;
    let even = levels
        .windows(2)
        .all(|pair| pair[1].saturating_sub(pair[0]) >= least);
    if even && risen >= MATTERS { risen } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns the rate of a process that holds this many MiB at each second of its life.
    fn rate(seconds: u64, held: impl Fn(u64) -> u64) -> Option<Rate> {
        let at = |second: u64| BootTime(5_000_000_000 + second * 1_000_000_000);
        let mut floor = GrowthFloor::new(at(0), Bytes(held(0) * MIB));
        for second in 1..=seconds {
            floor.sampled(at(second), Bytes(held(second) * MIB));
        }
        floor.rate(at(seconds))
    }

    fn mib_an_hour(seconds: u64, held: impl Fn(u64) -> u64) -> Option<u64> {
        rate(seconds, held).map(|rate| rate.per_hour.0 / MIB)
    }

    #[test]
    fn kept_memory_has_a_rate_despite_fluctuation() {
        assert_eq!(mib_an_hour(7200, |second| second), Some(3600));
        let swings = |second: u64| 500 + second / 10 + if second % 40 < 20 { 4000 } else { 0 };
        let found = mib_an_hour(7200, swings).expect("a rate");
        assert!((350..=370).contains(&found), "{found}");
    }

    #[test]
    fn warm_up_step_and_level_are_no_growth() {
        assert_eq!(mib_an_hour(7200, |second| second.min(1000)), Some(0));
        let step = |second: u64| if second < 4000 { 500 } else { 5000 };
        assert_eq!(mib_an_hour(7200, step), Some(0));
        assert_eq!(mib_an_hour(7200, |_| 500), Some(0));
        let falls = |second: u64| 9000 - second;
        assert_eq!(mib_an_hour(7200, falls), Some(0));
    }

    #[test]
    fn short_life_has_no_rate() {
        assert_eq!(mib_an_hour(40, |second| second * 100), None);
        assert!(rate(120, |second| second * 100).is_some());
    }

    /// A gap between samples counts as unchanged.
    #[test]
    fn number_of_parts_is_bounded() {
        let mut floor = GrowthFloor::new(BootTime(0), Bytes(MIB));
        floor.sampled(BootTime(86_400_000_000_000), Bytes(2 * MIB));
        assert!(floor.least.len() <= MOST_PARTS, "{}", floor.least.len());
        assert!(floor.least.iter().all(|least| *least == Bytes(MIB)));
        // A time before the last one changes no part that is over.
        floor.sampled(BootTime(5), Bytes(3 * MIB));
        assert_eq!(floor.least.first(), Some(&Bytes(MIB)));
    }
}
