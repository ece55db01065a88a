//! Makes the lines of limits in a lane.
//!
//! They are Ray's thresholds, the cgroups that killed, and those that came nearest to their limits.

use serde::Serialize;

use super::{lanes::Lane, series, units::kib};
use crate::{
    judge::{
        report::{Monitor, Report},
        timeline::Timeline,
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

fn is_own(report: &Report, lane: &Lane, recording: u32) -> bool {
    !fleet::is_fleet_report(report) || lane.recordings.contains(&recording)
}

/// Returns the thresholds above which Ray kills.
fn thresholds(report: &Report, lane: &Lane) -> Vec<LimitLine> {
    let mut recordings = report.recordings.iter();
    let machine = recordings.find(|one| is_own(report, lane, one.id));
    let machine = machine.map(|one| one.host.memory_bytes);
    let limit = |monitor: &Monitor| {
        let threshold = monitor.threshold_bytes?;
        let part = monitor
            .total_bytes
            .filter(|total| machine.is_some_and(|all| total.0 < all.0 / 10 * 9));
        let label = match part {
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
    let clusters = report.clusters.iter();
    let own = clusters.filter(|cluster| is_own(report, lane, cluster.recording_id));
    let monitors = own.filter_map(|cluster| cluster.monitor.as_ref());
    monitors
        .filter(|monitor| monitor.enabled)
        .filter_map(limit)
        .collect()
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
