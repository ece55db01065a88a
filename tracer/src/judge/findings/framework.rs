//! Settings of the framework on the driver's command line that make a lack of RAM worse, or that cannot help.

use super::Run;
use crate::{
    event::Role,
    judge::report::{Certainty, Finding},
    ray::framework::{self, Effect, Spoken},
};

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let killed: Vec<_> = run
        .memory_kills()
        .map(|death| (death.id, death.cluster))
        .collect();
    if killed.is_empty() {
        return Vec::new();
    }
    let drivers = run
        .world
        .processes
        .iter()
        .filter(|state| state.role == Role::Driver);
    let mut found = Vec::new();
    for driver in drivers {
        let spoken = framework::settings(&driver.argv);
        let name = framework::name(&driver.argv).unwrap_or("the framework");
        let source = format!("command line of driver {}", driver.key.pid);
        found.extend(worse(name, &spoken).map(|finding| Finding {
            evidence: vec![source.clone()],
            deaths: killed.iter().map(|(id, _)| *id).collect(),
            ..finding
        }));
        found.extend(no_help(name, &spoken).map(|finding| Finding {
            evidence: vec![source],
            ..finding
        }));
    }
    found
}

/// What takes host memory.
fn worse(name: &str, spoken: &[Spoken]) -> Option<Finding> {
    let costly: Vec<&Spoken> = spoken
        .iter()
        .filter(|one| matches!(one.effect, Effect::MovesToHost | Effect::PinnedPerGpu))
        .collect();
    let list: Vec<String> = costly
        .iter()
        .map(|one| format!("{} ({})", shown(one), one.why))
        .collect();
    let remedy = costly.iter().filter_map(|one| {
        let instead = one.instead?;
        let plain = instead.starts_with("leave");
        Some(if plain {
            format!("{}: {instead}", one.key)
        } else {
            format!("{}={instead}", one.key)
        })
    });
    (!costly.is_empty()).then(|| Finding {
        rule: "setting-takes-host-memory".into(),
        certainty: Certainty::Inferred,
        summary: format!("{name} is told to use host memory: {}", list.join("; ")),
        evidence: Vec::new(),
        remedy: remedy.collect(),
        cost: Some("GPU memory rises by what the host gains".into()),
        deaths: Vec::new(),
    })
}

/// What cannot help against a lack of RAM.
fn no_help(name: &str, spoken: &[Spoken]) -> Option<Finding> {
    let idle: Vec<String> = spoken
        .iter()
        .filter(|one| matches!(one.effect, Effect::GpuOnly | Effect::Nothing))
        .map(|one| format!("{} ({})", shown(one), one.why))
        .collect();
    (!idle.is_empty()).then(|| Finding {
        rule: "setting-does-not-help".into(),
        certainty: Certainty::Proven,
        summary: format!(
            "does not help {name} against a lack of RAM: {}",
            idle.join("; ")
        ),
        evidence: Vec::new(),
        remedy: Vec::new(),
        cost: None,
        deaths: Vec::new(),
    })
}

fn shown(one: &Spoken) -> String {
    if one.value.is_empty() {
        format!("--{}", one.key)
    } else {
        format!("{}={}", one.key, one.value)
    }
}
