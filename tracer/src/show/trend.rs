//! Computes how fast figures grow, from the last two minutes of each, for live views.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

use crate::{
    event::LimitOwner,
    ids::{BootTime, Bytes, MINUTE_NS, ProcessKey, SECOND_NS},
    judge::{
        live::{Live, LiveProcess},
        time_to_limit,
    },
};

/// How long a figure is kept.
const KEPT_NS: i64 = 2 * MINUTE_NS;
/// Shortest span of figures that makes a trend.
const LEAST_NS: i64 = 4 * SECOND_NS;
/// The figures of many things over the last two minutes.
#[derive(Debug, Clone, Default)]
struct Trends<K> {
    series: HashMap<K, VecDeque<(BootTime, Bytes)>>,
}

impl<K: Eq + Hash> Trends<K> {
    /// Adds the figures of one moment, and replaces those already added for it. Things without a
    /// figure are forgotten.
    fn add(&mut self, now: BootTime, figures: impl Iterator<Item = (K, Bytes)>) {
        for (key, figure) in figures {
            let series = self.series.entry(key).or_default();
            // A recording that has ended is read again and again in its last state.
            match series.back_mut() {
                Some((time, last)) if *time == now => *last = figure,
                _ => series.push_back((now, figure)),
            }
        }
        self.series.retain(|_, series| {
            while series
                .front()
                .is_some_and(|(time, _)| now.since(*time) > KEPT_NS)
            {
                series.pop_front();
            }
            series.back().is_some_and(|(time, _)| *time == now)
        });
    }

    /// Returns the kept figures of a thing, the oldest first.
    fn series(&self, key: &K) -> impl Iterator<Item = Bytes> + use<'_, K> {
        let series = self.series.get(key);
        series.into_iter().flatten().map(|(_, figure)| *figure)
    }

    /// Returns the time from the oldest kept figure to the last one, in ns.
    fn length_ns(&self, key: &K) -> Option<i64> {
        let series = self.series.get(key)?;
        let ((first, _), (last, _)) = (series.front()?, series.back()?);
        Some(last.since(*first))
    }

    /// Returns the rate now, in bytes per second, or `None` while there is no trend yet.
    fn rate(&self, key: &K) -> Option<f64> {
        let series = self.series.get(key)?;
        let ((first, _), (now, _)) = (series.front()?, series.back()?);
        let points = series.iter().map(|(time, figure)| (*time, figure.0 as f64));
        (now.since(*first) >= LEAST_NS).then(|| time_to_limit::rate(points.collect(), *now))
    }
}

/// The trends of one machine: each process's private memory.
#[derive(Debug, Clone, Default)]
pub struct GrowthTrends {
    processes: Trends<ProcessKey>,
}

impl GrowthTrends {
    /// Adds the figures of one moment.
    pub fn add(&mut self, live: &Live) {
        let processes = live.processes.iter();
        self.processes
            .add(live.now, processes.map(|one| (one.process, one.private())));
    }

    /// Returns the private memory of a process over the last two minutes, the oldest figure first.
    pub fn series(&self, process: ProcessKey) -> impl Iterator<Item = Bytes> {
        self.processes.series(&process)
    }

    /// Returns how many seconds that series spans.
    pub fn seconds(&self, process: ProcessKey) -> i64 {
        let length = self.processes.length_ns(&process).unwrap_or(0);
        (length + SECOND_NS / 2) / SECOND_NS
    }

    /// Returns how fast a process grows, in bytes per second, or `None` while there is no trend
    /// yet.
    pub fn rate(&self, process: ProcessKey) -> Option<f64> {
        self.processes.rate(&process)
    }

    /// Returns the process that grows most among those that count for a limit, and its rate.
    pub fn grower<'a>(
        &self,
        live: &'a Live,
        limit_owner: &LimitOwner,
    ) -> Option<(&'a LiveProcess, f64)> {
        let counts = |process: &&LiveProcess| match limit_owner {
            LimitOwner::Cgroup(path) => process.is_in(path),
            LimitOwner::RayMonitor | LimitOwner::Machine => true,
        };
        let processes = live.processes.iter().filter(counts);
        processes
            .filter_map(|one| Some((one, self.rate(one.process)?)))
            .filter(|(_, rate)| *rate > 0.0)
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn growing(seconds: u64, each: u64) -> Trends<u8> {
        let mut trends = Trends::default();
        for second in 0..=seconds {
            trends.add(
                BootTime(second * SECOND),
                [(1, Bytes(second * each))].into_iter(),
            );
        }
        trends
    }

    #[test]
    fn rate_needs_more_than_two_figures() {
        let rate = growing(60, 10 << 20).rate(&1).expect("a trend");
        assert!((rate / f64::from(10 << 20) - 1.0).abs() < 1e-6, "{rate}");
        assert_eq!(growing(60, 0).rate(&1), Some(0.0));
        assert_eq!(growing(2, 10 << 20).rate(&1), None);
    }

    /// Two samples a second do not count as two seconds.
    #[test]
    fn repeated_moment_adds_nothing() {
        let mut trends = growing(60, 10 << 20);
        let now = BootTime(60 * SECOND);
        for _ in 0..500 {
            trends.add(now, [(1, Bytes(600 << 20))].into_iter());
        }
        assert_eq!(trends.series(&1).count(), 61);
        let mut trends = Trends::default();
        for half in 0..=20 {
            let time = BootTime(half * SECOND / 2);
            trends.add(time, [(1, Bytes(0))].into_iter());
        }
        assert_eq!(trends.length_ns(&1), Some(10_000_000_000));
    }

    #[test]
    fn series_keeps_two_minutes_while_alive() {
        let mut trends = growing(500, 1);
        assert_eq!(trends.series(&1).count(), 121);
        trends.add(BootTime(501 * SECOND), [(2, Bytes(0))].into_iter());
        assert_eq!(trends.series(&1).count(), 0);
    }
}
