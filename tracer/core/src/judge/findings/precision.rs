//! Advises parameters of two bytes instead of four, if ranks hold copies of a whole model.

use super::{Run, remedy::is_printed, settings::of_framework};
use crate::ray::framework::{self, RemedyGoal};

/// The cost of two bytes.
pub(super) const COST: &str = "the weights train in bfloat16, which rounds small steps away (most of them below a learning rate of about 1e-4)";
/// The share of the memory that is saved.
pub(super) const SHARE: f64 = 0.5;
/// The setting of the sharding strategy. Strategies other than FSDP read another precision setting.
const STRATEGY: &str = "actor.strategy";

/// Returns `+actor_rollout_ref.actor.fsdp_config.model_dtype=bf16`. `None` if the framework has no
/// such setting or does not read it, or if it has another value already.
pub(super) fn bfloat16_setting(run: Run<'_>) -> Option<String> {
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
        // Hydra needs a plus before a key that the configuration does not have.
        None if is_printed(run) => format!("+{}={}", setting.key, setting.value),
        None => format!("{}={}", setting.key, setting.value),
    };
    Some(text)
}
