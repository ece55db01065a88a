//! Ray's threshold was raised so far that the kernel is next: a few GiB are left for everything that grows within one interval.

use super::Run;
use crate::{
    ids::Bytes,
    judge::{
        oom::size,
        report::{Certainty, Finding},
    },
    ray::{memory_monitor::Config, start::Change},
};

/// Ray's own.
const DEFAULT: f32 = 0.95;
/// Below this a burst overtakes the monitor.
const ROOM: Bytes = Bytes(4 << 30);

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let clusters = run.report.clusters.iter().zip(&run.facts.nodes);
    let found = clusters.filter_map(|(cluster, node)| {
        let config = Config::of(&node.settings);
        let monitor = cluster.monitor.as_ref().filter(|monitor| monitor.enabled)?;
        let (threshold, total) = (monitor.threshold_bytes?, monitor.total_bytes?);
        let room = Bytes(total.0.saturating_sub(threshold.0));
        if config.fraction <= DEFAULT || room >= ROOM || node.isolated {
            return None;
        }
        let summary = format!(
            "RAY_memory_usage_threshold={} leaves {} of {}: it hides the cause and lets the kernel kill first when memory grows faster than that in {} ms",
            config.fraction,
            size(room),
            size(total),
            config.refresh_ms
        );
        Some(Finding {
            evidence: vec![
                format!("environment of raylet {}", cluster.raylet_pid),
                format!("raylet.out: threshold {} B of {} B", threshold.0, total.0),
            ],
            remedy: vec![
                Change::environment("RAY_memory_usage_threshold", "0.95").at(node.started),
            ],
            cost: Some("Ray kills earlier, and retries".into()),
            wrong_if: Some("nothing on the node grows faster than that".into()),
            ..Finding::new("threshold-high", Certainty::Inferred, summary)
        })
    });
    found.collect()
}
