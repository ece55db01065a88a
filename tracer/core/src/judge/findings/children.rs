//! Finds subprocesses of a worker that hold much memory of their own.
//!
//! An example is the subprocesses of a `DataLoader` with a data set that keeps what it reads.

use std::collections::BTreeMap;

use super::{Run, about, code, facts::Member, part_of::part_of, remedy};
use crate::{
    event::Role,
    ids::{Bytes, size},
    judge::report::{Certainty, Death, Finding, Saving},
    phrase,
    ray::framework::RemedyGoal,
};

/// The subprocesses together hold at least this share of the limit.
const SHARE: f64 = 0.2;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    run.at_limits(|death, limit| {
        let (class, children) = biggest(run.inside(death))?;
        let sum = sum(&children);
        let enough = sum.gib() >= SHARE * limit.gib();
        enough.then(|| {
            let finding = finding(run, death, class, &children, limit);
            ((class.to_owned(), death.cluster), finding)
        })
    })
}

/// Returns the class whose subprocesses hold the most, if that is more than any other process
/// holds.
fn biggest(inside: &[Member]) -> Option<(&str, Vec<&Member>)> {
    let mut classes: BTreeMap<&str, Vec<&Member>> = BTreeMap::new();
    for held in inside.iter().filter(|held| held.role == Role::Descendant) {
        let Some(class) = held.class.as_deref().filter(|class| !class.is_empty()) else {
            continue;
        };
        // Memory that it inherited from its parent by a fork is the parent's.
        let parents = inside.iter().filter(|one| one.role == Role::Worker);
        let mut parents = parents.filter(|one| one.class.as_deref() == Some(class));
        if parents.all(|parent| parent.private < held.private) {
            classes.entry(class).or_default().push(held);
        }
    }
    let found = classes.into_iter().max_by_key(|(_, of)| sum(of))?;
    let others = inside.iter().filter(|held| held.role != Role::Descendant);
    let largest = others.map(|held| held.private).max().unwrap_or_default();
    (sum(&found.1) > largest).then_some(found)
}

fn sum(of: &[&Member]) -> Bytes {
    Bytes(of.iter().map(|held| held.private.0).sum())
}

fn finding(
    run: Run<'_>,
    death: &Death,
    class: &str,
    children: &[&Member],
    limit: Bytes,
) -> Finding {
    let sum = sum(children);
    let [part, percent, whole] = part_of(sum, limit);
    let their = if children.len() == 1 { "its" } else { "their" };
    let summary = format!(
        "{} of {class} held {part} of {their} own, {percent} of the limit of {whole}",
        phrase::count(children.len(), "subprocess", "subprocesses")
    );
    let mut finding = about("children-grew", Certainty::Inferred, death, summary);
    finding.about.pids = children.iter().map(|held| held.pid).collect();
    finding.about.bytes = sum;
    let each = children
        .iter()
        .map(|held| format!("pid {}: {} held", held.pid, size(held.private)));
    finding.evidence = each.collect();
    if let Some(line) = code::line_of_calls(run, class) {
        finding.evidence.push(line.evidence());
        finding.saving = Some(Saving::of(Some(class), line.saves(sum)));
        let text = format!(
            "{} allocated {}: keep no more of it than the next batch needs",
            line.name(),
            line.part(sum)
        );
        finding.remedy = vec![text];
    } else {
        finding.remedy = remedy::keys(run, RemedyGoal::FewerLoaders, Some(class));
        finding
            .evidence
            .push("the line at which they grew was not recorded".into());
    }
    finding.not_if = Some("they held as much from the start".into());
    finding
}
