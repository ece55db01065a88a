//! Settings of the framework that make a lack of RAM worse, or that cannot help; spoken of only after a memory kill.

use super::{
    Run,
    settings::{Given, of_framework},
};
use crate::{
    judge::report::{Certainty, Finding},
    ray::framework::{Effect, Framework, Spoken},
};

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let killed: Vec<_> = run.memory_kills().map(|death| death.id).collect();
    if killed.is_empty() {
        return Vec::new();
    }
    let given = of_framework(run.facts);
    let name = run.framework().name();
    let mut found = Vec::new();
    found.extend(worse(run, name, &given).map(|finding| Finding {
        deaths: killed.clone(),
        ..finding
    }));
    found.extend(no_help(run, name, &given));
    found
}

/// Those in force with one of these effects.
fn with<'a>(given: &'a [Given], effects: &[Effect]) -> Vec<(&'a Given, &'a Spoken)> {
    let spoken = given
        .iter()
        .filter(|one| !one.overruled)
        .filter_map(|one| Some((one, one.spoken.as_ref()?)));
    spoken
        .filter(|(_, spoken)| effects.contains(&spoken.effect))
        .collect()
}

/// What takes host memory.
fn worse(run: Run<'_>, name: &str, given: &[Given]) -> Option<Finding> {
    let costly = with(given, &[Effect::MovesToHost, Effect::Pinned]);
    let list: Vec<String> = costly
        .iter()
        .map(|(_, one)| format!("{} ({}{})", shown(one), one.why, only(run, one)))
        .chain(costly.iter().filter_map(|(_, one)| product(run, one)))
        .collect();
    let remedy = costly.iter().filter_map(|(_, one)| {
        let instead = one.instead?;
        let plain = instead.starts_with("leave");
        Some(if plain {
            format!("{}: {instead}", one.key)
        } else {
            format!("{}={instead}", one.key)
        })
    });
    (!costly.is_empty()).then(|| Finding {
        evidence: sources(&costly),
        remedy: remedy.collect(),
        cost: Some("GPU memory rises by what the host gains".into()),
        wrong_if: Some(
            "private and pinned memory of the ranks stays level while the GPU's falls".into(),
        ),
        ..Finding::new(
            "setting-takes-host-memory",
            Certainty::Inferred,
            format!("{name} is told to use host memory: {}", list.join("; ")),
        )
    })
}

/// Where a setting is read at all.
fn only(run: Run<'_>, one: &Spoken) -> &'static str {
    // The fork's vLLM is an old one.
    let swap = one.key.replace('-', "_").ends_with("swap_space");
    if swap && run.framework() != Framework::SimpleRl {
        "; only with vLLM's V0 engine"
    } else {
        ""
    }
}

/// `40 GiB × 8 WorkerDict = 320 GiB`: what is pinned for each GPU, by the ranks that ran at a kill.
fn product(run: Run<'_>, one: &Spoken) -> Option<String> {
    let each: f64 = one
        .value
        .parse()
        .ok()
        .filter(|_| one.effect == Effect::Pinned)
        // That one is for all ranks of an engine.
        .filter(|_| !one.key.replace('-', "_").ends_with("kv_offloading_size"))?;
    let counts = run.memory_kills().filter_map(|death| {
        let inside = run.inside(death);
        let rank = |class: &str| {
            ["WorkerDict", "FSDPWorker", "LLMRayActor", "VLLM::"]
                .iter()
                .any(|word| class.contains(word))
        };
        let ranks = inside
            .iter()
            .filter_map(|held| held.class.as_deref())
            .filter(|class| rank(class));
        Some((ranks.clone().count(), ranks.clone().next()?))
    });
    let (count, class) = counts.max_by_key(|(count, _)| *count)?;
    Some(format!(
        "{each:.0} GiB × {count} {class} = {:.0} GiB",
        each * count as f64
    ))
}

/// What cannot help against a lack of RAM.
fn no_help(run: Run<'_>, name: &str, given: &[Given]) -> Option<Finding> {
    let mut idle = with(given, &[Effect::GpuOnly, Effect::Nothing]);
    // There it frees a cache on the host too, and its maintainer's advice is to turn it off.
    let helps = run.framework() == Framework::SimpleRl;
    idle.retain(|(_, one)| !helps || !one.key.ends_with("free_cache_engine"));
    let list: Vec<String> = idle
        .iter()
        .map(|(_, one)| format!("{} ({})", shown(one), one.why))
        .collect();
    (!idle.is_empty()).then(|| Finding {
        evidence: sources(&idle),
        ..Finding::new(
            "setting-does-not-help",
            Certainty::Proven,
            format!(
                "does not help {name} against a lack of RAM: {}",
                list.join("; ")
            ),
        )
    })
}

/// Where they stand, each place once.
fn sources(of: &[(&Given, &Spoken)]) -> Vec<String> {
    let mut sources: Vec<String> = of.iter().map(|(given, _)| given.source.clone()).collect();
    sources.dedup();
    sources
}

fn shown(one: &Spoken) -> String {
    if one.value.is_empty() {
        format!("--{}", one.key)
    } else {
        format!("{}={}", one.key, one.value)
    }
}
