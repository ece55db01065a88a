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
pub(super) fn extra_memory(limit: Bytes, took: Bytes) -> Bytes {
    took.max(Bytes(limit.0 / 4))
}

/// Returns the remedy for a kill by Ray's monitor. The kernel's limits are left to `hidden-limit`.
pub(super) fn remedy(run: Run<'_>, death: &Death, took: Bytes) -> Option<String> {
    let limit = run.limit(death)?;
    if death.verdict.killer != Killer::RayMemoryMonitor {
        return None;
    }
    let more = extra_memory(limit, took);
    let why = if more == took {
        "as much again as the running calls had taken"
    } else {
        "a quarter of the limit: the running calls had taken less, but had not ended"
    };
    let needed = size(more);
    Some(match higher_threshold(run, death) {
        Some((change, gives)) if gives >= more => format!(
            "{change}: Ray's threshold is then {} higher; about {needed} more are needed ({why})",
            size(gives)
        ),
        Some((change, gives)) => format!(
            "about {needed} more memory for this node ({why}); {change} gives {} of it",
            size(gives)
        ),
        None => format!("about {needed} more memory for this node ({why})"),
    })
}

/// Returns the default of Ray's threshold as a change, and how much it gives, if somebody has
/// lowered it.
fn higher_threshold(run: Run<'_>, death: &Death) -> Option<(String, Bytes)> {
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
    (fraction < default && gives > 0).then(|| (format!("{change} (now {now})"), Bytes(gives)))
}
