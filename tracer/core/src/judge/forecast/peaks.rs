//! Finds the trend of peaks that come again: when the first of those to come will hit a limit.

use std::collections::VecDeque;

use super::{
    Forecast, Kind,
    chance::{above, quantile},
    history::Point,
};

/// Peaks that are kept, the last ones.
const KEPT: usize = 64;
/// A peak that is overdue by so many periods will not come; one that comes after that is the first of others.
const OVERDUE: f64 = 1.5;
const OVERDUE_S: f64 = 2.0;
/// Before any was seen to stray, peaks are taken to stray by this part of their swing, which counts as much as so many peaks; but by this
/// share of the limit at least.
const OF_SWING: f64 = 0.05;
const PRIOR: f64 = 2.0;
const STRAYS: f64 = 0.003;
/// A rise of peaks is a trend where chance makes it once in so many tests. Each new peak is tested over up to five windows in three orders.
const CHANCE: f64 = 0.02 / 15.0;
/// Fewer peaks than these tell of no change of pace.
const LATELY: usize = 4;
/// How sure a shorter window must be that the pace has changed.
const CHANGED: f64 = 0.05;
/// A peak is higher than was to be expected where one in so many is.
const HIGHER: f64 = 0.02;
/// Peaks that are looked ahead.
const AHEAD: u32 = 128;
/// Lines that stand for all that the peaks so far allow.
const LINES: u32 = 8;
/// The time of the next peak is off by this part of a period at least, besides what the times between peaks differ by.
const OFF: f64 = 0.15;
/// A standard deviation is this part of a mean absolute one.
const DEVIATION: f64 = 1.25;
/// Standard deviations from the middle to the 90th percentile.
const TENTH: f64 = 1.28;
/// A kill is to be warned of where it comes in time with this chance.
const LIKELY: f64 = 0.35;

/// The last peaks of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Peaks {
    peaks: VecDeque<Point>,
    /// From the lowest before a peak to it, on average.
    swing: f64,
}

/// A straight line through points.
struct Line {
    middle: Point,
    slope: f64,
    /// How far the points lie from it, and how many degrees of freedom that rests on.
    strays: f64,
    freedom: f64,
    count: f64,
    /// The sum of the squares of times from the middle.
    square: f64,
}

impl Line {
    /// `prior`: by how much points stray before any was seen to.
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

    /// How far the slope may be off, as a standard error.
    fn slope_error(&self) -> f64 {
        self.strays / self.square.sqrt()
    }

    fn is_trend(&self) -> bool {
        above(self.slope / self.slope_error(), self.freedom) < CHANCE
    }

    fn at(&self, time: f64) -> f64 {
        self.middle.level + self.slope * (time - self.middle.time)
    }

    /// How far the line itself may be off at `time`.
    fn error(&self, time: f64) -> f64 {
        let far = time - self.middle.time;
        self.strays * (1.0 / self.count + far * far / self.square).sqrt()
    }
}

impl Peaks {
    /// Takes in a peak, and how far it rose out of what was before it.
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

    /// The median time from one to the next, and how far the times differ from it, on average.
    fn period(&self) -> Option<(f64, f64)> {
        let pairs = self.peaks.iter().zip(self.peaks.iter().skip(1));
        let mut between: Vec<f64> = pairs.map(|(one, next)| next.time - one.time).collect();
        between.sort_by(f64::total_cmp);
        let period = *between.get(between.len() / 2)?;
        let off = between.iter().map(|gap| (gap - period).abs()).sum::<f64>();
        Some((period, DEVIATION * off / between.len() as f64))
    }

    /// From the last but one to the last.
    fn last_gap(&self) -> Option<f64> {
        let mut rows = self.peaks.iter().rev();
        let (last, before) = (rows.next()?, rows.next()?);
        Some(last.time - before.time)
    }

    /// The level up to which the next one is no news: as high as any, or as few of what came before let expect.
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

    /// When the first of those to come meets `limit`; `None` where they do not rise towards it.
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

    /// Whether the last peak is higher than each of the first `count`, by more than peaks are off.
    fn is_highest_of_all(&self, count: usize, off: f64) -> bool {
        let before = self.peaks.iter().take(count).map(|peak| peak.level);
        let last = self.peaks.back().map_or(0.0, |last| last.level);
        before
            .reduce(f64::max)
            .is_none_or(|before| last > before + off)
    }

    /// The line through the peaks; through the last ones alone where these tell of another pace by now.
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
            // Where peaks before were as high, the last few are no growth.
            let is_new = off < 0.0 || self.is_highest_of_all(count - last, STRAYS * limit);
            if is_new && above(off.abs(), shorter.freedom) < CHANGED {
                (found, points) = (shorter, last);
            }
            last /= 2;
        }
        Some((found, points))
    }
}

/// By how many periods after `last` the limit is met with a chance of 10 %, of [`LIKELY`], of 50 % and of 90 %: at each peak to come with
/// the chance that this one exceeds it and none before did. `None` where it is not likely to be met.
fn passage(line: &Line, last: f64, period: f64, limit: f64) -> Option<[f64; 4]> {
    // Even the highest peak that is ever to be expected stays below.
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
            *survives *= 1.0 - above(short / line.strays, line.freedom);
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
    fn the_next_peak_counts_and_not_the_mean() {
        let found = peaks(&[50.0, 55.0, 60.0, 65.0]).forecast(31.0, 78.0);
        let found = found.expect("a forecast");
        assert!((found.middle - 29.0).abs() < 1e-6, "{found:?}");
        assert!(found.low < found.middle && found.middle < found.high);
    }

    #[test]
    fn what_goes_to_and_fro_is_no_trend_and_an_end_of_the_peaks_ends_it() {
        assert_eq!(peaks(&[92.0, 90.0, 93.0, 91.0]).forecast(31.0, 95.0), None);
        assert_eq!(peaks(&[50.0, 55.0, 60.0]).forecast(60.0, 78.0), None);
        assert_eq!(peaks(&[50.0, 55.0]).forecast(11.0, 60.0), None);
    }

    #[test]
    fn a_peak_out_of_turn_is_not_the_next_of_those_before_it() {
        let mut peaks = peaks(&[50.0, 55.0, 60.0]);
        let (time, level) = (90.0, 75.0);
        peaks.push(Point { time, level }, 10.0);
        assert_eq!(peaks.forecast(91.0, 78.0), None);
        let (time, level) = (100.0, 77.0);
        peaks.push(Point { time, level }, 10.0);
        assert!(peaks.forecast(101.0, 85.0).is_some());
    }
}
