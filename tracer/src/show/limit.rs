//! Says how near memory came to its limits.
//!
//! It compares the node's peak with Ray's threshold or the machine, each cgroup's peak with its own
//! limit or that of a monitor that counts it, and what was in use at each kill.

use crate::{
    ids::Bytes,
    judge::report::{Death, LimitPeak, Monitor, Peak, Report},
    show::{size::share, words},
};

/// Memory in use, compared with one limit.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitUse {
    /// In use.
    pub used: Bytes,
    /// The limit.
    pub limit: Bytes,
    /// Whose limit: `Ray's threshold`, `cgroup .../system`.
    pub whose: String,
}

impl LimitUse {
    /// Returns the share of the limit that was in use.
    pub fn share(&self) -> f64 {
        share(self.used, self.limit)
    }
}

/// Returns the memory monitors that the report knows.
pub fn monitors(report: &Report) -> impl Iterator<Item = &Monitor> {
    let clusters = report.clusters.iter();
    clusters.filter_map(|cluster| cluster.monitor.as_ref())
}

/// Returns Ray's lowest threshold, of monitors that count the whole machine. Those of others cannot
/// be compared with its peak.
pub fn threshold(report: &Report, peak: &Peak) -> Option<Bytes> {
    let whole = |total: Bytes| total.0.abs_diff(peak.total_bytes.0) <= (1 << 30);
    monitors(report)
        .filter(|monitor| monitor.enabled && monitor.total_bytes.is_none_or(whole))
        .filter_map(|monitor| monitor.threshold_bytes)
        .min()
}

/// Returns where memory came nearest to a limit, or went farthest above one. `None` if no use of
/// memory is known.
pub fn nearest(report: &Report) -> Option<LimitUse> {
    let peak = report.peak.iter().map(|peak| at_peak(report, peak));
    let deaths = report
        .deaths
        .iter()
        .flat_map(|death| at_death(report, death));
    fullest(peak.chain(deaths).chain(in_cgroups(report)))
}

/// Returns where a cgroup came nearest to its limit, or to that of a monitor that counts it.
pub fn nearest_cgroup(report: &Report) -> Option<LimitUse> {
    fullest(in_cgroups(report))
}

fn fullest(uses: impl Iterator<Item = LimitUse>) -> Option<LimitUse> {
    uses.max_by(|one, other| one.share().total_cmp(&other.share()))
}

/// Compares each cgroup with its limit, and with the threshold of a monitor that takes this limit
/// for all memory.
fn in_cgroups(report: &Report) -> impl Iterator<Item = LimitUse> {
    let own = report.limits.iter().map(|peak| LimitUse {
        used: peak.needed_bytes,
        limit: peak.limit_bytes,
        whose: whose_cgroup(report, &peak.cgroup),
    });
    let counted = report.limits.iter().filter_map(|peak| {
        Some(LimitUse {
            used: peak.needed_bytes,
            limit: lowest_threshold(report, peak)?,
            whose: format!("Ray's threshold in {}", whose_cgroup(report, &peak.cgroup)),
        })
    });
    own.chain(counted)
}

/// Returns the lowest threshold of the monitors that take this cgroup's limit for all memory.
fn lowest_threshold(report: &Report, peak: &LimitPeak) -> Option<Bytes> {
    let counts =
        |monitor: &&Monitor| monitor.enabled && monitor.total_bytes == Some(peak.limit_bytes);
    let counting = monitors(report).filter(counts);
    counting.filter_map(|monitor| monitor.threshold_bytes).min()
}

fn whose_cgroup(report: &Report, path: &str) -> String {
    let places = report.clusters.iter().map(|cluster| &cluster.place);
    words::cgroup_name(places, path)
}

/// Compares the machine's peak with Ray's threshold, or else with all of its memory.
pub fn at_peak(report: &Report, peak: &Peak) -> LimitUse {
    let threshold = threshold(report, peak).filter(|limit| *limit < peak.total_bytes);
    let whose = if threshold.is_some() {
        "Ray's threshold"
    } else {
        "the machine's memory"
    };
    LimitUse {
        used: peak.used_bytes,
        limit: threshold.unwrap_or(peak.total_bytes),
        whose: whose.to_owned(),
    }
}

/// Returns what Ray counted, and the use of the cgroups that the victim was in.
fn at_death(report: &Report, death: &Death) -> Vec<LimitUse> {
    let Some(at) = &death.memory.at_death else {
        return Vec::new();
    };
    let ray = at.ray_used_bytes.zip(at.ray_threshold_bytes);
    let ray = ray.map(|(used, limit)| LimitUse {
        used,
        limit,
        whose: "Ray's threshold".to_owned(),
    });
    let cgroups = at.limits.iter().filter_map(|level| {
        Some(LimitUse {
            used: level.usage_bytes,
            limit: level.limit_bytes?,
            whose: whose_cgroup(report, &level.cgroup),
        })
    });
    cgroups.chain(ray).collect()
}
