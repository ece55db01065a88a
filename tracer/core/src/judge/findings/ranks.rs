//! Advises fewer ranks on a node, if each holds a copy of the model or much of its own.

use super::{
    Run,
    settings::{number, of_framework},
};
use crate::ray::framework;

/// The setting of the number of ranks on a node, with its present value and a smaller one.
pub(super) struct FewerRanks {
    pub(super) key: &'static str,
    pub(super) now: u64,
    pub(super) value: u64,
}

impl FewerRanks {
    /// Returns the change as `trainer.n_gpus_per_node=1 (now 2)`.
    pub(super) fn text(&self) -> String {
        format!("{}={} (now {})", self.key, self.value, self.now)
    }

    /// Returns what the change costs.
    pub(super) fn cost(&self) -> String {
        format!(
            "steps take about {:.0} times as long ({} instead of {} ranks); each rank left holds more of what is sharded",
            self.now as f64 / self.value as f64,
            self.value,
            self.now
        )
    }

    /// Returns the share of the ranks that the change removes.
    pub(super) fn share(&self) -> f64 {
        1.0 - self.value as f64 / self.now as f64
    }
}

/// Returns half as many ranks. `None` if the framework has no such setting, the number cannot be
/// halved, or an engine needs that many ranks.
pub(super) fn half_the_ranks(run: Run<'_>) -> Option<FewerRanks> {
    let fewer = at_most(run, f64::INFINITY)?;
    (fewer.value * 2 == fewer.now).then_some(fewer)
}

/// Returns the largest smaller number of ranks that is at most `most`, divides the present number,
/// and suits the engine.
pub(super) fn at_most(run: Run<'_>, most: f64) -> Option<FewerRanks> {
    let key = framework::ranks(run.framework)?;
    let given = of_framework(run.facts);
    let now = number(&given, key)?;
    let engine = number(&given, "rollout.tensor_model_parallel_size").unwrap_or(1);
    let fits = |value: &u64| {
        *value as f64 <= most && now % value == 0 && engine > 0 && value.is_multiple_of(engine)
    };
    let value = (1..=now / 2).rev().find(fits)?;
    Some(FewerRanks { key, now, value })
}
