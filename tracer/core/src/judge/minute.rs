//! The last minute before a death: the victim, the biggest others, shared memory, the machine and the limits, at the same moments.

use std::collections::VecDeque;

use crate::{
    event::{Exit, Mapped, MemoryPart, Step},
    ids::{BootTime, Bytes, Pid, ProcessKey, SECOND_NS},
    judge::{
        forecast::Points,
        report::{LastMinute, LimitBefore, MappedBefore, TopBefore, TopProcess},
        world::{Seen, World},
    },
};

/// The moments, in ms before the death: the nearer, the closer together.
const MOMENTS_MS: [i64; 15] = [
    60_000, 45_000, 30_000, 20_000, 15_000, 10_000, 7_000, 5_000, 4_000, 3_000, 2_000, 1_000, 500,
    200, 0,
];
/// Figures that a trail keeps: a minute at ten a second.
const LONGEST: usize = 600;
/// Older ones are dropped: a figure that does not move is written each minute.
const KEPT_NS: i64 = 125 * SECOND_NS;

/// The last figures of one thing, the oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Trail(VecDeque<(BootTime, Bytes)>);

impl Trail {
    pub(super) fn push(&mut self, time: BootTime, figure: Bytes) {
        self.0.push_back((time, figure));
        // The last one before the minute says how it began.
        let old = |trail: &VecDeque<(BootTime, Bytes)>| {
            trail.len() > 2
                && trail
                    .get(1)
                    .is_some_and(|(since, _)| time.since(*since) > KEPT_NS)
        };
        while self.0.len() > LONGEST || old(&self.0) {
            self.0.pop_front();
        }
    }

    /// All that is kept, as a rate is taken from it.
    pub(super) fn points(&self) -> Points {
        let points = self.0.iter();
        points
            .map(|(time, figure)| (*time, figure.0 as f64))
            .collect()
    }

    /// How far the last figure lies above the lowest since `since`.
    pub(super) fn risen(&self, since: BootTime) -> Bytes {
        let lately = self.0.iter().filter(|(time, _)| *time >= since);
        let lowest = lately
            .map(|(_, figure)| figure.0)
            .chain(self.at(since).map(|at| at.0))
            .min();
        let last = self.0.back().map_or(0, |(_, last)| last.0);
        Bytes(lowest.map_or(0, |lowest| last.saturating_sub(lowest)))
    }

    /// How far the last figure lies below the highest since `since`.
    pub(super) fn fallen(&self, since: BootTime) -> Bytes {
        let lately = self.0.iter().filter(|(time, _)| *time >= since);
        let highest = lately.map(|(_, figure)| figure.0).max();
        let last = self.0.back().map_or(0, |(_, last)| last.0);
        Bytes(highest.map_or(0, |highest| highest.saturating_sub(last)))
    }

    /// The figure in force at `time`.
    fn at(&self, time: BootTime) -> Option<Bytes> {
        let last = self.0.iter().rev().find(|(since, _)| *since <= time)?;
        Some(last.1)
    }

    fn over(&self, death: BootTime) -> Vec<Option<Bytes>> {
        moments(death).map(|moment| self.at(moment)).collect()
    }
}

fn moments(death: BootTime) -> impl Iterator<Item = BootTime> {
    MOMENTS_MS
        .iter()
        .map(move |before| death.plus(-before * 1_000_000))
}

/// The minute before `exit` at `time`, as the samples have it.
pub(super) fn before(world: &World, exit: &Exit, time: BootTime, top: &[TopProcess]) -> LastMinute {
    let victim = world.trails.get(&exit.process.truncated());
    let mut own = victim.map_or_else(|| vec![None; MOMENTS_MS.len()], |trail| trail.over(time));
    if let (Some(last), Some(anon)) = (
        own.last_mut(),
        exit.memory.private().filter(|own| own.0 > 0),
    ) {
        *last = Some(anon);
    }
    let of = |one: &TopProcess| {
        // A pid may have been another process's before.
        let own = world.trails.iter();
        let own = own.filter(|(key, _)| key.pid == one.pid && key.start <= time);
        let (_, trail) = own.max_by_key(|(key, _)| key.start)?;
        Some(TopBefore {
            pid: one.pid,
            title: one.title.clone(),
            private_bytes: trail.over(time),
        })
    };
    LastMinute {
        seconds: MOMENTS_MS
            .iter()
            .map(|before| -(*before as f64) / 1e3)
            .collect(),
        victim_bytes: own,
        top: top
            .iter()
            .filter(|one| !one.victim)
            .filter_map(of)
            .collect(),
        shared_memory_bytes: world.shared_trail.over(time),
        node_used_bytes: world.node_trail.over(time),
        limits: limits(world, exit.process, time),
        mapped: Vec::new(),
    }
}

/// The limited cgroups on the path of the process, the innermost first.
fn limits(world: &World, process: ProcessKey, time: BootTime) -> Vec<LimitBefore> {
    let state = world.processes.get(process);
    let Some(path) = state.and_then(|state| state.cgroup.as_deref()) else {
        return Vec::new();
    };
    let mut found: Vec<LimitBefore> = world
        .cgroups
        .iter()
        .filter(|(above, _)| std::path::Path::new(path).starts_with(above))
        .filter_map(|(above, states)| {
            let limit = states.last()?.what.limit?;
            let at = |moment: BootTime| {
                let last = states.iter().rev().find(|seen| seen.time <= moment)?;
                Some(last.what.usage)
            };
            Some(LimitBefore {
                cgroup: above.clone(),
                limit_bytes: limit,
                usage_bytes: moments(time).map(at).collect(),
            })
        })
        .collect();
    found.sort_by_key(|limit| std::cmp::Reverse(limit.cgroup.len()));
    found
}

/// What came from the kernel after the death was seen: its last steps, and who mapped what.
pub(super) fn refine(
    minute: &mut LastMinute,
    time: BootTime,
    steps: &[Step],
    mapped: Option<&VecDeque<Seen<Mapped>>>,
) {
    let anon: Vec<&Step> = steps
        .iter()
        .filter(|step| step.part == MemoryPart::Anon)
        .collect();
    let last = minute.victim_bytes.len().saturating_sub(1);
    for (figure, moment) in minute.victim_bytes.iter_mut().take(last).zip(moments(time)) {
        if let Some(step) = anon.iter().rev().find(|step| step.time <= moment) {
            *figure = Some(step.bytes);
        }
    }
    let earliest = time.plus(-MOMENTS_MS[0] * 1_000_000);
    minute.mapped = mapped
        .into_iter()
        .flatten()
        .filter(|seen| seen.time >= earliest && seen.time <= time)
        .map(|seen| MappedBefore {
            seconds: seen.time.since(time) as f64 / 1e9,
            tid: seen.what.tid,
            bytes: seen.what.all_bytes,
            calls: seen.what.calls,
        })
        .collect();
}

/// A process outside Ray that holds much: it is sampled near a limit only.
#[derive(Debug, Clone)]
pub(super) struct Outside {
    pub(super) pid: Pid,
    pub(super) name: String,
    pub(super) cgroup: Option<String>,
    pub(super) private: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_says_what_was_in_force_and_forgets_what_is_older_than_the_minute() {
        let second = |at: u64| BootTime(at * 1_000_000_000);
        let mut trail = Trail::default();
        for at in 0..1000 {
            trail.push(second(at), Bytes(at));
        }
        assert!(trail.0.len() < 130, "{}", trail.0.len());
        assert_eq!(trail.at(second(900)), Some(Bytes(900)));
        let over = trail.over(second(999));
        assert_eq!(
            (over.first(), over.last()),
            (Some(&Some(Bytes(939))), Some(&Some(Bytes(999))))
        );
        let mut still = Trail::default();
        still.push(second(1), Bytes(7));
        assert_eq!(
            still.over(second(50)).first(),
            Some(&None),
            "not seen yet a minute before"
        );
        assert_eq!(still.at(second(50)), Some(Bytes(7)));
    }

    #[test]
    fn the_last_steps_are_nearer_to_the_death_than_samples() {
        let death = BootTime(100_000_000_000);
        let mut minute = LastMinute {
            victim_bytes: vec![Some(Bytes(1)); MOMENTS_MS.len()],
            ..LastMinute::default()
        };
        let step = |before: i64, bytes| Step {
            time: death.plus(-before * 1_000_000),
            part: MemoryPart::Anon,
            bytes: Bytes(bytes),
        };
        refine(&mut minute, death, &[step(600, 50), step(210, 80)], None);
        let last: Vec<u64> = minute
            .victim_bytes
            .iter()
            .rev()
            .take(4)
            .flatten()
            .map(|bytes| bytes.0)
            .collect();
        assert_eq!(last, [1, 80, 50, 1], "at 0, 0.2, 0.5 and 1 s before");
    }
}
