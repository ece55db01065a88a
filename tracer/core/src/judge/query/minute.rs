//! Reports the last minute before a death.
//!
//! It has figures of the victim, the biggest other processes, shared memory, the machine and the
//! limits, all at the same moments.

use std::collections::VecDeque;

use crate::{
    cgroup_path::is_below,
    event::{Exit, Mapped, MemoryPart, Step},
    ids::{BootTime, Bytes, ProcessKey},
    judge::{
        report::{LastMinute, LimitBefore, MappedBefore, TopBefore, TopProcess},
        state::{
            recent_samples::RecentSamples, snapshot::Biggest, timestamped::Timestamped,
            world::World,
        },
    },
};

/// The moments, in ms before the death. They are closer together near it.
const MOMENTS_MS: [i64; 15] = [
    60_000, 45_000, 30_000, 20_000, 15_000, 10_000, 7_000, 5_000, 4_000, 3_000, 2_000, 1_000, 500,
    200, 0,
];

fn moments(death: BootTime) -> impl Iterator<Item = BootTime> {
    MOMENTS_MS
        .iter()
        .map(move |before| death.plus(-before * 1_000_000))
}

fn over(samples: &RecentSamples, death: BootTime) -> Vec<Option<Bytes>> {
    moments(death).map(|moment| samples.at(moment)).collect()
}

/// Returns the minute before `exit` at `time`, from the samples. It has all of the biggest processes.
pub(crate) fn last_minute(
    world: &World,
    exit: &Exit,
    time: BootTime,
    biggest: &[Biggest],
) -> LastMinute {
    let mut top: Vec<&TopProcess> = Vec::new();
    for one in biggest.iter().flat_map(|biggest| &biggest.top) {
        if !one.victim && top.iter().all(|known| known.pid != one.pid) {
            top.push(one);
        }
    }
    let victim = world.recent_samples.get(exit.process);
    let mut own = victim.map_or_else(
        || vec![None; MOMENTS_MS.len()],
        |samples| over(samples, time),
    );
    if let (Some(last), Some(anon)) = (
        own.last_mut(),
        exit.memory.private().filter(|own| own.0 > 0),
    ) {
        *last = Some(anon);
    }
    let of = |one: &TopProcess| {
        // The pid may have belonged to another process before.
        let samples = world.recent_samples.of_pid(one.pid, time)?;
        Some(TopBefore {
            pid: one.pid,
            title: one.title.clone(),
            private_bytes: over(samples, time),
        })
    };
    LastMinute {
        seconds: MOMENTS_MS
            .iter()
            .map(|before| -(*before as f64) / 1e3)
            .collect(),
        victim_bytes: own,
        top: top.into_iter().filter_map(of).collect(),
        shared_memory_bytes: over(&world.machine.shared, time),
        node_used_bytes: over(&world.machine.used, time),
        limits: limits(world, exit.process, time),
        mapped: Vec::new(),
    }
}

/// Returns the limited cgroups on the path of the process, the innermost first.
fn limits(world: &World, process: ProcessKey, time: BootTime) -> Vec<LimitBefore> {
    let state = world.processes.get(process);
    let Some(path) = state.and_then(|state| state.cgroup.as_deref()) else {
        return Vec::new();
    };
    let mut found: Vec<LimitBefore> = world
        .cgroups
        .iter()
        .filter(|(above, _)| is_below(path, above))
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

/// Adds what the kernel reported after the death was seen: the last steps, and which thread mapped
/// memory.
pub(crate) fn refine(
    minute: &mut LastMinute,
    time: BootTime,
    steps: &[Step],
    mapped: Option<&VecDeque<Timestamped<Mapped>>>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moment_before_first_sample_is_empty() {
        let second = |at: u64| BootTime(at * 1_000_000_000);
        let mut samples = RecentSamples::default();
        for at in 0..1000 {
            samples.push(second(at), Bytes(at));
        }
        let minute = over(&samples, second(999));
        assert_eq!(
            (minute.first(), minute.last()),
            (Some(&Some(Bytes(939))), Some(&Some(Bytes(999))))
        );
        let mut still = RecentSamples::default();
        still.push(second(1), Bytes(7));
        assert_eq!(over(&still, second(50)).first(), Some(&None));
    }

    #[test]
    fn last_steps_refine_the_samples() {
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
