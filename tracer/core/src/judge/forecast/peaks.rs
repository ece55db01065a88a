//! Finds the trend of recurring peaks, and forecasts when a peak will hit a limit.

use std::collections::VecDeque;

use super::{
    Forecast, Kind,
    chance::{quantile, upper_tail},
    history::Point,
};

/// At most this many peaks are kept: the last ones.
const KEPT: usize = 64;
/// A series of peaks has ended if the next one is overdue by this many periods and [`OVERDUE_S`]. A
/// later peak begins another series.
const OVERDUE: f64 = 1.5;
const OVERDUE_S: f64 = 2.0;
/// How far peaks are assumed to deviate before any was measured, as a share of their swing. It
/// weighs as much as [`PRIOR`] peaks. The deviation is never less than [`STRAYS`] of the limit.
const OF_SWING: f64 = 0.05;
const PRIOR: f64 = 2.0;
const STRAYS: f64 = 0.003;
/// A rise of peaks is a trend if chance makes one with less than this probability. Each new peak is
/// tested over up to five windows in three orders.
const CHANCE: f64 = 0.02 / 15.0;
/// Fewer peaks do not show a change of pace.
const LATELY: usize = 4;
/// The pace has changed if chance makes the difference in a shorter window with less than this
/// probability.
const CHANGED: f64 = 0.05;
/// A peak is higher than expected if it exceeds a level that peaks exceed with this probability.
const HIGHER: f64 = 0.02;
/// How many peaks the forecast looks ahead.
const AHEAD: u32 = 128;
/// How many lines stand for all that fit the peaks so far.
const LINES: u32 = 8;
/// The time of the next peak is off by at least this part of a period, besides how much the periods
/// differ.
const OFF: f64 = 0.15;
/// The ratio of a standard deviation to a mean absolute deviation.
const DEVIATION: f64 = 1.25;
/// Standard deviations from the median to the 90th percentile.
const TENTH: f64 = 1.28;
/// What counts for a warning is the time by which the kill has come with this probability.
const LIKELY: f64 = 0.35;

/// The last peaks of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Peaks {
    peaks: VecDeque<Point>,
    /// The average rise to a peak from the lowest level before it.
    swing: f64,
}

/// A straight line through points.
struct Line {
    middle: Point,
    slope: f64,
    /// How far the points deviate from it, and the degrees of freedom of that figure.
    strays: f64,
    freedom: f64,
    count: f64,
    /// The sum of the squared distances in time from `middle`.
    square: f64,
}

impl Line {
    /// Fits a line. `prior` is how far points are assumed to deviate before any was measured.
    fn through<'a>(
        points: impl Iterator<Item = &'a Point> + Clone,
        prior: f64,
        least: f64,
    ) -> Option<Self> {
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
        let freedom = PRIOR + (count - 2.0).max(0.0);
        let squares = points.map(off).sum::<f64>() + PRIOR * prior * prior;
        Some(Self {
            middle,
            slope,
            strays: (squares / freedom).sqrt().max(least),
            freedom,
            count,
            square,
        })
    }

    /// Returns the standard error of the slope.
    fn slope_error(&self) -> f64 {
        self.strays / self.square.sqrt()
    }

    fn is_trend(&self) -> bool {
        upper_tail(self.slope / self.slope_error(), self.freedom) < CHANCE
    }

    fn at(&self, time: f64) -> f64 {
        self.middle.level + self.slope * (time - self.middle.time)
    }

    /// Returns the standard error of the line at `time`.
    fn error(&self, time: f64) -> f64 {
        let far = time - self.middle.time;
        self.strays * (1.0 / self.count + far * far / self.square).sqrt()
    }
}

impl Peaks {
    /// Records a peak, and how far it rose above the level before it.
    pub(super) fn push(&mut self, peak: Point, swing: f64) {
        if self.peaks.len() >= KEPT {
            self.peaks.pop_front();
        }
        self.peaks.push_back(peak);
        let known = self.peaks.len().min(LATELY) as f64;
        self.swing += (swing.max(0.0) - self.swing) / known;
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Point> {
        self.peaks.back_mut()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Point> + Clone {
        self.peaks.iter()
    }

    /// Returns the median time between peaks, and how far the times deviate from it (as a standard
    /// deviation).
    fn period(&self) -> Option<(f64, f64)> {
        let pairs = self.peaks.iter().zip(self.peaks.iter().skip(1));
        let mut between: Vec<f64> = pairs.map(|(one, next)| next.time - one.time).collect();
        between.sort_by(f64::total_cmp);
        let period = *between.get(between.len() / 2)?;
        let off = between.iter().map(|gap| (gap - period).abs()).sum::<f64>();
        Some((period, DEVIATION * off / between.len() as f64))
    }

    /// Returns the time between the last two peaks.
    fn last_gap(&self) -> Option<f64> {
        let mut rows = self.peaks.iter().rev();
        let (last, before) = (rows.next()?, rows.next()?);
        Some(last.time - before.time)
    }

    /// Returns the level up to which the next peak is nothing new. It is the highest peak plus the
    /// usual step, or a level that few peaks would exceed.
    pub(super) fn expected(&self) -> Option<f64> {
        let (first, last) = (self.peaks.front()?, self.peaks.back()?);
        let count = self.peaks.len() as f64;
        let highest = self.peaks.iter().map(|peak| peak.level).reduce(f64::max)?;
        let step = ((last.level - first.level) / (count - 1.0).max(1.0)).max(0.0);
        let mean = self.peaks.iter().map(|peak| peak.level).sum::<f64>() / count;
        let off = self.peaks.iter().map(|peak| (peak.level - mean).powi(2));
        let prior = OF_SWING * self.swing;
        let freedom = PRIOR + count - 1.0;
        let strays = ((off.sum::<f64>() + PRIOR * prior * prior) / freedom).sqrt();
        let bound = mean + quantile(HIGHER, freedom) * strays * (1.0 + 1.0 / count).sqrt();
        Some((highest + step).max(bound))
    }

    /// Forecasts the first peak that hits `limit`; `None` if the peaks do not rise towards it.
    pub(super) fn forecast(&self, now: f64, limit: f64) -> Option<Forecast> {
        let last = self.peaks.back()?;
        let (period, differs) = self.period()?;
        let ends = |since: f64| since > OVERDUE * period + OVERDUE_S;
        if self.peaks.len() < 3 || ends(now - last.time) || self.last_gap().is_some_and(ends) {
            return None;
        }
        let (line, points) = self.trend(limit)?;
        if !line.is_trend() {
            return None;
        }
        let first = self.peaks.get(self.peaks.len() - points)?;
        let [tenth, likely, half, most] = passage(&line, last.time, period, limit)?;
        let at = |peak: f64| (last.time + peak * period - now).max(0.0);
        let off = |peak: f64| TENTH * (OFF * period).hypot(differs * peak.sqrt());
        let middle = at(half);
        Some(Forecast {
            kind: Kind::Peaks,
            low: middle - (middle - at(tenth)).hypot(off(tenth)),
            likely: at(likely),
            middle,
            high: middle + (at(most) - middle).hypot(off(most)),
            seen: last.time - first.time,
            quiet: 0.0,
            period: Some(period),
        })
    }

    /// Whether the last peak is higher than each of the first `count`, by more than `off`.
    fn is_highest_of_all(&self, count: usize, off: f64) -> bool {
        let before = self.peaks.iter().take(count).map(|peak| peak.level);
        let last = self.peaks.back().map_or(0.0, |last| last.level);
        before
            .reduce(f64::max)
            .is_none_or(|before| last > before + off)
    }

    /// Returns the line through the peaks and their number. Only the last peaks count if they show
    /// another pace by now.
    fn trend(&self, limit: f64) -> Option<(Line, usize)> {
        let count = self.peaks.len();
        let line = |last: usize| {
            let points = self.peaks.iter().skip(count - last);
            Line::through(points, OF_SWING * self.swing, STRAYS * limit)
        };
        let (mut found, mut points) = (line(count)?, count);
        let mut last = count / 2;
        while last >= LATELY {
            let shorter = line(last)?;
            let off = (shorter.slope - found.slope) / shorter.slope_error();
            // If earlier peaks were as high, the last few are no growth.
            let is_new = off < 0.0 || self.is_highest_of_all(count - last, STRAYS * limit);
            if is_new && upper_tail(off.abs(), shorter.freedom) < CHANGED {
                (found, points) = (shorter, last);
            }
            last /= 2;
        }
        Some((found, points))
    }
}

/// Returns after how many periods the limit is hit with a probability of 10 %, of [`LIKELY`], of
/// 50 % and of 90 %.
///
/// It adds up, over the peaks after `last`, the probability that this peak exceeds the limit and
/// none before it did. `None` if a hit is not likely.
fn passage(line: &Line, last: f64, period: f64, limit: f64) -> Option<[f64; 4]> {
    // Even the highest peak to expect stays below the limit.
    let furthest = last + f64::from(AHEAD) * period;
    if line.at(furthest) + 3.0 * (line.error(furthest) + line.strays) < limit {
        return None;
    }
    let quantiles = (0..LINES).map(|number| {
        let chance = (f64::from(number) + 0.5) / f64::from(LINES);
        quantile(chance, line.freedom)
    });
    let mut survive: Vec<(f64, f64)> = quantiles.map(|off| (off, 1.0)).collect();
    let wanted = [0.1, LIKELY, 0.5, 0.9];
    let mut at = [f64::NAN; 4];
    for peak in 1..=AHEAD {
        let time = last + f64::from(peak) * period;
        let (level, error) = (line.at(time), line.error(time));
        for (off, survives) in &mut survive {
            let short = limit - level - *off * error;
            *survives *= 1.0 - upper_tail(short / line.strays, line.freedom);
        }
        let alive = survive.iter().map(|(_, survives)| survives).sum::<f64>();
        let killed = 1.0 - alive / f64::from(LINES);
        for (at, wanted) in at.iter_mut().zip(wanted) {
            if at.is_nan() && killed >= wanted {
                *at = f64::from(peak);
            }
        }
        if killed >= 0.9 {
            break;
        }
    }
    let [tenth, likely, half, most] = at;
    (!half.is_nan()).then_some([tenth, likely, half, most.min(f64::from(AHEAD))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peaks(levels: &[f64]) -> Peaks {
        let mut peaks = Peaks::default();
        for (number, level) in levels.iter().enumerate() {
            let time = 10.0 * number as f64;
            let level = *level;
            peaks.push(Point { time, level }, 10.0);
        }
        peaks
    }

    #[test]
    fn forecast_is_the_next_peak_not_the_mean() {
        let found = peaks(&[50.0, 55.0, 60.0, 65.0]).forecast(31.0, 78.0);
        let found = found.expect("a forecast");
        assert!((found.middle - 29.0).abs() < 1e-6, "{found:?}");
        assert!(found.low < found.middle && found.middle < found.high);
    }

    /// A series that has ended and one that is too short give no forecast either.
    #[test]
    fn fluctuating_peaks_are_no_trend() {
        assert_eq!(peaks(&[92.0, 90.0, 93.0, 91.0]).forecast(31.0, 95.0), None);
        assert_eq!(peaks(&[50.0, 55.0, 60.0]).forecast(60.0, 78.0), None);
        assert_eq!(peaks(&[50.0, 55.0]).forecast(11.0, 60.0), None);
    }

    #[test]
    fn overdue_peak_starts_a_new_series() {
        let mut peaks = peaks(&[50.0, 55.0, 60.0]);
        let (time, level) = (90.0, 75.0);
        peaks.push(Point { time, level }, 10.0);
        assert_eq!(peaks.forecast(91.0, 78.0), None);
        let (time, level) = (100.0, 77.0);
        peaks.push(Point { time, level }, 10.0);
        assert!(peaks.forecast(101.0, 85.0).is_some());
    }
}
