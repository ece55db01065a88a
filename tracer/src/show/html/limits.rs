//! Makes the lines of limits in a lane.
//!
//! They are Ray's thresholds, the cgroups that killed, and those that came nearest to their limits.

use serde::Serialize;

use super::{lanes::Lane, series, units::kib};
use crate::{
    ids::Bytes,
    judge::{
        report::{Killer, Monitor, Report},
        timeline::{CgroupSeries, Timeline},
    },
    show::{
        fleet,
        size::{self, size},
        words,
    },
};

/// Maximum number of limits of cgroups that are drawn and named, the largest first. Smaller ones
/// would be on the axis.
const MAX_LIMITS: usize = 4;

/// The line of a limit in the chart.
#[derive(Debug, Serialize)]
pub(super) struct LimitLine {
    label: String,
    kib: u64,
    ray: bool,
}

/// Returns the limits of a lane, and how many are left out.
pub(super) fn of(
    report: &Report,
    lane: &Lane,
    timelines: &[(u32, &Timeline)],
) -> (Vec<LimitLine>, usize) {
    let mut limits: Vec<LimitLine> = Vec::new();
    for limit in thresholds(report, lane)
        .into_iter()
        .chain(cgroups(report, lane, timelines))
    {
        if !limits.iter().any(|known| known.label == limit.label) {
            limits.push(limit);
        }
    }
    most(limits)
}

/// Returns the cgroup that the memory of a lane is drawn of, if only its limit matters: all kills
/// for memory were at it, or nothing was killed and Ray takes it for all memory. What is outside
/// does not count against its limit.
pub(super) fn scope(
    report: &Report,
    lane: &Lane,
    timelines: &[(u32, &Timeline)],
) -> Option<String> {
    let drawn: Vec<&CgroupSeries> = (timelines.iter())
        .flat_map(|(_, one)| series::limited(one))
        .collect();
    let machine = machine(report, lane);
    let total = monitors(report, lane).find_map(|monitor| part(monitor, machine));
    let rays = drawn.iter().find(|series| {
        let last = series.samples.last();
        total.is_some() && last.is_some_and(|(_, state)| state.limit == total)
    });
    let rays = rays.map(|series| series.path.as_str());
    let deaths = report.deaths.iter().filter(|death| {
        let recording = death.recording_id;
        death.is_memory_kill() && recording.is_none_or(|id| is_own(report, lane, id))
    });
    let full = deaths.map(|death| match death.verdict.killer {
        Killer::RayMemoryMonitor => rays,
        _ => death
            .memory
            .oom
            .as_ref()
            .and_then(|oom| oom.cgroup.as_deref()),
    });
    let mut full: Vec<Option<&str>> = full.collect();
    full.dedup();
    let path = match full.as_slice() {
        [] => rays,
        [only] => *only,
        _ => None,
    };
    let path = path.filter(|path| drawn.iter().any(|series| series.path == *path));
    path.map(str::to_owned)
}

fn is_own(report: &Report, lane: &Lane, recording: u32) -> bool {
    !fleet::is_fleet_report(report) || lane.recordings.contains(&recording)
}

/// Returns the thresholds above which Ray kills.
fn thresholds(report: &Report, lane: &Lane) -> Vec<LimitLine> {
    let machine = machine(report, lane);
    let limit = |monitor: &Monitor| {
        let threshold = monitor.threshold_bytes?;
        let label = match part(monitor, machine) {
            Some(total) => format!(
                "Ray kills above {}, in its cgroup",
                size::of(threshold, total)
            ),
            None => format!("Ray kills above {}", size(threshold)),
        };
        Some(LimitLine {
            label,
            kib: kib(threshold),
            ray: true,
        })
    };
    monitors(report, lane).filter_map(limit).collect()
}

/// Returns the memory of a lane's machine.
fn machine(report: &Report, lane: &Lane) -> Option<Bytes> {
    let mut recordings = report.recordings.iter();
    let own = recordings.find(|one| is_own(report, lane, one.id))?;
    Some(own.host.memory_bytes)
}

/// Returns the monitors that kill on a lane's node.
fn monitors<'a>(report: &'a Report, lane: &'a Lane) -> impl Iterator<Item = &'a Monitor> {
    let clusters = report.clusters.iter();
    let own = clusters.filter(|cluster| is_own(report, lane, cluster.recording_id));
    let monitors = own.filter_map(|cluster| cluster.monitor.as_ref());
    monitors.filter(|monitor| monitor.enabled)
}

/// Returns the limit of the cgroup that a monitor takes for all memory, if it does.
fn part(monitor: &Monitor, machine: Option<Bytes>) -> Option<Bytes> {
    let total = monitor.total_bytes;
    total.filter(|total| machine.is_some_and(|all| total.0 < all.0 / 10 * 9))
}

fn cgroups(report: &Report, lane: &Lane, timelines: &[(u32, &Timeline)]) -> Vec<LimitLine> {
    let deaths = report.deaths.iter();
    let own = |recording: u32| is_own(report, lane, recording);
    let killed = deaths
        .filter(|death| death.recording_id.is_none_or(own))
        .filter_map(|death| death.memory.oom.as_ref());
    let killed = killed.filter_map(|oom| Some((oom.cgroup.as_deref()?, oom.limit_bytes?)));
    let limited = timelines.iter().flat_map(|(_, one)| series::limited(one));
    let limited = limited.filter_map(|series| {
        let (_, last) = series.samples.last()?;
        Some((series.path.as_str(), last.limit?))
    });
    let line = |(path, limit)| LimitLine {
        label: format!("limit of cgroup {}: {}", words::cgroup(path), size(limit)),
        kib: kib(limit),
        ray: false,
    };
    killed.chain(limited).map(line).collect()
}

/// Keeps Ray's own limits and the largest others, and counts the rest.
fn most(all: Vec<LimitLine>) -> (Vec<LimitLine>, usize) {
    let (mut kept, mut others): (Vec<LimitLine>, Vec<LimitLine>) =
        all.into_iter().partition(|one| one.ray);
    others.sort_by_key(|one| std::cmp::Reverse(one.kib));
    let left_out = others.len().saturating_sub(MAX_LIMITS);
    others.truncate(MAX_LIMITS);
    kept.append(&mut others);
    (kept, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::CgroupState,
        ids::WallTime,
        judge::report::{Death, OomReport, Utc},
        show::sample,
    };

    fn timeline(report: &Report) -> Timeline {
        let cgroup = |path: &str, limit: u64| {
            let state = CgroupState {
                limit: Some(Bytes(limit)),
                ..CgroupState::default()
            };
            CgroupSeries {
                path: path.into(),
                samples: vec![(Utc(WallTime(0)), state)],
            }
        };
        let total = part(
            report.clusters[0].monitor.as_ref().expect("a monitor"),
            Some(report.recordings[0].host.memory_bytes),
        );
        Timeline {
            began: Utc(WallTime(0)),
            ended: Utc(WallTime(1)),
            node: Vec::new(),
            cgroups: vec![
                cgroup("/ray", total.map_or(1, |total| total.0)),
                cgroup("/ray/actor", 5),
            ],
            processes: Vec::new(),
            addresses: Vec::new(),
        }
    }

    /// The chart is of a cgroup if no other limit killed.
    #[test]
    fn chart_is_of_the_cgroup_whose_limit_mattered() {
        let mut report = sample::verl();
        let all = report.recordings[0].host.memory_bytes;
        let monitor = report.clusters[0].monitor.as_mut().expect("a monitor");
        (monitor.enabled, monitor.total_bytes) = (true, Some(Bytes(all.0 / 2)));
        let mut kill = report.deaths[0].clone();
        report.deaths.clear();
        let timeline = timeline(&report);
        let lanes = super::super::lanes::Lanes::of(&report);
        let of = |report: &Report| scope(report, &lanes.all[0], &[(0, &timeline)]);
        assert_eq!(of(&report).as_deref(), Some("/ray"));
        kill.recording_id = None;
        let killed = |killer, cgroup: Option<&str>| {
            let mut death: Death = kill.clone();
            death.verdict.killer = killer;
            let oom = cgroup.map(|path| OomReport {
                cgroup: Some(path.into()),
                ..OomReport::default()
            });
            death.memory.oom = oom.map(Box::new);
            death
        };
        report.deaths = vec![killed(Killer::KernelOomMemcg, Some("/ray/actor"))];
        assert_eq!(of(&report).as_deref(), Some("/ray/actor"));
        report.deaths.push(killed(Killer::RayMemoryMonitor, None));
        assert_eq!(of(&report), None);
        report.deaths = vec![killed(Killer::KernelOomGlobal, None)];
        assert_eq!(of(&report), None);
    }
}
