//! Parameters of two bytes instead of four: what to turn where ranks hold whole copies of a model.

use super::{Run, remedy::is_printed, settings::of_framework};
use crate::ray::framework::{self, RemedyGoal};

/// What that costs.
pub(super) const COST: &str =
    "parameters, gradients and optimizer states are rounded to bfloat16: watch the reward";
/// The part of them that is gone.
pub(super) const SHARE: f64 = 0.5;
/// Who shards by something else reads another setting.
const STRATEGY: &str = "actor.strategy";

/// `+actor_rollout_ref.actor.fsdp_config.model_dtype=bf16`; `None` where the framework has no such setting, or it was given.
pub(super) fn halved(run: Run<'_>) -> Option<String> {
    let setting = framework::remedy_settings(run.framework, RemedyGoal::Precision)
        .into_iter()
        .next()?;
    let given = of_framework(run.facts);
    let other = given
        .iter()
        .any(|one| one.key.ends_with(STRATEGY) && !one.value.starts_with("fsdp"));
    let now = given
        .iter()
        .find(|one| one.key == setting.key)
        .map(|one| one.value.as_str());
    let text = match now {
        _ if other => return None,
        Some("fp32" | "float32") => format!("{}={} (now fp32)", setting.key, setting.value),
        Some("null" | "None" | "") => format!("{}={}", setting.key, setting.value),
        Some(_) => return None,
        // Hydra takes a key that the configuration does not have only with a plus.
        None if is_printed(run) => format!("+{}={}", setting.key, setting.value),
        None => format!("{}={}", setting.key, setting.value),
    };
    Some(text)
}
