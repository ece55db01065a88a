//! Findings whose remedies are opposite, or of which only one can be right: each is told of the other.

use super::{ALL, rules::Contradiction};
use crate::judge::report::Finding;

/// Marks both of each pair that may speak of one death.
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

/// Whether both can be about one death; a finding about none is about the run.
fn meet(one: &Finding, other: &Finding) -> bool {
    one.deaths.is_empty()
        || other.deaths.is_empty()
        || one.deaths.iter().any(|death| other.deaths.contains(death))
}
