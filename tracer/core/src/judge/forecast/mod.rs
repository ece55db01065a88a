//! Forecasts when each limit will be hit, and begins and ends the warnings.
//!
//! A limit is warned of once. The warning ends when the limit is no longer expected to be hit.
//!
//! [`LimitForecaster`] is asked once a second what is new. It forecasts the next peak by the trend
//! of the peaks, and a rare peak before it begins. It expects a rise to go on for a part of the
//! time that it has lasted, unless earlier peaks went as high. A limit costs some 10 KiB, and 1 KiB
//! for each title of calls that raise memory, however many calls run and for how long. Of more than
//! [`LIMITS`] limits, only the nearest are followed.

mod chance;
mod history;
mod limit_history;
mod peaks;
mod victim;
mod warning_state;

use crate::{
    cgroup_path,
    event::{Call, ForecastProcess, LimitOwner, LimitWarning, Within},
    ids::{BootTime, Bytes, ProcessKey, SECOND_NS},
    judge::{
        Judge, killers::LimitMargin, limit_warnings, live, report::Death,
        state::processes::ProcessState, state::world::World,
    },
};
use history::Point;
use warning_state::{WarningChange, WarningState};

/// At most this many limits are followed.
const LIMITS: usize = 16;
/// The process that grew is looked for over the time of the rise, but no longer than this.
const LATELY_S: f64 = 120.0;
/// A process is named only if its private memory makes up at least this share of the change.
const ITS_PART: f64 = 0.25;
/// Shorter calls are ignored, because they may lie between two looks.
const CALL_NS: i64 = SECOND_NS;

/// What a forecast is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The trend of peaks.
    Peaks,
    /// A rise that goes on.
    Ramp,
}

/// When a limit will be hit, in seconds from now.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Forecast {
    kind: Kind,
    /// The 10th percentile. `middle` is the 50th, and `high` the 90th.
    low: f64,
    /// By this time the kill is probable enough to warn of it.
    likely: f64,
    middle: f64,
    high: f64,
    /// The seconds over which the trend or rise was seen.
    seen: f64,
    /// The seconds for which the limit was watched before that.
    quiet: f64,
    /// The seconds from one peak to the next.
    period: Option<f64>,
}

/// One limit.
#[derive(Debug)]
struct LimitForecast {
    limit_owner: LimitOwner,
    at: Bytes,
    state: WarningState,
    /// Since when the warning is active, and the process that grew.
    warned: Option<(BootTime, Option<ForecastProcess>)>,
}

/// Forecasts when each limit will be hit.
#[derive(Debug, Default)]
pub struct LimitForecaster {
    limits: Vec<LimitForecast>,
}

fn seconds(time: BootTime) -> f64 {
    time.0 as f64 / 1e9
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a duration in ms, cut at 0"
)]
fn milliseconds(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e3) as u64
}

impl LimitForecaster {
    /// Records a call that has ended. The next call is expected to need as much as was in use while
    /// it ran.
    pub fn called(&mut self, call: &Call) {
        let Some(ended) = call
            .ended
            .filter(|ended| ended.since(call.began) >= CALL_NS)
        else {
            return;
        };
        let title = call.title.strip_prefix("ray::").unwrap_or(&call.title);
        for limit in &mut self.limits {
            let history = &mut limit.state.history;
            history.called(
                title,
                seconds(call.began),
                seconds(ended),
                limit.at.0 as f64,
            );
        }
    }

    /// Records a death. If a limit killed, the next warning is a new one.
    pub fn died(&mut self, death: &Death) {
        let killer = death.verdict.killer;
        let Some(name) = limit_warnings::limit_of(killer, death.memory.oom.as_deref()) else {
            return;
        };
        let of_kill = |limit: &&mut LimitForecast| limit.limit_owner == name;
        if let Some(limit) = self.limits.iter_mut().find(of_kill) {
            limit.state.killed(seconds(death.when.act_time));
        }
    }

    /// Returns the warnings that are new at `now`. It must be called once a second.
    pub fn look(&mut self, now: BootTime, judge: &Judge) -> Vec<LimitWarning> {
        let world = &judge.world;
        let mut threats = live::limits(world, now);
        threats.sort_by_key(|threat| threat.margin);
        threats.truncate(LIMITS);
        self.limits.retain(|limit| {
            threats
                .iter()
                .any(|threat| threat.limit_owner == limit.limit_owner)
        });
        let threats = threats.into_iter();
        threats
            .filter_map(|threat| self.step(now, world, &threat))
            .collect()
    }

    fn step(&mut self, now: BootTime, world: &World, threat: &LimitMargin) -> Option<LimitWarning> {
        let point = Point {
            time: seconds(now),
            level: threat.used().0 as f64,
        };
        let place = self
            .limits
            .iter()
            .position(|limit| limit.limit_owner == threat.limit_owner);
        let place = place.unwrap_or_else(|| {
            self.limits.push(LimitForecast {
                limit_owner: threat.limit_owner.clone(),
                at: threat.at,
                state: WarningState::new(point),
                warned: None,
            });
            self.limits.len() - 1
        });
        let limit = self.limits.get_mut(place)?;
        limit.at = threat.at;
        let turn = limit.state.step(point, threat.at.0 as f64)?;
        let mut warning = LimitWarning {
            limit: threat.limit_owner.clone(),
            at: threat.at,
            used: threat.used(),
            within: None,
            grower: None,
            victim: None,
            seen_ms: 0,
            at_once: 0,
        };
        match turn {
            WarningChange::Begun(forecast) => {
                let lately = forecast.seen.min(LATELY_S);
                let since = now.plus(-milliseconds(lately).cast_signed() * 1_000_000);
                let title = limit.state.history.title(point.time, threat.at.0 as f64);
                warning.within = Some(Within {
                    soonest_ms: milliseconds(forecast.low),
                    latest_ms: milliseconds(forecast.high),
                });
                warning.seen_ms = milliseconds(lately);
                if let Some((grower, at_once)) =
                    grower(world, &threat.limit_owner, now, since, title)
                {
                    (warning.grower, warning.at_once) = (Some(grower), at_once);
                }
                warning.victim = victim::likely(world, &threat.limit_owner, now);
                limit.warned = Some((now, warning.grower.clone()));
            }
            WarningChange::Over(given_back) => {
                let (since, grower) = limit.warned.take()?;
                warning.seen_ms = u64::try_from(now.since(since) / 1_000_000).unwrap_or(0);
                warning.grower =
                    grower.and_then(|grower| gave_back(world, grower, since, given_back));
            }
        }
        Some(warning)
    }
}

/// Returns the live processes that count against a limit.
fn counted<'a>(
    world: &'a World,
    limit_owner: &'a LimitOwner,
    now: BootTime,
) -> impl Iterator<Item = &'a ProcessState> {
    let counts = move |cgroup: Option<&str>| match limit_owner {
        LimitOwner::Cgroup(path) => cgroup_path::is_below(cgroup.unwrap_or("/"), path),
        LimitOwner::RayMonitor | LimitOwner::Machine => true,
    };
    let states = world.processes.iter();
    states.filter(move |state| live::is_alive(state, now) && counts(state.cgroup.as_deref()))
}

/// Returns the process that has grown most since then, if it makes up a good part of the growth,
/// and how many processes that run its task grew.
fn grower(
    world: &World,
    limit_owner: &LimitOwner,
    now: BootTime,
    since: BootTime,
    title: Option<&str>,
) -> Option<(ForecastProcess, u32)> {
    let risen = |key: ProcessKey| {
        let samples = world.recent_samples.get(key);
        samples.map_or(Bytes(0), |samples| samples.risen(since))
    };
    let grown = counted(world, limit_owner, now).map(|state| (state, risen(state.key)));
    let grown: Vec<_> = grown.filter(|(_, risen)| risen.0 > 0).collect();
    let all: u64 = grown.iter().map(|(_, risen)| risen.0).sum();
    let (state, moved) = grown.iter().max_by_key(|(_, risen)| *risen)?;
    let task = state.task();
    let same = |(other, _): &&(&ProcessState, Bytes)| task.is_some() && other.task() == task;
    let at_once = grown.iter().filter(same).count();
    let together = grown
        .iter()
        .filter(same)
        .map(|(_, risen)| risen.0)
        .sum::<u64>();
    let part = together.max(moved.0) as f64;
    (part >= ITS_PART * all as f64).then(|| {
        let grower = ForecastProcess {
            process: state.key,
            name: state.owner(),
            call: title.map(str::to_owned),
            moved: *moved,
        };
        (grower, u32::try_from(at_once).unwrap_or(u32::MAX))
    })
}

/// Returns the process that grew, if it is also the one that gave memory back.
fn gave_back(
    world: &World,
    grower: ForecastProcess,
    since: BootTime,
    given_back: f64,
) -> Option<ForecastProcess> {
    let samples = world.recent_samples.get(grower.process)?;
    let moved = samples.fallen(since);
    let is_its_own = moved.0 > 0 && moved.0 as f64 >= ITS_PART * given_back;
    is_its_own.then_some(ForecastProcess { moved, ..grower })
}

#[cfg(test)]
mod tests;
