//! When each limit will be met: warned of once in each approach, and taken back where it passes.
//!
//! [`Foresight`] is asked once a second what is new. By the trend of peaks the next peak is foreseen, a rare one before it begins; a rise
//! is believed for a part of the time that it has lasted, and not where peaks before went as high. A limit costs some 20 KiB, whatever
//! runs for however long; of more than [`LIMITS`] only the nearest are followed.

mod approach;
mod history;
mod tops;
mod track;
mod victim;

use crate::{
    event::{Call, LimitName, LimitWarning, NearProcess, Within},
    ids::{BootTime, Bytes, ProcessKey, SECOND_NS},
    judge::{
        Judge,
        killers::{NextKiller, Who},
        live, nears,
        report::Death,
        state::processes::ProcessState,
        state::world::World,
    },
};
use approach::{Approach, ApproachChange};
use history::Point;

/// Limits that are followed.
const LIMITS: usize = 16;
/// Whose growth it is tells the time of the growth, and of a long one its last part.
const LATELY_S: f64 = 120.0;
/// A process whose private memory is less than this part of what moved is not named for it.
const ITS_PART: f64 = 0.25;
/// Shorter calls lie between two looks.
const CALL_NS: i64 = SECOND_NS;

/// By what a forecast is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// By the trend of peaks.
    Tops,
    /// By a rise that goes on.
    Ramp,
}

/// When a limit will be met, in seconds from now.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Forecast {
    kind: Kind,
    /// The 10th percentile, the 50th and the 90th.
    low: f64,
    middle: f64,
    high: f64,
    /// Over so many seconds that was seen.
    seen: f64,
    /// For how long it was watched before that.
    quiet: f64,
    /// From one peak to the next.
    period: Option<f64>,
}

/// One limit.
#[derive(Debug)]
struct Limit {
    who: Who,
    at: Bytes,
    approach: Approach,
    /// Since when the warning stands, and whose growth it was.
    warned: Option<(BootTime, Option<NearProcess>)>,
}

/// What is foreseen of all limits.
#[derive(Debug, Default)]
pub struct Foresight {
    limits: Vec<Limit>,
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

fn limit_name(who: &Who) -> LimitName {
    match who {
        Who::RayMonitor => LimitName::RayMonitor,
        Who::Cgroup(path) => LimitName::Cgroup(path.clone()),
        Who::Machine => LimitName::Machine,
    }
}

impl Foresight {
    /// Takes in a call that has ended: what was in use while it ran is to be expected of the next one.
    pub fn called(&mut self, call: &Call) {
        let Some(ended) = call
            .ended
            .filter(|ended| ended.since(call.began) >= CALL_NS)
        else {
            return;
        };
        let title = call.title.strip_prefix("ray::").unwrap_or(&call.title);
        for limit in &mut self.limits {
            let track = &mut limit.approach.track;
            track.called(
                title,
                seconds(call.began),
                seconds(ended),
                limit.at.0 as f64,
            );
        }
    }

    /// Takes in a death: where a limit has killed, what comes next is another approach to it.
    pub fn died(&mut self, death: &Death) {
        let killer = death.verdict.killer;
        let Some(name) = nears::limit_of(killer, death.memory.oom.as_ref()) else {
            return;
        };
        let of_kill = |limit: &&mut Limit| limit_name(&limit.who) == name;
        if let Some(limit) = self.limits.iter_mut().find(of_kill) {
            limit.approach.killed(seconds(death.when.act_time));
        }
    }

    /// What is new at `now`; to be asked once a second.
    pub fn look(&mut self, now: BootTime, judge: &Judge) -> Vec<LimitWarning> {
        let world = &judge.world;
        let mut threats = live::limits(world, now);
        threats.sort_by_key(|threat| threat.margin);
        threats.truncate(LIMITS);
        self.limits
            .retain(|limit| threats.iter().any(|threat| threat.who == limit.who));
        let threats = threats.into_iter();
        threats
            .filter_map(|threat| self.step(now, world, &threat))
            .collect()
    }

    fn step(&mut self, now: BootTime, world: &World, threat: &NextKiller) -> Option<LimitWarning> {
        let point = Point {
            time: seconds(now),
            level: threat.used().0 as f64,
        };
        let place = self.limits.iter().position(|limit| limit.who == threat.who);
        let place = place.unwrap_or_else(|| {
            self.limits.push(Limit {
                who: threat.who.clone(),
                at: threat.at,
                approach: Approach::new(point),
                warned: None,
            });
            self.limits.len() - 1
        });
        let limit = self.limits.get_mut(place)?;
        limit.at = threat.at;
        let turn = limit.approach.step(point, threat.at.0 as f64)?;
        let mut near = LimitWarning {
            limit: limit_name(&threat.who),
            at: threat.at,
            used: threat.used(),
            within: None,
            doer: None,
            victim: None,
            seen_ms: 0,
            at_once: 0,
        };
        match turn {
            ApproachChange::Near(forecast) => {
                let lately = forecast.seen.min(LATELY_S);
                let since = now.plus(-milliseconds(lately).cast_signed() * 1_000_000);
                let title = limit.approach.track.title(point.time, threat.at.0 as f64);
                near.within = Some(Within {
                    soonest_ms: milliseconds(forecast.low),
                    latest_ms: milliseconds(forecast.high),
                });
                near.seen_ms = milliseconds(lately);
                if let Some((doer, at_once)) = grower(world, &threat.who, now, since, title) {
                    (near.doer, near.at_once) = (Some(doer), at_once);
                }
                near.victim = victim::likely(world, &threat.who, now);
                limit.warned = Some((now, near.doer.clone()));
            }
            ApproachChange::Over(given_back) => {
                let (since, doer) = limit.warned.take()?;
                near.seen_ms = u64::try_from(now.since(since) / 1_000_000).unwrap_or(0);
                near.doer = doer.and_then(|doer| gave_back(world, doer, since, given_back));
            }
        }
        Some(near)
    }
}

/// Who counts against a limit and lives.
fn counted<'a>(
    world: &'a World,
    who: &'a Who,
    now: BootTime,
) -> impl Iterator<Item = &'a ProcessState> {
    let counts = move |cgroup: Option<&str>| match who {
        Who::Cgroup(path) => live::is_below(cgroup.unwrap_or("/"), path),
        Who::RayMonitor | Who::Machine => true,
    };
    let states = world.processes.iter();
    states.filter(move |state| live::is_alive(state, now) && counts(state.cgroup.as_deref()))
}

/// The process that has grown most since then, where it is a good part of what grew; and how many run its task and grew.
fn grower(
    world: &World,
    who: &Who,
    now: BootTime,
    since: BootTime,
    title: Option<&str>,
) -> Option<(NearProcess, u32)> {
    let risen = |key: ProcessKey| {
        let trail = world.trails.get(key);
        trail.map_or(Bytes(0), |trail| trail.risen(since))
    };
    let grown = counted(world, who, now).map(|state| (state, risen(state.key)));
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
        let doer = NearProcess {
            process: state.key,
            name: state.owner(),
            call: title.map(str::to_owned),
            moved: *moved,
        };
        (doer, u32::try_from(at_once).unwrap_or(u32::MAX))
    })
}

/// The one that grew, where it is the one that gave back.
fn gave_back(
    world: &World,
    doer: NearProcess,
    since: BootTime,
    given_back: f64,
) -> Option<NearProcess> {
    let trail = world.trails.get(doer.process)?;
    let moved = trail.fallen(since);
    let is_its_own = moved.0 > 0 && moved.0 as f64 >= ITS_PART * given_back;
    is_its_own.then_some(NearProcess { moved, ..doer })
}

#[cfg(test)]
mod tests;
