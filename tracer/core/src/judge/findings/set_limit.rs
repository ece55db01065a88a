//! Says how the limit is changed of a program that ended a job, or that reports its OOM kill.
//!
//! Only texts name such programs. What the catalogue has no remedy for has no finding.

use std::collections::BTreeMap;

use super::Run;
use crate::judge::{
    cause::Cause,
    report::{Certainty, Death, Finding},
};

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let mut fixes: BTreeMap<&str, Vec<&Death>> = BTreeMap::new();
    for death in run.report.deaths.iter().filter(|death| death.listed) {
        if let Some((_, fix)) = fix(&death.verdict.cause) {
            fixes.entry(fix).or_default().push(death);
        }
    }
    let fixes = fixes.into_iter();
    fixes
        .filter_map(|(fix, deaths)| finding(fix, &deaths))
        .collect()
}

/// Returns what has a limit, and how that is changed.
fn fix(cause: &Cause) -> Option<(String, &str)> {
    match cause {
        Cause::MemoryDaemon { name, fix, .. } | Cause::SystemProgram { name, fix, .. } => Some((
            format!("{name} ended it by a rule that can be set"),
            fix.as_deref()?,
        )),
        // The machine may have been full as well.
        Cause::KernelOom(oom) => {
            let name = oom.reported_by.as_deref()?;
            let summary =
                format!("The full limit may be one that can be set for what {name} watches");
            Some((summary, oom.fix.as_deref()?))
        }
        _ => None,
    }
}

fn finding(remedy: &str, deaths: &[&Death]) -> Option<Finding> {
    let (summary, _) = fix(&deaths.first()?.verdict.cause)?;
    Some(Finding {
        remedy: vec![remedy.to_owned()],
        deaths: deaths.iter().map(|death| death.id).collect(),
        ..Finding::new("set-limit", Certainty::Inferred, summary)
    })
}
