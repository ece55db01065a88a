//! Many workers of one class, all of one size, that together fill the limit: parallelism times size.

use std::collections::BTreeMap;

use super::{
    Run, about,
    facts::Held,
    merged, ranks, remedy, resources,
    rules::{Needs, Rule},
};
use crate::{
    event::Role,
    ids::{Bytes, size},
    judge::report::{Certainty, Death, Finding, Saving},
    ray::framework::Aim,
};

/// Fewer are no crowd.
const CROWD: u32 = 3;
/// Together at least this share of the limit.
const SHARE: f64 = 0.5;
/// From the smallest to the largest at most this share of the largest: others of the class have just begun, or do something else.
const SPREAD: f64 = 0.2;

/// The rule.
pub(super) const RULE: Rule = Rule {
    ids: &["many-workers"],
    is_cause: true,
    needs: Needs::MemoryKill,
    contradicts: &[],
    find,
};

fn find(run: Run<'_>) -> Vec<Finding> {
    let mut fits: BTreeMap<&str, Option<f64>> = BTreeMap::new();
    let found = run.memory_kills().filter_map(|death| {
        let limit = run.limit(death)?;
        let inside = run.inside(death);
        let class = biggest(inside)?;
        if class.processes < CROWD || class.sum.gib() <= SHARE * limit.gib() {
            return None;
        }
        let each = class.sum.gib() / f64::from(class.processes);
        let share = 100.0 * class.sum.gib() / limit.gib();
        let others = others(death, inside, class.sum);
        let fit = fits.entry(class.name);
        let fit = (*fit.or_insert_with(|| fitting(run, class.name)))?;
        let summary = format!(
            "{} {} of {} each held {} together, {share:.0} % of the limit of {}",
            class.processes,
            class.name,
            if each < 1.0 {
                Bytes(class.sum.0 / u64::from(class.processes)).fine()
            } else {
                format!("{each:.1} GiB")
            },
            size(class.sum),
            size(limit)
        );
        let mut finding = about("many-workers", Certainty::Inferred, death, summary);
        finding.evidence = vec![format!(
            "{}: {} processes, the smallest {}, the largest {}; {} of another size",
            class.name,
            class.processes,
            class.smallest.fine(),
            class.largest.fine(),
            class.others
        )];
        finding
            .evidence
            .push(format!("all else that counts: {}", size(others)));
        let same = |held: &&Held| held.class.as_deref() == Some(class.name);
        finding.about.pids = run
            .inside(death)
            .iter()
            .filter(same)
            .map(|held| held.pid)
            .collect();
        let cpus = cpus_for_each(run, death, fit);
        let left = cpus.map_or(fit, |(_, at_once)| at_once);
        let rest = f64::from(class.processes) - left;
        finding.saving = Some(Saving {
            class: Some(class.name.to_owned()),
            bytes: Bytes(class.sum.0 / u64::from(class.processes)).times(rest),
        });
        finding.remedy = remedy(run, &class, fit, each, cpus);
        finding.cost = Some("less parallelism".into());
        finding.wrong_if =
            Some("a single one would reach the limit; then look at its growth".into());
        Some((class.name.to_owned(), finding))
    });
    merged(found)
}

/// How many of a class fit: the least that any memory kill allows at which several of them filled the limit.
fn fitting(run: Run<'_>, class: &str) -> Option<f64> {
    let bounds = run.memory_kills().filter_map(|death| {
        let limit = run.limit(death)?;
        let inside = run.inside(death);
        let class = classes(inside).into_iter().find(|one| one.name == class)?;
        let fills = class.processes > 1 && class.sum.gib() > SHARE * limit.gib();
        let room = 0.8 * limit.gib() - others(death, inside, class.sum).gib();
        let each = class.sum.gib() / f64::from(class.processes);
        let most = f64::from(class.processes) - 1.0;
        fills.then(|| (room / each).floor().clamp(1.0, most))
    });
    bounds.reduce(f64::min)
}

/// What else fills the limit, by what was counted at the kill; else by what is listed.
fn others(death: &Death, inside: &[Held], class: Bytes) -> Bytes {
    let usage = death.memory.oom.as_ref().and_then(|oom| oom.usage_bytes);
    let counted = || death.memory.at_death.as_ref()?.ray_used_bytes;
    let listed = || inside.iter().map(|held| held.private.0).sum();
    let used = usage.or_else(counted).map_or_else(listed, |used| used.0);
    Bytes(used.saturating_sub(class.0))
}

/// In the keys of the framework where that starts the workers, else in Ray's.
fn remedy(
    run: Run<'_>,
    class: &Class<'_>,
    fit: f64,
    each: f64,
    cpus: Option<(f64, f64)>,
) -> Vec<String> {
    let mut remedy = remedy::keys_for(run, Aim::Fewer, Some(class.name));
    if run.framework.starts_workers() {
        let halved = ranks::halved(run).filter(|fewer| fewer.value as f64 <= fit);
        if let Some(fewer) = halved
            && let Some(one) = remedy.iter_mut().find(|one| one.contains(fewer.key))
        {
            *one = fewer.text();
        }
        remedy.insert(0, format!("at most {fit:.0} {} on this node", class.name));
        return remedy;
    }
    let first = match cpus {
        Some((cpus, at_once)) => format!(
            "num_cpus={cpus} in the @ray.remote of {}: {at_once:.0} at once",
            class.name
        ),
        None => format!(
            "at most {fit:.0} at once: a higher num_cpus for {}",
            class.name
        ),
    };
    remedy.insert(0, first);
    remedy.push(format!(
        "or memory={} in its @ray.remote, so that Ray counts it",
        in_python(each)
    ));
    remedy
}

/// With how many CPUs for each no more of them run at once on the victim's node than `fit`, and how many do then; Ray takes whole CPUs
/// above one.
fn cpus_for_each(run: Run<'_>, death: &Death, fit: f64) -> Option<(f64, f64)> {
    if run.framework.starts_workers() {
        return None;
    }
    let node = run.facts.nodes.get(usize::try_from(death.cluster?).ok()?)?;
    let all = resources::of_raylet(&node.argv, "CPU")?;
    let each = (all / fit).ceil();
    (each > 1.0 && each <= all).then(|| (each, (all / each).floor()))
}

/// A size in GiB, rounded up, as somebody writes it in Python.
fn in_python(gib: f64) -> String {
    const STEP: f64 = 64.0;
    if gib >= 4.0 {
        return format!("{:.0}*1024**3", gib.ceil());
    }
    format!("{:.0}*1024**2", (gib * 1024.0 / STEP).ceil() * STEP)
}

/// Workers of one class and size.
struct Class<'a> {
    name: &'a str,
    processes: u32,
    sum: Bytes,
    smallest: Bytes,
    largest: Bytes,
    /// Of the class, but smaller or larger.
    others: u32,
}

/// Those that held most.
fn biggest(inside: &[Held]) -> Option<Class<'_>> {
    classes(inside).into_iter().max_by_key(|class| class.sum)
}

/// The workers of each class that are of about one size.
fn classes(inside: &[Held]) -> Vec<Class<'_>> {
    let mut classes: BTreeMap<&str, Vec<Bytes>> = BTreeMap::new();
    for member in inside.iter().filter(|member| member.role == Role::Worker) {
        if let Some(name) = member.class.as_deref() {
            classes.entry(name).or_default().push(member.private);
        }
    }
    let even = classes
        .into_iter()
        .filter_map(|(name, sizes)| even(name, sizes));
    even.collect()
}

/// Of all of one class those of about one size, that hold most together.
fn even(name: &str, mut sizes: Vec<Bytes>) -> Option<Class<'_>> {
    sizes.sort_unstable();
    let alike = |from: usize| {
        let largest = (1.0 - SPREAD) * sizes[from].gib();
        let until = sizes[..=from].partition_point(|size| size.gib() <= largest);
        &sizes[until..=from]
    };
    let sum = |of: &[Bytes]| of.iter().map(|size| size.0).sum::<u64>();
    let most = (0..sizes.len()).map(alike).max_by_key(|of| sum(of))?;
    let count = |of: &[Bytes]| u32::try_from(of.len()).unwrap_or(u32::MAX);
    Some(Class {
        name,
        processes: count(most),
        sum: Bytes(sum(most)),
        smallest: *most.first()?,
        largest: *most.last()?,
        others: count(&sizes) - count(most),
    })
}
