//! Remedies in the keys of the framework that runs: none that its printed configuration does not have, and none that is so already.

use super::Run;
use crate::ray::framework::{Aim, Framework, levers};

/// What to turn for an aim, each with its present value where that was seen.
pub(super) fn keys(run: Run<'_>, aim: Aim) -> Vec<String> {
    let framework = run.framework();
    let printed: Vec<&(String, String)> = run
        .facts
        .printed
        .iter()
        .flat_map(|one| &one.settings)
        .collect();
    let given = super::settings::of_framework(run.facts);
    let turned = levers(framework, aim).iter().filter_map(|(key, value)| {
        let now = given
            .iter()
            .find(|one| one.key == key.trim_start_matches('-') && !one.overruled)
            .map(|one| one.value.as_str());
        // A printed configuration is whole: what it has not, this version has not.
        let unknown = !printed.is_empty() && now.is_none() && !key.starts_with('-');
        // What nobody gave cannot be left out.
        let absent = value.is_empty() && now.is_none();
        if unknown || absent || now.is_some_and(|now| same(now, value)) {
            return None;
        }
        Some(match now {
            Some(now) => format!("{} (now {now})", typed(key, value)),
            None => typed(key, value),
        })
    });
    turned.chain(words(framework, aim)).collect()
}

fn typed(key: &str, value: &str) -> String {
    match (value, key.starts_with('-')) {
        ("", _) => format!("leave out {key}"),
        ("on", true) => key.to_owned(),
        ("LOWER" | "FEWER", _) => format!("{} {key}", value.to_lowercase()),
        (value, true) => format!("{key} {value}"),
        (value, false) => format!("{key}={value}"),
    }
}

fn same(now: &str, value: &str) -> bool {
    now.eq_ignore_ascii_case(value) || (now == "[model]" && value == "['model']")
}

/// What has no key.
fn words(framework: Framework, aim: Aim) -> Option<String> {
    let text = match (framework, aim) {
        (Framework::Verl | Framework::EasyR1, Aim::LessInController) => {
            "keep images as paths, not as bytes, in the data"
        }
        (Framework::Data, Aim::Fewer) => "map_batches(…, concurrency=FEWER, num_cpus=MORE)",
        (Framework::Train, Aim::Fewer) => "ScalingConfig(num_workers=FEWER)",
        (Framework::Serve, Aim::Fewer) => {
            "num_replicas=FEWER in @serve.deployment, max_ongoing_requests lower"
        }
        _ => return None,
    };
    Some(text.to_owned())
}
