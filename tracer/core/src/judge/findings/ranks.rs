//! Half as many ranks on a node: what to turn where each of them holds a copy of the whole model.

use super::{
    Run,
    settings::{number, of_framework},
};
use crate::ray::framework;

/// What that costs.
pub(super) const COST: &str =
    "steps take longer, and each rank holds a larger part of what is sharded";

/// The setting that says how many ranks a node has, with half of what it is now.
pub(super) struct Fewer {
    pub(super) key: &'static str,
    pub(super) now: u64,
    pub(super) value: u64,
}

impl Fewer {
    /// `trainer.n_gpus_per_node=1 (now 2)`.
    pub(super) fn text(&self) -> String {
        format!("{}={} (now {})", self.key, self.value, self.now)
    }

    /// The part of the ranks that are gone.
    pub(super) fn share(&self) -> f64 {
        1.0 - self.value as f64 / self.now as f64
    }
}

/// `None` where the framework has no such setting, it does not halve, or an engine needs that many.
pub(super) fn halved(run: Run<'_>) -> Option<Fewer> {
    let key = framework::ranks(run.framework)?;
    let given = of_framework(run.facts);
    let now = number(&given, key)?;
    let value = now / 2;
    let engine = number(&given, "rollout.tensor_model_parallel_size").unwrap_or(1);
    let divides = value > 0 && now % 2 == 0 && engine > 0 && value % engine == 0;
    divides.then_some(Fewer { key, now, value })
}
