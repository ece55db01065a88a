//! Settings of the framework that make a lack of RAM worse, or that cannot help; spoken of only after a memory kill.

use super::{
    Run,
    rules::{Contradiction, Needs, OFFLOADED, Rule},
    settings::{Given, of_framework},
};
use crate::{
    ids::Bytes,
    judge::report::{Certainty, Finding},
    ray::framework::{Each, Effect, Spoken, Versions},
};

/// Processes that held less of a limit did not meet it.
const BEARS: f64 = 0.25;

/// The rule.
pub(super) const RULE: Rule = Rule {
    ids: &["setting-takes-host-memory", "setting-does-not-help"],
    is_cause: false,
    needs: Needs::MemoryKill,
    contradicts: &[Contradiction {
        rule: "setting-takes-host-memory",
        other: "gpu-out-of-memory",
        why: OFFLOADED,
    }],
    find,
};

fn find(run: Run<'_>) -> Vec<Finding> {
    let killed: Vec<_> = run.memory_kills().map(|death| death.id).collect();
    let given = of_framework(run.facts);
    let name = run.framework.name();
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
    let mut costly = with(given, &[Effect::MovesToHost, Effect::Pinned]);
    costly.retain(|(_, one)| bears(run, one));
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
    let moves = |(_, one): &(&Given, &Spoken)| one.effect == Effect::MovesToHost;
    let (cost, wrong_if) = if costly.iter().any(moves) {
        (
            "that much more GPU memory is needed",
            "private and pinned memory of the ranks stays level while the GPU's falls",
        )
    } else {
        (
            "preempted sequences are computed again",
            "little shared or pinned memory is seen in these processes",
        )
    };
    (!costly.is_empty()).then(|| Finding {
        evidence: sources(&costly),
        remedy: remedy.collect(),
        cost: Some(cost.into()),
        wrong_if: Some(wrong_if.into()),
        ..Finding::new(
            "setting-takes-host-memory",
            Certainty::Inferred,
            format!("{name} is set to use host memory: {}", list.join("; ")),
        )
    })
}

/// Whether the processes that a setting acts on held a good part of a limit that was met; where none of them was seen, they may have.
fn bears(run: Run<'_>, one: &Spoken) -> bool {
    let acts_on = |class: &str| one.acts_on.iter().any(|part| class.contains(part.as_str()));
    let shares = run.memory_kills().filter_map(|death| {
        let inside = run.inside(death).iter();
        let named = inside.filter(|held| held.class.as_deref().is_some_and(acts_on));
        let held: Vec<u64> = named.map(|held| held.private.0).collect();
        let limit = run.limit(death).filter(|_| !held.is_empty())?;
        Some(Bytes(held.iter().sum()).gib() / limit.gib())
    });
    let most = shares.reduce(f64::max);
    most.is_none_or(|most| most >= BEARS)
}

/// Where a setting is read at all.
fn only(run: Run<'_>, one: &Spoken) -> String {
    let note = one.note(run.framework).map(str::to_owned);
    let places = one.versions().map(versions).into_iter().chain(note);
    let places: Vec<String> = places.map(|place| format!("; {place}")).collect();
    places.concat()
}

/// `vLLM up to 0.17`.
fn versions(versions: Versions) -> String {
    let Versions { of, since, until } = versions;
    match (since, until) {
        (Some(since), Some(until)) => format!("{of} {since} to {until}"),
        (Some(since), None) => format!("{of} from {since} on"),
        (None, Some(until)) => format!("{of} up to {until}"),
        (None, None) => of.to_owned(),
    }
}

/// `40 GiB × 8 WorkerDict = 320 GiB`: what is pinned for each GPU, by the ranks that ran at a kill.
fn product(run: Run<'_>, one: &Spoken) -> Option<String> {
    let each: f64 = one
        .value
        .parse()
        .ok()
        .filter(|_| one.for_each == Some(Each::Gpu))?;
    let counts = run.memory_kills().filter_map(|death| {
        let inside = run.inside(death);
        let rank = |class: &str| {
            let mut parts = one.acts_on.iter();
            parts.any(|part| class.contains(part.as_str()))
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
    // A default that nobody typed is nobody's mistake.
    idle.retain(|(given, one)| given.typed && one.holds_in(run.framework));
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
                "these settings do not help {name} against a lack of RAM: {}",
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
