//! Keeps the last two minutes of a figure, and the biggest processes outside Ray.
//!
//! Such a figure is that of a process, of the machine, or of shared memory.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::ids::{BootTime, ByProcess, Bytes, Pid, ProcessKey, SECOND_NS};

/// At most this many figures are kept: a minute at ten per second.
const LONGEST: usize = 600;
/// Older figures are dropped. A figure that does not move is written each minute.
const KEPT_NS: i64 = 125 * SECOND_NS;

/// The last figures of one thing, the oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecentSamples(VecDeque<(BootTime, Bytes)>);

impl RecentSamples {
    pub(crate) fn push(&mut self, time: BootTime, figure: Bytes) {
        self.0.push_back((time, figure));
        // The last figure before the minute says how the minute began.
        let old = |samples: &VecDeque<(BootTime, Bytes)>| {
            samples.len() > 2
                && samples
                    .get(1)
                    .is_some_and(|(since, _)| time.since(*since) > KEPT_NS)
        };
        while self.0.len() > LONGEST || old(&self.0) {
            self.0.pop_front();
        }
    }

    /// Returns all that is kept, in the form from which a rate is taken.
    pub(crate) fn points(&self) -> Vec<(BootTime, f64)> {
        let points = self.0.iter();
        points
            .map(|(time, figure)| (*time, figure.0 as f64))
            .collect()
    }

    /// Returns how far the last figure lies above the lowest since `since`.
    pub(crate) fn risen(&self, since: BootTime) -> Bytes {
        let lately = self.0.iter().filter(|(time, _)| *time >= since);
        let lowest = lately
            .map(|(_, figure)| figure.0)
            .chain(self.at(since).map(|at| at.0))
            .min();
        let last = self.0.back().map_or(0, |(_, last)| last.0);
        Bytes(lowest.map_or(0, |lowest| last.saturating_sub(lowest)))
    }

    /// Returns how far the last figure lies below the highest since `since`.
    pub(crate) fn fallen(&self, since: BootTime) -> Bytes {
        let lately = self.0.iter().filter(|(time, _)| *time >= since);
        let highest = lately.map(|(_, figure)| figure.0).max();
        let last = self.0.back().map_or(0, |(_, last)| last.0);
        Bytes(highest.map_or(0, |highest| highest.saturating_sub(last)))
    }

    /// Returns the figure in force at `time`.
    pub(crate) fn at(&self, time: BootTime) -> Option<Bytes> {
        let last = self.0.iter().rev().find(|(since, _)| *since <= time)?;
        Some(last.1)
    }
}

/// The recent samples of each process.
#[derive(Debug, Default)]
pub(crate) struct SamplesByProcess {
    of: ByProcess<RecentSamples>,
    /// Processes that had the same pid, one after the other.
    by_pid: FxHashMap<Pid, Vec<ProcessKey>>,
}

impl SamplesByProcess {
    /// Adds a figure of a process.
    pub(crate) fn push(&mut self, process: ProcessKey, time: BootTime, figure: Bytes) {
        let key = process.truncated();
        let samples = self.of.entry(key).or_insert_with(|| {
            self.by_pid.entry(key.pid).or_default().push(key);
            RecentSamples::default()
        });
        samples.push(time, figure);
    }

    pub(crate) fn get(&self, process: ProcessKey) -> Option<&RecentSamples> {
        self.of.get(&process.truncated())
    }

    /// Returns the samples of the last process with this pid that began by `time`.
    pub(crate) fn of_pid(&self, pid: Pid, time: BootTime) -> Option<&RecentSamples> {
        let began = self
            .by_pid
            .get(&pid)?
            .iter()
            .filter(|key| key.start <= time);
        self.of.get(began.max_by_key(|key| key.start)?)
    }

    pub(crate) fn forget(&mut self, process: ProcessKey) {
        let key = process.truncated();
        self.of.remove(&key);
        if let Some(keys) = self.by_pid.get_mut(&key.pid) {
            keys.retain(|known| *known != key);
            if keys.is_empty() {
                self.by_pid.remove(&key.pid);
            }
        }
    }
}

/// A process outside Ray that holds much. It is sampled only near a limit.
#[derive(Debug, Clone)]
pub(crate) struct Outside {
    pub(crate) pid: Pid,
    pub(crate) name: String,
    pub(crate) cgroup: Option<String>,
    pub(crate) private: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Old samples are dropped.
    #[test]
    fn samples_give_the_value_in_force() {
        let second = |at: u64| BootTime(at * 1_000_000_000);
        let mut samples = RecentSamples::default();
        for at in 0..1000 {
            samples.push(second(at), Bytes(at));
        }
        assert!(samples.0.len() < 130, "{}", samples.0.len());
        assert_eq!(samples.at(second(900)), Some(Bytes(900)));
        let mut still = RecentSamples::default();
        still.push(second(1), Bytes(7));
        assert_eq!(still.at(second(50)), Some(Bytes(7)));
    }
}
