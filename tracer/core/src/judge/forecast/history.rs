//! Keeps what counted against one limit over half a day.
//!
//! Each second of the last half minute is kept, and fewer points before that.

use std::collections::VecDeque;

/// Seconds that one entry of each scale covers.
const SCALES: [f64; 6] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];
/// Entries of a scale: 6 × 40 × 24 bytes are 6 KiB in all.
const ENTRIES: usize = 40;

/// A moment in seconds since boot, and what was in use then in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) time: f64,
    pub(super) level: f64,
}

/// The levels over several seconds.
#[derive(Debug, Clone, Copy)]
struct Entry {
    began: f64,
    highest: f64,
    last: f64,
}

/// The history of one limit.
#[derive(Debug, Clone, Default)]
pub(super) struct History([VecDeque<Entry>; SCALES.len()]);

impl History {
    pub(super) fn push(&mut self, point: Point) {
        for (entries, seconds) in self.0.iter_mut().zip(SCALES) {
            match entries.back_mut() {
                Some(open) if point.time - open.began < seconds => {
                    open.highest = open.highest.max(point.level);
                    open.last = point.level;
                }
                _ => {
                    if entries.len() >= ENTRIES {
                        entries.pop_front();
                    }
                    entries.push_back(Entry {
                        began: point.time,
                        highest: point.level,
                        last: point.level,
                    });
                }
            }
        }
    }

    /// Returns the latest point.
    pub(super) fn latest(&self) -> Option<Point> {
        let last = self.0.first()?.back()?;
        Some(Point {
            time: last.began,
            level: last.last,
        })
    }

    /// Returns the level at `time` from the finest scale that reaches back that far, or else the
    /// oldest known level.
    pub(super) fn at(&self, time: f64) -> Option<f64> {
        let reaches =
            |entries: &&VecDeque<Entry>| entries.front().is_some_and(|oldest| oldest.began <= time);
        let entries = self.0.iter().find(reaches).or_else(|| self.0.last())?;
        let after = entries.partition_point(|entry| entry.began <= time);
        Some(entries.get(after.saturating_sub(1))?.last)
    }

    /// Returns the highest level since `time`, and about when the level was first within `noise` of
    /// it.
    pub(super) fn highest(&self, time: f64, noise: f64) -> Option<Point> {
        let reaches =
            |entries: &&VecDeque<Entry>| entries.front().is_some_and(|oldest| oldest.began <= time);
        let entries = self.0.iter().find(reaches).or_else(|| self.0.last())?;
        let from = entries.partition_point(|entry| entry.began <= time);
        let since = entries.range(from.saturating_sub(1)..);
        let level = since.clone().map(|entry| entry.highest).reduce(f64::max)?;
        let first = since.clone().find(|entry| entry.highest >= level - noise)?;
        Some(Point {
            time: first.began.max(time),
            level,
        })
    }

    /// Returns since when the level has been above `level`, but no earlier than `earliest`.
    pub(super) fn above_since(&self, level: f64, earliest: f64) -> f64 {
        let mut since = f64::INFINITY;
        for entries in &self.0 {
            for entry in entries.iter().rev() {
                if entry.began >= since {
                    continue;
                }
                if entry.last <= level || entry.began < earliest {
                    return entry.began.max(earliest);
                }
                since = entry.began;
            }
        }
        since.min(f64::MAX).max(earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last seconds are exact.
    #[test]
    fn half_a_day_is_kept_in_bounded_memory() {
        let mut history = History::default();
        for second in 0..40_000 {
            let time = f64::from(second);
            history.push(Point { time, level: time });
        }
        assert_eq!(history.at(39_990.0), Some(39_990.0));
        let far = history.at(10_000.0).expect("a level");
        assert!((far - 10_000.0).abs() < 1100.0, "{far}");
        let highest = history.highest(100.0, 0.0).map(|point| point.level);
        assert_eq!(highest, Some(39_999.0));
        let since = history.above_since(39_900.0, 0.0);
        assert!((since - 39_900.0).abs() < 17.0, "{since}");
        assert!(history.0.iter().all(|entries| entries.len() <= ENTRIES));
    }
}
