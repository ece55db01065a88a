//! Keeps one warning of a limit: begins it once a forecast is worth it, and ends it when no forecast bears it any more.

use super::{Forecast, Kind, history::Point, limit_history::LimitHistory};

/// What is further away than this, in seconds, is no news; of what takes hours, a part of the time in which it was seen.
const HORIZON: f64 = 120.0;
const OF_SEEN: f64 = 0.1;
const OF_PERIOD: f64 = 0.5;
/// A rise goes on for as long again only where it has lasted: this part of its time so far is believed.
const RAMP_LASTS: f64 = 0.35;
/// What is as near as this is told all the same, but not what is too near to be of use.
const IMMINENT: std::ops::Range<f64> = 5.0..15.0;
const LEAST_SEEN: f64 = 10.0;
const SOON_LASTS: f64 = 0.6;
const OF_USE: f64 = 30.0;
/// Where the rise began soon after the first look, others like it may have passed before: less of it is believed.
const QUIET: f64 = 20.0;
const UNSEEN_LASTS: f64 = 0.15;
/// The trend of peaks is believed for this part of the time that it was seen for.
const TREND_LASTS: f64 = 1.0;
/// Looks, a second apart, for which a forecast must stand.
const BELIEVED: u32 = 3;
/// A warning stands for so long at least, in seconds, and this many periods, after the last forecast that bears it.
const HOLD: f64 = 20.0;
const HOLD_PERIODS: f64 = 1.6;
/// And what was given back, as a share of the limit, ends one that came of a rise.
const GIVEN_BACK: f64 = 0.04;

/// An active warning.
#[derive(Debug, Clone, Copy)]
struct Active {
    /// The last time that a forecast bore it.
    borne: f64,
    hold: f64,
    kind: Kind,
    /// What was highest since.
    highest: f64,
}

/// How a warning changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum WarningChange {
    /// The limit is expected to be hit.
    Begun(Forecast),
    /// It no longer is: so many bytes were given back from the highest level.
    Over(f64),
}

/// One limit, with its warning.
#[derive(Debug, Clone)]
pub(super) struct WarningState {
    pub(super) history: LimitHistory,
    looks: u32,
    active: Option<Active>,
}

/// Whether a warning is worth it.
fn is_worth(forecast: &Forecast) -> bool {
    let middle = forecast.middle;
    match forecast.kind {
        Kind::Ramp => {
            let watched = forecast.quiet >= QUIET;
            let part = if watched { RAMP_LASTS } else { UNSEEN_LASTS };
            let imminent = watched && IMMINENT.contains(&middle) && forecast.seen >= LEAST_SEEN;
            // Of an uneven rise the sooner end counts.
            let soon = watched && forecast.low < IMMINENT.end && middle <= HORIZON;
            // What shot up within half a minute is over before anybody has read of it.
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

    /// Takes in that the limit has killed: an active warning ends with what the kill gave back.
    pub(super) fn killed(&mut self, time: f64) {
        if self.history.killed(time)
            && let Some(active) = &mut self.active
        {
            active.kind = Kind::Ramp;
        }
    }

    /// Takes in the level of a moment.
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
