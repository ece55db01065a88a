//! Keeps how the memory that counts against one limit moved, and forecasts when it will be hit.

use std::collections::HashMap;

use super::{
    Forecast, Kind,
    history::{History, Point},
    peaks::Peaks,
};

/// The level turns if it moves back by more than this share of the limit.
const TURN: f64 = 0.02;
/// It must also move back by more than this share of the rise or fall before it.
const OF_SWING: f64 = 0.15;
/// Peaks, the peaks among the peaks, and the peaks among those. A rare spike stands out from the
/// usual ones.
const ORDERS: usize = 3;
/// At most this many titles of calls are followed. Each raises memory by at least [`SPIKE`] of the
/// limit.
const TITLES: usize = 64;
const SPIKE: f64 = 0.02;

/// What a kill frees is gone after this many seconds. Until then, a high level is that of the
/// killed process.
const FREED: f64 = 5.0;

/// A ramp is followed once it reaches this share of the limit.
const RAMP_FROM: f64 = 0.70;
/// A ramp slows down if its second half rises by less than this share of its first half. It may
/// then end below the limit.
const SLOWS: f64 = 0.8;
/// A ramp quickens if each quarter rises more than the one before, and the last at least this many
/// times as much as the first. It then goes on quickening.
const QUICKENS: f64 = 1.4;
/// The recent rate is measured over this many times the time that is left.
const LOCAL: f64 = 3.0;

/// The error of a forecast from a steady rise, as a share of the time that is left. An uneven rise
/// adds to it by how far its quarters deviate ([`UNEVENNESS`]).
const UNEVEN: f64 = 0.05;
const UNEVENNESS: f64 = 0.4;

/// A level may be off by this share of the limit.
const NOISE: f64 = 0.002;

/// Returns how far the four steps between levels deviate from `mean`, as a share of it.
fn deviation(levels: [f64; 5], mean: f64) -> f64 {
    let steps = levels.iter().zip(&levels[1..]);
    let squares: f64 = steps.map(|(from, to)| (to - from - mean).powi(2)).sum();
    (squares / 3.0).sqrt() / mean.max(f64::MIN_POSITIVE)
}

/// Whether each of the four steps between levels is larger than the one before.
fn quickens(levels: [f64; 5]) -> bool {
    let steps = [0, 1, 2, 3].map(|place| levels[place + 1] - levels[place]);
    let grow = steps.windows(2).all(|two| two[0] < two[1]);
    grow && steps[3] > QUICKENS * steps[0]
}

/// Returns when the margin is used up, in halves of the time so far. Each half adds more than the
/// one before, by the same amount as the last one did.
fn quickening(first: f64, second: f64, margin: f64) -> f64 {
    let more = second - first;
    let pace = second + 0.5 * more;
    ((pace * pace + 2.0 * more * margin).sqrt() - pace) / more
}

/// The highest level in each call of one title.
#[derive(Debug, Clone, Default)]
struct Spikes {
    peaks: Peaks,
    ended: f64,
}

/// The history of one limit.
#[derive(Debug, Clone)]
pub(super) struct LimitHistory {
    history: History,
    rising: bool,
    /// When it was first seen, and when it last killed.
    first: f64,
    killed: f64,
    low: Point,
    high: Point,
    /// When the highest level was first reached, within [`NOISE`].
    crest: Point,
    crests: [Peaks; ORDERS],
    spikes: HashMap<String, Spikes>,
}

impl LimitHistory {
    pub(super) fn new(first: Point) -> Self {
        Self {
            history: History::default(),
            rising: true,
            first: first.time,
            killed: f64::NEG_INFINITY,
            low: first,
            high: first,
            crest: first,
            crests: Default::default(),
            spikes: HashMap::new(),
        }
    }

    /// Returns the latest level.
    #[cfg(test)]
    pub(super) fn latest(&self) -> Option<f64> {
        self.history.latest().map(|point| point.level)
    }

    /// Records the level at a moment.
    pub(super) fn push(&mut self, point: Point, limit: f64) {
        self.history.push(point);
        let turn = (TURN * limit).max(OF_SWING * (self.high.level - self.low.level));
        if self.rising {
            if point.level >= self.high.level {
                self.high = point;
                if point.level > self.crest.level + NOISE * limit {
                    self.crest = point;
                }
            } else if self.high.level - point.level > turn {
                // After the kill was reported, one more look may still see what the killed process
                // held.
                if self.high.time > self.killed + FREED {
                    let peak = Point {
                        time: self.crest.time,
                        ..self.high
                    };
                    self.crest(peak, self.high.level - self.low.level, 0, TURN * limit);
                }
                (self.rising, self.low) = (false, point);
            }
        } else if point.level <= self.low.level {
            self.low = point;
        } else if point.level - self.low.level > turn {
            (self.rising, self.high, self.crest) = (true, point, point);
        }
    }

    fn crest(&mut self, peak: Point, swing: f64, order: usize, least: f64) {
        let Some(crests) = self.crests.get_mut(order) else {
            return;
        };
        crests.push(peak, swing);
        let last: Vec<Point> = crests.iter().rev().take(3).copied().collect();
        let [after, middle, before] = last[..] else {
            return;
        };
        if middle.level > before.level + least && middle.level > after.level + least {
            let swing = middle.level - before.level.min(after.level);
            self.crest(middle, swing, order + 1, least);
        }
    }

    /// Records that the limit killed at `time`. Peaks until then do not show that the next one is
    /// harmless. Returns false if the kill was known already.
    pub(super) fn killed(&mut self, time: f64) -> bool {
        if time <= self.killed {
            return false;
        }
        let now = self.history.latest();
        self.killed = time;
        self.crests = Default::default();
        self.spikes.clear();
        self.low = now.unwrap_or(self.low);
        (self.rising, self.high) = (false, self.low);
        true
    }

    /// Records a call that has ended. The next call of its title is expected to reach the same
    /// level.
    pub(super) fn called(&mut self, title: &str, began: f64, ended: f64, limit: f64) {
        if began < self.killed {
            return;
        }
        let (Some(before), Some(peak)) = (
            self.history.at(began),
            self.history.highest(began, NOISE * limit),
        ) else {
            return;
        };
        if let Some(known) = self.spikes.get_mut(title) {
            if began < known.ended {
                // It ran at the same time as an earlier call.
                if let Some(last) = known.peaks.last_mut() {
                    last.level = last.level.max(peak.level);
                }
                known.ended = known.ended.max(ended);
                return;
            }
        } else if peak.level - before < SPIKE * limit || self.spikes.len() >= TITLES {
            return;
        }
        let spikes = self.spikes.entry(title.to_owned()).or_default();
        spikes.ended = ended;
        spikes.peaks.push(peak, peak.level - before);
    }

    /// Returns forecasts of when the limit will be hit, the soonest first.
    pub(super) fn forecasts(&self, now: Point, limit: f64) -> Vec<Forecast> {
        let crests = self.crests.iter();
        let crests = crests.filter_map(|peaks| peaks.forecast(now.time, limit));
        let titles = self.spikes.values();
        let titles = titles.filter_map(|spikes| spikes.peaks.forecast(now.time, limit));
        let mut found: Vec<Forecast> = crests.chain(titles).chain(self.ramp(now, limit)).collect();
        found.sort_by(|one, other| one.middle.total_cmp(&other.middle));
        found
    }

    /// Returns the title whose calls are expected to hit the limit first.
    pub(super) fn title(&self, now: f64, limit: f64) -> Option<&str> {
        let found = self.spikes.iter().filter_map(|(title, spikes)| {
            let forecast = spikes.peaks.forecast(now, limit)?;
            Some((title.as_str(), forecast.middle))
        });
        let first = found.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        Some(first.0)
    }

    /// Returns the highest level to expect from the peaks so far.
    fn precedent(&self) -> Option<f64> {
        self.crests
            .iter()
            .filter_map(Peaks::expected)
            .reduce(f64::max)
    }

    /// Forecasts by a rise that goes on.
    fn ramp(&self, now: Point, limit: f64) -> Option<Forecast> {
        if !self.rising || now.level < RAMP_FROM * limit {
            return None;
        }
        let rise = self.high.level - self.low.level;
        let began = self
            .history
            .above_since(self.low.level + 0.1 * rise, self.low.time);
        let seen = now.time - began;
        let before = |part: f64| self.history.at(now.time - part * seen);
        let (start, half) = (before(1.0)?, before(0.5)?);
        let (first, second) = (half - start, now.level - half);
        // A level that fluctuates hits the limit with its highest value.
        let margin = limit - self.high.level;
        if seen < 4.0 || rise < 2.0 * TURN * limit || second <= 0.0 {
            return None;
        }
        if second < SLOWS * first && second * second / (first - second) < margin {
            return None;
        }
        // Up to a little above the level to expect from earlier peaks, a rise is nothing new.
        let known = self.precedent();
        if known.is_some_and(|known| now.level < known + TURN * limit) {
            return None;
        }
        let quarters = [before(1.0)?, before(0.75)?, half, before(0.25)?, now.level];
        let all = (first + second) / seen;
        // The recent rate is averaged with that of the whole rise.
        let window = (LOCAL * margin / all).max(8.0).min(0.5 * seen);
        let local = (now.level - before(window / seen)?) / window;
        let rate = 0.5 * (all + local.max(0.0));
        let middle = if quickens(quarters) {
            quickening(first, second, margin) * 0.5 * seen
        } else {
            margin / rate
        };
        let strays = deviation(quarters, 0.25 * (first + second));
        let strays = UNEVEN + UNEVENNESS * strays * (1.0 + seen / middle.max(1.0)).sqrt();
        let off = (strays * middle).hypot(NOISE * limit / rate);
        let quiet = began - self.first;
        Some(Forecast {
            kind: Kind::Ramp,
            low: middle - off,
            likely: middle,
            middle,
            high: middle + 1.2 * off,
            seen,
            quiet,
            period: None,
        })
    }
}
