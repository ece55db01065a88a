//! Whether what findings expected to save was saved: by the peaks of the class that they named.
//!
//! Peaks are compared only where both runs did the same work: the same framework, and as many calls of that class. Of several nodes
//! a finding does not say which its figures are of, so nothing is told of these.

use super::{SavingSeen, settings};
use crate::{
    judge::report::{Owner, Report},
    ray::framework::Framework,
};

/// One for each finding of the first report that expected something of a class that did the same work in both.
pub(super) fn seen(a: &Report, b: &Report) -> Vec<SavingSeen> {
    let several = |report: &Report| report.recordings.len() > 1;
    if several(a) || several(b) || framework(a) != framework(b) {
        return Vec::new();
    }
    let found = a.findings.iter().filter_map(|finding| {
        let saving = finding.saving.as_ref()?;
        let class = saving.class.clone()?;
        let (first, second) = (owner(a, &class)?, owner(b, &class)?);
        if first.calls != second.calls {
            return None;
        }
        let (before, after) = (first.private_peak_bytes?, second.private_peak_bytes?);
        Some(SavingSeen {
            rule: finding.rule.clone(),
            class,
            expected_bytes: saving.bytes,
            seen_bytes: before.0.cast_signed() - after.0.cast_signed(),
        })
    });
    found.collect()
}

fn owner<'a>(report: &'a Report, class: &str) -> Option<&'a Owner> {
    report.owners.iter().find(|owner| owner.class == class)
}

/// By the command lines of its jobs, else by its classes; `None` for Ray alone.
fn framework(report: &Report) -> Option<Framework> {
    let mut commands = settings::command_lines(report);
    let classes = report.owners.iter().map(|owner| owner.class.as_str());
    let by_command = commands.find_map(|argv| Framework::of_command_line(&argv));
    by_command.or_else(|| Framework::of_classes(&classes))
}
