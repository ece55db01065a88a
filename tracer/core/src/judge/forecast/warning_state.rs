//! Keeps the warning of one limit.
//!
//! It begins once a forecast is worth it, and ends when no forecast supports it any more.

use super::{Forecast, Kind, history::Point, limit_history::LimitHistory};

/// A kill that is further away, in seconds, is not warned of yet. A slow one may be further away:
/// by a share of the time in which it was seen ([`OF_SEEN`]), or of a period ([`OF_PERIOD`]).
const HORIZON: f64 = 120.0;
const OF_SEEN: f64 = 0.1;
const OF_PERIOD: f64 = 0.5;
/// A rise is expected to go on for this share of the time that it has lasted.
const RAMP_LASTS: f64 = 0.35;
/// A kill this near, in seconds, is warned of anyway. For a nearer one, a warning is of no use.
const IMMINENT: std::ops::Range<f64> = 5.0..15.0;
const LEAST_SEEN: f64 = 10.0;
const SOON_LASTS: f64 = 0.6;
const OF_USE: f64 = 30.0;
/// If the rise began within this time after the first look, in seconds, similar ones may have
/// passed before. Less of it is trusted ([`UNWATCHED_LASTS`]).
const QUIET: f64 = 20.0;
const UNWATCHED_LASTS: f64 = 0.15;
/// A trend of peaks is expected to go on for this share of the time over which it was seen.
const TREND_LASTS: f64 = 1.0;
/// A forecast must hold for this many looks, a second apart.
const BELIEVED: u32 = 3;
/// A warning stays active for at least this many seconds, and [`HOLD_PERIODS`] periods, after the
/// last forecast that supports it.
const HOLD: f64 = 20.0;
const HOLD_PERIODS: f64 = 1.6;
/// A warning of a rise ends early once this share of the limit was given back.
const GIVEN_BACK: f64 = 0.04;

/// An active warning.
#[derive(Debug, Clone, Copy)]
struct Active {
    /// The last time that a forecast supported it.
    borne: f64,
    hold: f64,
    kind: Kind,
    /// The highest level since it began.
    highest: f64,
}

/// How a warning changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum WarningChange {
    /// The limit is expected to be hit.
    Begun(Forecast),
    /// The limit is not expected to be hit any more. This many bytes were given back since the
    /// highest level.
    Over(f64),
}

/// One limit, with its warning.
#[derive(Debug, Clone)]
pub(super) struct WarningState {
    pub(super) history: LimitHistory,
    looks: u32,
    active: Option<Active>,
}

/// Whether a forecast is worth a warning.
fn is_worth(forecast: &Forecast) -> bool {
    let middle = forecast.middle;
    match forecast.kind {
        Kind::Ramp => {
            let watched = forecast.quiet >= QUIET;
            let part = if watched { RAMP_LASTS } else { UNWATCHED_LASTS };
            let imminent = watched && IMMINENT.contains(&middle) && forecast.seen >= LEAST_SEEN;
            // Of an uneven rise, the early end counts.
            let soon = watched && forecast.low < IMMINENT.end && middle <= HORIZON;
            // A rise that takes less than half a minute is over before anybody has read of it.
            let is_of_use = forecast.seen >= OF_USE || middle >= IMMINENT.start;
            is_of_use
                && (imminent
                    || soon && middle <= SOON_LASTS * forecast.seen
                    || middle <= part * forecast.seen)
                && middle <= HORIZON.max(OF_SEEN * forecast.seen)
        }
        Kind::Peaks => {
            let horizon = HORIZON.max(OF_PERIOD * forecast.period.unwrap_or_default());
            forecast.likely <= horizon && forecast.likely <= TREND_LASTS * forecast.seen
        }
    }
}

impl WarningState {
    pub(super) fn new(first: Point) -> Self {
        Self {
            history: LimitHistory::new(first),
            looks: 0,
            active: None,
        }
    }

    /// Records that the limit killed. An active warning ends once the kill has given memory back.
    pub(super) fn killed(&mut self, time: f64) {
        if self.history.killed(time)
            && let Some(active) = &mut self.active
        {
            active.kind = Kind::Ramp;
        }
    }

    /// Records the level at a moment. Returns how the warning changed.
    pub(super) fn step(&mut self, point: Point, limit: f64) -> Option<WarningChange> {
        self.history.push(point, limit);
        let forecasts = self.history.forecasts(point, limit);
        let worth = forecasts
            .iter()
            .find(|forecast| is_worth(forecast))
            .copied();
        let Some(active) = &mut self.active else {
            self.looks = if worth.is_some() { self.looks + 1 } else { 0 };
            let forecast = worth.filter(|_| self.looks >= BELIEVED)?;
            self.active = Some(Active {
                borne: point.time,
                hold: hold(&forecast),
                kind: forecast.kind,
                highest: point.level,
            });
            return Some(WarningChange::Begun(forecast));
        };
        active.highest = active.highest.max(point.level);
        if let Some(forecast) = worth {
            active.borne = point.time;
            active.hold = hold(&forecast).max(active.hold);
            if forecast.kind == Kind::Peaks {
                active.kind = Kind::Peaks;
            }
        }
        let given_back = active.highest - point.level;
        let gave = active.kind == Kind::Ramp && given_back > GIVEN_BACK * limit;
        let hold = if gave { 3.0 } else { active.hold };
        let over = worth.is_none() && point.time - active.borne > hold;
        over.then(|| {
            (self.active, self.looks) = (None, 0);
            WarningChange::Over(given_back)
        })
    }
}

fn hold(forecast: &Forecast) -> f64 {
    let periods = HOLD_PERIODS * forecast.period.unwrap_or_default();
    HOLD.max(periods).max(forecast.high.min(600.0))
}
