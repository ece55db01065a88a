//! Returns remedies in the keys of the framework that runs.
//!
//! It leaves out keys that the printed configuration does not have, and values that are set
//! already.

use super::{Run, settings::of_framework};
use crate::ray::framework::{
    self as frameworks, Effect, Framework, RemedyGoal, RemedySetting, remedy_settings,
};

/// What moving memory from the GPU to the host costs.
pub(super) const RAISES_HOST: &str = "raises host memory by what it frees on the GPU";

/// Returns what to set for a goal, each with its present value if that was seen: only settings that
/// act on a class, if one is given.
pub(super) fn keys(run: Run<'_>, goal: RemedyGoal, class: Option<&str>) -> Vec<String> {
    keys_in(run, goal, class, None)
}

/// Like [`keys`], but only settings that act on the calls of a method, if one is given.
pub(super) fn keys_in(
    run: Run<'_>,
    goal: RemedyGoal,
    class: Option<&str>,
    method: Option<&str>,
) -> Vec<String> {
    let framework = run.framework;
    let by_class_alone = run.named_framework.is_none();
    let printed = is_printed(run);
    let given = of_framework(run.facts);
    let underscored = framework == Framework::OpenRlhf && underscored(run);
    let host_full = run.memory_kills().next().is_some();
    let found = remedy_settings(framework, goal)
        .into_iter()
        .filter_map(|setting| {
            let key = if underscored {
                setting.old?
            } else {
                setting.key
            };
            let now = given
                .iter()
                .find(|one| one.key.replace('-', "_") == plain(key) && !one.overruled)
                .map(|one| one.value.as_str());
            // A printed configuration is complete: this version has no other keys.
            let unknown = printed && now.is_none() && !key.starts_with('-');
            // The value is the default, and nobody has set another one.
            let default = setting.default && now.is_none();
            let wrong_way = host_full && moves_to_host(&setting);
            let idle = setting
                .only_if_typed
                .is_some_and(|needed| !given.iter().any(|one| one.typed && one.key == needed));
            let elsewhere = class.is_some_and(|class| !setting.acts_on(class))
                || method.is_some_and(|method| !setting.acts_in(method))
                || (by_class_alone && !setting.is_of_all_forks(framework, goal));
            // Moving memory to the host is advised against only if it is known to be on.
            let unseen = goal == RemedyGoal::LessOnHost && now.is_none();
            let value = value_for(now, setting.value)?;
            if unknown || default || unseen || wrong_way || idle || elsewhere {
                return None;
            }
            // Nothing else in the report says whose key it is.
            let whose = whose(framework).filter(|_| by_class_alone);
            let what = match (now.filter(|now| !now.is_empty()), whose) {
                (Some(now), _) => format!("{} (now {now})", typed(key, &value)),
                (None, Some(whose)) => format!("{} (a setting of {whose})", typed(key, &value)),
                (None, None) => typed(key, &value),
            };
            let costs_host = goal == RemedyGoal::Gpu && moves_to_host(&setting);
            Some(if costs_host {
                format!("{what}: {RAISES_HOST}")
            } else {
                what
            })
        });
    let words = frameworks::advice_without_key(framework, goal).map(str::to_owned);
    found.chain(words).collect()
}

/// Returns the commands that show processes and end them.
pub(super) fn end(pids: &[String]) -> Vec<String> {
    vec![
        format!("check: ps -fp {}", pids.join(",")),
        format!("end: kill {}", pids.join(" ")),
    ]
}

/// Returns whether the framework's whole configuration was printed. The keys of a model's own
/// configuration have no dots.
pub(super) fn is_printed(run: Run<'_>) -> bool {
    let mut settings = run.facts.printed.iter().flat_map(|one| &one.settings);
    settings.any(|(key, _)| key.contains('.'))
}

/// Returns the value to set, given the present one; `None` if that is the same already, or lower.
fn value_for(now: Option<&str>, value: &str) -> Option<String> {
    let number = |text: &str| text.parse::<f64>().ok();
    if value == "HALF" {
        let now = now.and_then(|now| now.parse::<u64>().ok());
        return now.filter(|now| *now > 1).map(|now| (now / 2).to_string());
    }
    let lower = now.and_then(number).zip(number(value));
    if lower.is_some_and(|(now, value)| now <= value) || now.is_some_and(|now| same(now, value)) {
        return None;
    }
    Some(value.to_owned())
}

/// Returns the name of a framework that is recognized by its classes.
fn whose(framework: Framework) -> Option<&'static str> {
    match framework {
        Framework::Verl | Framework::EasyR1 | Framework::SimpleRl => Some("verl and its forks"),
        Framework::OpenRlhf => Some("OpenRLHF"),
        Framework::Vllm => Some("vLLM"),
        Framework::Sglang => Some("SGLang"),
        Framework::Given(_) => Some(framework.name()),
        _ => None,
    }
}

/// Returns whether command lines use the older keys, with underscores instead of dots.
fn underscored(run: Run<'_>) -> bool {
    let mut flags = run.facts.drivers.iter().flat_map(|one| &one.argv);
    flags.any(|flag| {
        let name = flag.split('=').next().unwrap_or(flag);
        name.starts_with("--") && name.contains('_') && !name.contains('.')
    })
}

fn plain(key: &str) -> String {
    key.trim_start_matches('-').replace('-', "_")
}

/// Returns whether a setting moves memory to the host.
fn moves_to_host(setting: &RemedySetting) -> bool {
    // A setting that is left out moves nothing.
    let value = match setting.value {
        "" => return false,
        "on" => "",
        value => value,
    };
    let effects = frameworks::setting_effects(&[(plain(setting.key), value.to_owned())]);
    effects.iter().any(|one| one.effect == Effect::MovesToHost)
}

fn typed(key: &str, value: &str) -> String {
    match (value, key.starts_with('-')) {
        ("", _) => format!("leave out {key}"),
        ("on", true) => key.to_owned(),
        ("LOWER", _) => format!("a lower {key}"),
        (value, true) => format!("{key} {value}"),
        (value, false) => format!("{key}={value}"),
    }
}

fn same(now: &str, value: &str) -> bool {
    let on = value == "on" && matches!(now, "" | "True" | "true" | "1");
    on || (!value.is_empty() && now.eq_ignore_ascii_case(value))
        || (now == "[model]" && value == "['model']")
}

#[cfg(test)]
mod tests {
    use super::value_for;

    /// `HALF` is computed from the present value; numbers are never raised.
    #[test]
    fn advised_value_is_below_the_present_one() {
        let value = |now: Option<&str>, value| value_for(now, value);
        assert_eq!(value(Some("8"), "HALF"), Some("4".into()));
        assert_eq!(value(Some("1"), "HALF"), None);
        assert_eq!(value(None, "HALF"), None);
        assert_eq!(value(Some("16"), "64"), None);
        assert_eq!(value(Some("64"), "64"), None);
        assert_eq!(value(Some("128"), "64"), Some("64".into()));
        assert_eq!(value(Some("True"), "False"), Some("False".into()));
        assert_eq!(value(Some("False"), "False"), None);
        assert_eq!(value(Some("8"), "LOWER"), Some("LOWER".into()));
    }
}
