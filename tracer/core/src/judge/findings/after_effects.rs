//! Recognizes lost connections and silent peers as effects of a death, not as causes.
//!
//! Texts have no common clock; for them, `explain` says so in a note.

use std::collections::BTreeMap;

use super::{Run, about, facts::Effect};
use crate::{
    ids::{BootTime, EventId, SECOND_NS},
    judge::report::{Certainty, Death, Finding, Killer},
    ray::log::after_effects,
};

/// A process that logs such a line and ends within this time ended because of it.
const ENDS_NS: i64 = 30 * SECOND_NS;
const MAX_LINES: usize = 3;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let mut by_death: BTreeMap<(BootTime, EventId), (&Death, Vec<&Effect>)> = BTreeMap::new();
    for effect in &run.facts.effects {
        let firsts = run
            .report
            .deaths
            .iter()
            .filter(|death| causes(death, effect));
        if let Some(first) = firsts.min_by_key(|death| (death.when.act_time, death.id)) {
            let key = (first.when.act_time, first.id);
            by_death
                .entry(key)
                .or_insert((first, Vec::new()))
                .1
                .push(effect);
        }
    }
    by_death
        .into_values()
        .map(|(first, effects)| finding(run, first, &effects))
        .collect()
}

/// Returns whether a death may be what a line is about: a sudden death of another process, not long
/// before.
fn causes(death: &Death, effect: &Effect) -> bool {
    let sudden = death.listed
        && death.verdict.cause_death_id.is_none()
        && !matches!(
            death.verdict.killer,
            Killer::RayIntended | Killer::RayCollapse | Killer::Unknown
        );
    let own = effect.worker.is_some() && effect.worker == death.work.worker_id;
    let longest = after_effects::lasts_ns(after_effects::timeout_ms(&effect.line));
    let near = (0..=longest).contains(&effect.time.since(death.when.act_time));
    sudden && !own && near && effect.cluster == death.cluster
}

fn finding(run: Run<'_>, first: &Death, effects: &[&Effect]) -> Finding {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for effect in effects {
        *kinds.entry(effect.kind).or_default() += 1;
    }
    let kinds: Vec<String> = kinds
        .into_iter()
        .map(|(kind, count)| format!("{count} × {kind}"))
        .collect();
    let earliest = effects.iter().map(|effect| effect.time).min();
    let after = earliest.map_or(0.0, |time| time.since(first.when.act_time) as f64 / 1e9);
    let followers = followers(run, first, effects);
    let ended = match followers.len() {
        0 => String::new(),
        1 => "; the process that logged it exited because of it".to_owned(),
        many => format!("; {many} processes that logged it exited because of it"),
    };
    let summary = format!(
        "{} came {after:.1} s or more after pid {} had died{ended}: after-effects, not causes",
        kinds.join(", "),
        first.process.pid
    );
    let mut finding = about("after-effect", Certainty::Inferred, first, summary);
    finding.deaths.extend(followers);
    finding.evidence = vec![super::victim(first)];
    let lines = effects.iter().take(MAX_LINES);
    finding
        .evidence
        .extend(lines.map(|effect| effect.line.clone()));
    finding.remedy = vec![format!(
        "look at the death of pid {} first",
        first.process.pid
    )];
    finding.not_if = Some("the same lines appear in a run in which no process dies".into());
    finding
}

/// Returns the deaths of the processes that logged the effects.
fn followers(run: Run<'_>, first: &Death, effects: &[&Effect]) -> Vec<EventId> {
    let follows = |death: &&Death| {
        death.listed
            && death.id != first.id
            && effects.iter().any(|effect| {
                let near = death.when.act_time.since(effect.time).abs() <= ENDS_NS;
                near && effect.worker.is_some() && effect.worker == death.work.worker_id
            })
            && matches!(death.verdict.killer, Killer::Crash | Killer::Exit)
    };
    let deaths = run.report.deaths.iter();
    deaths.filter(follows).map(|death| death.id).collect()
}
