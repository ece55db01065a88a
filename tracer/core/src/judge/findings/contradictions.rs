//! Marks findings with opposite remedies, or that cannot be right at the same time.

use super::{ALL, rules::Contradiction};
use crate::judge::report::Finding;

/// Adds to both findings of each such pair that they contradict each other, if both may concern one
/// death.
pub(super) fn mark(findings: &mut [Finding]) {
    let pairs = ALL.iter().flat_map(|rule| rule.contradicts);
    for Contradiction {
        rule: one,
        other,
        why,
    } in pairs
    {
        let of = |rule: &&str| {
            let numbered = findings.iter().enumerate();
            let found = numbered.filter(|(_, finding)| finding.rule == *rule);
            found.map(|(at, _)| at).collect::<Vec<usize>>()
        };
        let (ones, others) = (of(one), of(other));
        for (one, other) in ones
            .iter()
            .flat_map(|one| others.iter().map(move |other| (*one, *other)))
        {
            if meet(&findings[one], &findings[other]) {
                let said = |at: usize| format!("{}: {why}", findings[at].rule);
                let (of_one, of_other) = (said(one), said(other));
                findings[one].contradicts.push(of_other);
                findings[other].contradicts.push(of_one);
            }
        }
    }
}

/// Returns whether both can be about one death. A finding without deaths is about the run.
fn meet(one: &Finding, other: &Finding) -> bool {
    one.deaths.is_empty()
        || other.deaths.is_empty()
        || one.deaths.iter().any(|death| other.deaths.contains(death))
}
