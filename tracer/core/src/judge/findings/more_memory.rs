//! Advises how much more memory a node needs.
//!
//! This is the last advice, after what can be changed in the workload.

use super::Run;
use crate::{
    ids::{Bytes, size},
    judge::report::{Death, Killer},
    ray::{
        memory_monitor::{Config, THRESHOLD},
        start::Change,
    },
};

/// Returns how much to add to a limit if the running calls had taken `took`. They had not ended, so
/// it is as much again, and at least a quarter of the limit.
pub(super) fn wanted(limit: Bytes, took: Bytes) -> Bytes {
    took.max(Bytes(limit.0 / 4))
}

/// Returns the remedy for a kill by Ray's monitor. The kernel's limits are left to `hidden-limit`.
pub(super) fn remedy(run: Run<'_>, death: &Death, took: Bytes) -> Option<String> {
    let limit = run.limit(death)?;
    if death.verdict.killer != Killer::RayMemoryMonitor {
        return None;
    }
    let more = size(wanted(limit, took));
    let threshold = higher_threshold(run, death).unwrap_or_default();
    Some(format!(
        "about {more} more memory for this node, if the calls take as much again{threshold}"
    ))
}

/// Returns what Ray's own threshold would give, if somebody has lowered it.
fn higher_threshold(run: Run<'_>, death: &Death) -> Option<String> {
    let node = run.node(death).filter(|node| !node.isolated)?;
    let monitor = run.monitor(death)?;
    let (threshold, total) = (monitor.threshold_bytes?, monitor.total_bytes?);
    let (_, now) = node.settings.iter().find(|(key, _)| key == THRESHOLD)?;
    let fraction = Config::of(&node.settings).fraction;
    let default = Config::default().fraction;
    let gives = total
        .times(f64::from(default))
        .0
        .saturating_sub(threshold.0);
    let change = Change::environment(THRESHOLD, &default.to_string()).at(node.started);
    (fraction < default && gives > 0)
        .then(|| format!("; {change} (now {now}) gives {} of it", size(Bytes(gives))))
}
