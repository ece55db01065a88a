//! Finds settings of the framework that make a lack of RAM worse, or that cannot help.
//!
//! They are reported only after a memory kill.

use std::collections::BTreeSet;

use super::{
    Run,
    facts::Member,
    settings::{FrameworkSetting, of_framework},
};
use crate::{
    ids::{Bytes, EventId, Pid, size},
    judge::report::{About, Certainty, Finding},
    ray::framework::{Each, Effect, SettingEffect, Versions},
};

/// Processes that held a smaller share of the limit are not why it was hit.
const BEARS: f64 = 0.25;

/// The cost of keeping on a GPU what was moved off it.
pub(super) const MORE_ON_GPU: &str = "that much more GPU memory is needed";

/// Why settings that move memory off a GPU stay as they are.
const NO_GPU: &str = "no GPU was seen, and its memory would have to hold that";

/// Returns the settings in force that have one of these effects.
fn with<'a>(
    given: &'a [FrameworkSetting],
    wanted: &[Effect],
) -> Vec<(&'a FrameworkSetting, &'a SettingEffect)> {
    let effects = given
        .iter()
        .filter(|one| !one.overruled)
        .filter_map(|one| Some((one, one.effect.as_ref()?)));
    effects
        .filter(|(_, one)| wanted.contains(&one.effect))
        .collect()
}

/// Finds settings that take host memory.
pub(super) fn takes_host_memory(run: Run<'_>) -> Vec<Finding> {
    let given = of_framework(run.facts);
    let name = run.framework.name();
    let costly = with(&given, &[Effect::MovesToHost, Effect::Pinned]);
    let costly: Vec<(&FrameworkSetting, &SettingEffect, AffectedKills)> = costly
        .into_iter()
        .filter_map(|(given, one)| Some((given, one, AffectedKills::of(run, one)?)))
        .collect();
    let products: Vec<Option<PinnedProduct>> = costly
        .iter()
        .map(|(_, one, _)| PinnedProduct::of(run, one))
        .collect();
    if costly.is_empty() {
        return Vec::new();
    }
    let moves = |(_, one, _): &(&FrameworkSetting, &SettingEffect, AffectedKills)| {
        one.effect == Effect::MovesToHost
    };
    let unfit = has_no_gpu(run) && costly.iter().any(moves);
    let list: Vec<String> = costly
        .iter()
        .map(|(_, one, _)| format!("{} ({}{})", shown(one), one.why, only(run, one)))
        .chain(products.iter().flatten().map(PinnedProduct::words))
        .chain(unfit.then(|| NO_GPU.to_owned()))
        .collect();
    let taken = |product: &Option<PinnedProduct>| {
        let product = product.as_ref();
        product.is_none_or(|product| !product.exceeds_limit())
    };
    let remedies = costly.iter().zip(&products);
    let remedies = remedies.filter(|(one, product)| taken(product) && !(unfit && moves(one)));
    let remedy = together(
        remedies
            .filter_map(|((_, one, _), _)| remedy(one))
            .collect(),
    );
    let (cost, not_if) = if costly.iter().any(moves) && !unfit {
        (
            MORE_ON_GPU,
            "private and pinned memory of the ranks does not rise while GPU memory falls",
        )
    } else {
        (
            "preempted sequences are recomputed",
            "these processes have little shared or pinned memory",
        )
    };
    let deaths: BTreeSet<EventId> = costly
        .iter()
        .flat_map(|(.., on)| on.deaths.clone())
        .collect();
    let pids: BTreeSet<Pid> = costly.iter().flat_map(|(.., on)| on.pids.clone()).collect();
    let about = About {
        pids: pids.into_iter().collect(),
        ..About::default()
    };
    vec![Finding {
        evidence: sources(costly.iter().map(|(given, ..)| *given)),
        cost: remedy.as_ref().map(|_| cost.into()),
        not_if: remedy.as_ref().map(|_| not_if.into()),
        remedy: remedy.into_iter().collect(),
        deaths: deaths.into_iter().collect(),
        about,
        ..Finding::new(
            "setting-takes-host-memory",
            Certainty::Inferred,
            format!("{name} is set to use host memory: {}", list.join("; ")),
        )
    }]
}

/// Returns whether no GPU was seen, and no process that moved memory off one. Nobody looks for GPUs
/// where only texts are read.
fn has_no_gpu(run: Run<'_>) -> bool {
    let mut held = run.memory_kills().flat_map(|death| run.inside(death));
    let moves = |held: &Member| {
        held.doing
            .as_deref()
            .is_some_and(|doing| doing.contains("offload"))
    };
    run.report.gpus.is_empty() && !run.report.recordings.is_empty() && !held.any(moves)
}

/// Joins all of them into one remedy, values first, because each gives back only a part.
fn together(mut all: Vec<String>) -> Option<String> {
    all.sort_by_key(|text| text.contains(": "));
    all.dedup();
    let values: Vec<String> = all.extract_if(.., |text| !text.contains(": ")).collect();
    let mut parts = all;
    if !values.is_empty() {
        let set = match values.len() {
            1 => "",
            2 => ": set both",
            _ => ": set all",
        };
        parts.insert(0, format!("{}{set}", values.join(" ")));
    }
    (!parts.is_empty()).then(|| parts.join("; and "))
}

/// Returns what to type instead: a value, or in words what to do with the key.
fn remedy(one: &SettingEffect) -> Option<String> {
    let instead = one.instead?;
    let is_value = !instead.contains(' ');
    Some(if is_value {
        format!("{}={instead}", one.key)
    } else {
        format!("{}: {instead}", one.key)
    })
}

/// The kills that a setting may have contributed to, with the processes that it acts on.
#[derive(Default)]
struct AffectedKills {
    deaths: Vec<EventId>,
    /// Empty if it is not known what the setting acts on, or if no such process was seen.
    pids: Vec<Pid>,
}

impl AffectedKills {
    /// Returns the kills at which the processes that the setting acts on held a good part of the
    /// limit. If no such process was seen at any kill, returns all kills, since they may have.
    fn of(run: Run<'_>, one: &SettingEffect) -> Option<Self> {
        let acts_on = |class: &str| one.acts_on.iter().any(|part| class.contains(part.as_str()));
        let mut on = Self::default();
        let mut seen = false;
        for death in run.memory_kills() {
            let inside = run.inside(death).iter();
            let named = inside.filter(|held| held.class.as_deref().is_some_and(acts_on));
            let held: Vec<(Pid, u64)> = named.map(|held| (held.pid, held.private.0)).collect();
            let Some(limit) = run.limit(death).filter(|_| !held.is_empty()) else {
                continue;
            };
            seen = true;
            let sum = Bytes(held.iter().map(|(_, private)| private).sum());
            if sum.gib() >= BEARS * limit.gib() {
                on.deaths.push(death.id);
                on.pids.extend(held.into_iter().map(|(pid, _)| pid));
            }
        }
        if !seen {
            on.deaths = run.memory_kills().map(|death| death.id).collect();
        }
        (!on.deaths.is_empty()).then_some(on)
    }
}

/// Says which versions read a setting, with a note about the framework.
fn only(run: Run<'_>, one: &SettingEffect) -> String {
    let note = one.note(run.framework).map(str::to_owned);
    let places = one.versions().map(versions).into_iter().chain(note);
    let places: Vec<String> = places.map(|place| format!("; {place}")).collect();
    places.concat()
}

/// Formats a range of versions: `vLLM 0.17 and earlier`.
fn versions(versions: Versions) -> String {
    let Versions { of, since, until } = versions;
    match (since, until) {
        (Some(since), Some(until)) => format!("{of} {since} to {until}"),
        (Some(since), None) => format!("{of} {since} and later"),
        (None, Some(until)) => format!("{of} {until} and earlier"),
        (None, None) => of.to_owned(),
    }
}

/// What is pinned for all GPUs, by the ranks that ran at a kill.
struct PinnedProduct {
    /// `40 GiB × 8 WorkerDict`.
    text: String,
    gib: f64,
    /// What these ranks held at the kill.
    held: Bytes,
    limit: Option<Bytes>,
}

impl PinnedProduct {
    fn of(run: Run<'_>, one: &SettingEffect) -> Option<Self> {
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
            let ranks = || {
                let classes = inside
                    .iter()
                    .filter_map(|held| Some((held.class.as_deref()?, held)));
                classes.filter(|(class, _)| rank(class))
            };
            let held = ranks().map(|(_, held)| held.private.0 + held.shared.0);
            let (class, _) = ranks().next()?;
            Some((ranks().count(), class, Bytes(held.sum()), run.limit(death)))
        });
        let (count, class, held, limit) = counts.max_by_key(|(count, ..)| *count)?;
        Some(Self {
            text: format!("{each:.0} GiB × {count} {class}"),
            gib: each * count as f64,
            held,
            limit,
        })
    }

    /// Whether it is more than the limit that was hit. Then it was not pinned at the kill.
    fn exceeds_limit(&self) -> bool {
        self.limit.is_some_and(|limit| self.gib > limit.gib())
    }

    /// Returns `40 GiB × 8 WorkerDict = 320 GiB`. If they held less, it says so: the setting did
    /// not take all of that.
    fn words(&self) -> String {
        let (text, gib) = (&self.text, self.gib);
        if self.exceeds_limit() {
            format!(
                "{text} = {gib:.0} GiB, more than the limit that was hit: it was not taken at the kill, so it is not the cause of this one"
            )
        } else if self.held.gib() < gib {
            format!(
                "{text} would be {gib:.0} GiB, but only {} was held at the kill",
                size(self.held)
            )
        } else {
            format!("{text} = {gib:.0} GiB")
        }
    }
}

/// Finds settings that cannot help against a lack of RAM.
pub(super) fn no_help(run: Run<'_>) -> Vec<Finding> {
    let given = of_framework(run.facts);
    let name = run.framework.name();
    let mut idle = with(&given, &[Effect::GpuOnly, Effect::Nothing]);
    // A default that nobody typed is not a mistake.
    idle.retain(|(given, one)| given.typed && one.holds_in(run.framework));
    let list: Vec<String> = idle
        .iter()
        .map(|(_, one)| format!("{} ({})", shown(one), one.why))
        .collect();
    let found = (!idle.is_empty()).then(|| Finding {
        evidence: sources(idle.iter().map(|(given, _)| *given)),
        ..Finding::new(
            "setting-does-not-help",
            Certainty::Proven,
            format!(
                "These settings do not reduce host memory in {name}: {}",
                list.join("; ")
            ),
        )
    });
    found.into_iter().collect()
}

/// Returns where the settings were found, each place once.
fn sources<'a>(of: impl Iterator<Item = &'a FrameworkSetting>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    of.map(|given| given.source.clone())
        .filter(|source| seen.insert(source.clone()))
        .collect()
}

fn shown(one: &SettingEffect) -> String {
    if one.value.is_empty() {
        format!("--{}", one.key)
    } else {
        format!("{}={}", one.key, one.value)
    }
}
