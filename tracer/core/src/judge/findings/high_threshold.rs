//! Finds a threshold of Ray's that was raised so far that the kernel may kill first.
//!
//! Only a few GiB are left for everything that grows within one interval of the monitor.

use super::Run;
use crate::{
    ids::{Bytes, size},
    judge::report::{Certainty, Finding},
    ray::{
        memory_monitor::{Config, THRESHOLD},
        start::Change,
    },
};

/// With less room than this, a burst fills memory before the monitor checks again.
const ROOM: Bytes = Bytes(4 << 30);

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let default = Config::default().fraction;
    let clusters = run.report.clusters.iter().zip(&run.facts.nodes);
    let found = clusters.filter_map(|(cluster, node)| {
        let monitor = cluster.monitor.as_ref().filter(|monitor| monitor.enabled)?;
        let (threshold, total) = (monitor.threshold_bytes?, monitor.total_bytes?);
        let room = Bytes(total.0.saturating_sub(threshold.0));
        let mut config = Config::of(&node.settings);
        let set = node.settings.iter().any(|(key, _)| key == THRESHOLD);
        if !set && config.min_free.is_none() {
            config.fraction = by_words(threshold, total)?;
        }
        if config.fraction <= default || room >= ROOM || node.isolated {
            return None;
        }
        let summary = format!(
            "{THRESHOLD}={} leaves {} of {}: the kernel then kills first if memory grows by more than that in {} ms, and hides the cause",
            config.fraction,
            size(room),
            size(total),
            config.refresh_ms
        );
        Some(Finding {
            evidence: vec![
                if set {
                    format!("environment of raylet {}", cluster.raylet_pid)
                } else {
                    "by the threshold that it logged".to_owned()
                },
                format!("raylet.out: threshold {} B of {} B", threshold.0, total.0),
            ],
            remedy: vec![
                Change::environment(THRESHOLD, &default.to_string()).at(node.started),
            ],
            cost: Some("Ray kills earlier; it retries tasks, and actors that may restart".into()),
            not_if: Some(if set {
                "nothing on the node grows faster than that".into()
            } else {
                "RAY_min_memory_free_bytes made it so, or nothing on the node grows faster than that".to_owned()
            }),
            ..Finding::new("threshold-high", Certainty::Inferred, summary)
        })
    });
    found.collect()
}

/// Returns the threshold that a raylet logged as a share of its memory, to a thousandth. Used if
/// the environment does not set it; texts never show the environment.
fn by_words(threshold: Bytes, total: Bytes) -> Option<f32> {
    let share = (total.0 > 0).then(|| threshold.gib() / total.gib())?;
    format!("{share:.3}").parse().ok()
}
