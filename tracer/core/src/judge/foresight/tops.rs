//! Peaks that come again: when the first of those to come will meet a limit, by the trend of those so far.

use std::collections::VecDeque;

use super::{Forecast, Kind, history::Point};

/// Peaks that are kept, the last ones.
const KEPT: usize = 16;
/// A peak that is overdue by so many periods will not come; one that comes after that is the first of others.
const OVERDUE: f64 = 1.5;
const OVERDUE_S: f64 = 2.0;
/// Standard deviations from the middle to the 90th percentile.
const TENTH: f64 = 1.28;
/// A peak is off by this share of the limit at least, and by this part of a period.
const STRAYS: f64 = 0.003;
const OF_PERIOD: f64 = 0.3;
/// The peak after the one that is expected to meet the limit may be the first that does: so much later, in periods, is within the interval.
const LATE: f64 = 0.6;
/// Fewer peaks than these tell of no change of pace; a change is one to these parts of the pace before.
const LATELY: usize = 4;
const SLOWER: f64 = 0.6;
const QUICKER: f64 = 1.3;
/// The next may exceed the highest by this part of what that exceeds the median by.
const OF_SPREAD: f64 = 0.7;
/// A trend is one where the peaks rise by so many times what they stray.
const SIGNIFICANT: f64 = 3.0;
const OF_FEW: f64 = 14.0;

/// The last peaks of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Tops(VecDeque<Point>);

/// A straight line through points.
struct Line {
    middle: Point,
    slope: f64,
    /// How far the points lie from it.
    strays: f64,
}

impl Line {
    fn through<'a>(points: impl Iterator<Item = &'a Point> + Clone) -> Option<Self> {
        let count = points.clone().count() as f64;
        let mean = |of: fn(&Point) -> f64| points.clone().map(of).sum::<f64>() / count;
        let middle = Point {
            time: mean(|point| point.time),
            level: mean(|point| point.level),
        };
        let (mut both, mut square) = (0.0, 0.0);
        for point in points.clone() {
            let x = point.time - middle.time;
            both += x * (point.level - middle.level);
            square += x * x;
        }
        if square <= 0.0 {
            return None;
        }
        let slope = both / square;
        let off = |point: &Point| {
            let expected = middle.level + slope * (point.time - middle.time);
            (point.level - expected).powi(2)
        };
        let strays = (points.map(off).sum::<f64>() / (count - 2.0).max(1.0)).sqrt();
        Some(Self {
            middle,
            slope,
            strays,
        })
    }
}

impl Tops {
    pub(super) fn push(&mut self, top: Point) {
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back(top);
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Point> {
        self.0.back_mut()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Point> + Clone {
        self.0.iter()
    }

    /// The median time from one to the next.
    pub(super) fn period(&self) -> Option<f64> {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        let mut between: Vec<f64> = pairs.map(|(one, next)| next.time - one.time).collect();
        between.sort_by(f64::total_cmp);
        between.get(between.len() / 2).copied()
    }

    /// From the last but one to the last.
    fn last_gap(&self) -> Option<f64> {
        let mut rows = self.0.iter().rev();
        let (last, before) = (rows.next()?, rows.next()?);
        Some(last.time - before.time)
    }

    /// The level at which the next one is expected: as high as any, and as much more as one was more than the last on average.
    pub(super) fn expected(&self) -> Option<f64> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let steps = self.0.len().saturating_sub(1).max(1) as f64;
        let step = (last.level - first.level) / steps;
        let mut levels: Vec<f64> = self.0.iter().map(|top| top.level).collect();
        levels.sort_by(f64::total_cmp);
        let (highest, middle) = (levels.last()?, levels.get(levels.len() / 2)?);
        // Where peaks differ, one may be higher than all before.
        Some(highest + step.max(OF_SPREAD * (highest - middle)).max(0.0))
    }

    /// When the first of those to come meets `limit`; `None` where they do not rise towards it.
    pub(super) fn forecast(&self, now: f64, limit: f64) -> Option<Forecast> {
        let last = self.0.back()?;
        let period = self.period()?;
        let ends = |since: f64| since > OVERDUE * period + OVERDUE_S;
        if self.0.len() < 3 || ends(now - last.time) || self.last_gap().is_some_and(ends) {
            return None;
        }
        let (line, points) = self.trend()?;
        let first = self.0.get(self.0.len() - points)?;
        let span = last.time - first.time;
        // By chance a few points lie on a line that rises.
        let significant = SIGNIFICANT + OF_FEW / points as f64;
        if line.slope * span < significant * line.strays {
            return None;
        }
        let strays = line.strays.max(STRAYS * limit);
        let meets = line.middle.time + (limit - 0.5 * strays - line.middle.level) / line.slope;
        let periods = ((meets - last.time) / period).ceil().max(1.0);
        let mut at = last.time + periods * period;
        if at < now {
            at += period;
        }
        let strays = (strays / line.slope).hypot(OF_PERIOD * period);
        let middle = at - now;
        Some(Forecast {
            kind: Kind::Tops,
            low: middle - TENTH * strays,
            middle,
            high: middle + TENTH * strays + LATE * period,
            seen: span,
            quiet: 0.0,
            period: Some(period),
        })
    }

    /// Whether the last peak is higher than each of the first `count`, by more than peaks are off.
    fn is_highest_of_all(&self, count: usize) -> bool {
        let before = self.0.iter().take(count).map(|top| top.level);
        let (before, last) = (before.reduce(f64::max), self.0.back());
        let last = last.map_or(0.0, |last| last.level);
        before.is_none_or(|before| last > before * (1.0 + 3.0 * STRAYS))
    }

    /// The line through the peaks; that of the last half, or of the last four, where these tell of another pace by now.
    fn trend(&self) -> Option<(Line, usize)> {
        let count = self.0.len();
        let mut found = Line::through(self.0.iter())?;
        let mut points = count;
        for last in [count / 2, LATELY] {
            if last < LATELY || last >= count {
                continue;
            }
            let line = Line::through(self.0.iter().skip(count - last))?;
            // Where peaks before were as high, the last few are no growth.
            let is_new = self.is_highest_of_all(count - last);
            let is_quicker =
                is_new && line.slope > QUICKER * found.slope && line.strays < found.strays;
            if line.slope < SLOWER * found.slope || is_quicker {
                (found, points) = (line, last);
            }
        }
        Some((found, points))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tops(levels: &[f64]) -> Tops {
        let mut tops = Tops::default();
        for (number, level) in levels.iter().enumerate() {
            let time = 10.0 * number as f64;
            let level = *level;
            tops.push(Point { time, level });
        }
        tops
    }

    #[test]
    fn the_next_peak_counts_and_not_the_mean() {
        let found = tops(&[50.0, 55.0, 60.0, 65.0]).forecast(31.0, 78.0);
        let found = found.expect("a forecast");
        assert!((found.middle - 29.0).abs() < 1e-6, "{found:?}");
        assert!(found.low < found.middle && found.middle < found.high);
    }

    #[test]
    fn what_goes_to_and_fro_is_no_trend_and_an_end_of_the_peaks_ends_it() {
        assert_eq!(tops(&[92.0, 90.0, 93.0, 91.0]).forecast(31.0, 95.0), None);
        assert_eq!(tops(&[50.0, 55.0, 60.0]).forecast(60.0, 78.0), None);
        assert_eq!(tops(&[50.0, 55.0]).forecast(11.0, 60.0), None);
    }

    #[test]
    fn a_peak_out_of_turn_is_not_the_next_of_those_before_it() {
        let mut tops = tops(&[50.0, 55.0, 60.0]);
        let (time, level) = (90.0, 75.0);
        tops.push(Point { time, level });
        assert_eq!(tops.forecast(91.0, 78.0), None);
        let (time, level) = (100.0, 77.0);
        tops.push(Point { time, level });
        assert!(tops.forecast(101.0, 85.0).is_some());
    }
}
