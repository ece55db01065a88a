//! Remedies in the keys of the framework that runs: none that its printed configuration does not have, and none that is so already.

use super::{Run, settings::of_framework};
use crate::ray::framework::{self, Aim, Effect, Framework, Lever, levers};

/// What to turn for an aim, each with its present value where that was seen.
pub(super) fn keys(run: Run<'_>, aim: Aim) -> Vec<String> {
    let framework = run.framework();
    let printed = run.facts.printed.iter().any(|one| !one.settings.is_empty());
    let given = of_framework(run.facts);
    let underscored = framework == Framework::OpenRlhf && underscored(run);
    let host_full = run.memory_kills().next().is_some();
    let turned = levers(framework, aim).into_iter().filter_map(|lever| {
        let key = if underscored { lever.old? } else { lever.key };
        let now = given
            .iter()
            .find(|one| one.key.replace('-', "_") == plain(key) && !one.overruled)
            .map(|one| one.value.as_str());
        // A printed configuration is whole: what it has not, this version has not.
        let unknown = printed && now.is_none() && !key.starts_with('-');
        // What nobody gave is so already.
        let default = lever.default && now.is_none();
        let wrong_way = host_full && moves_to_host(&lever);
        if unknown || default || wrong_way || now.is_some_and(|now| same(now, lever.value)) {
            return None;
        }
        Some(match now.filter(|now| !now.is_empty()) {
            Some(now) => format!("{} (now {now})", typed(key, lever.value)),
            None => typed(key, lever.value),
        })
    });
    turned.chain(words(framework, aim)).collect()
}

/// Whether command lines are spelled as before the dots.
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

/// Whether a lever fills the host's memory.
fn moves_to_host(lever: &Lever) -> bool {
    // What is left out moves nothing.
    let value = match lever.value {
        "" => return false,
        "on" => "",
        value => value,
    };
    let spoken = framework::spoken(&[(plain(lever.key), value.to_owned())]);
    spoken.iter().any(|one| one.effect == Effect::MovesToHost)
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
    let on = value == "on" && matches!(now, "" | "True" | "true" | "1");
    on || (!value.is_empty() && now.eq_ignore_ascii_case(value))
        || (now == "[model]" && value == "['model']")
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
        (Framework::OpenRlhf, Aim::Sleep) => return None,
        (Framework::Verl, Aim::Sleep) => {
            "sleep level 2, which keeps no copy: a newer verl, with vLLM 0.8.5 or newer"
        }
        (_, Aim::Sleep) => "vLLM's sleep(level=2), which keeps no copy of the weights",
        _ => return None,
    };
    Some(text.to_owned())
}
