//! Checks whether remedies that the second run applied saved what was expected.
//!
//! The peaks of the class that a finding names are compared, but only if the second run did the
//! work of the first: the same framework and model, and at least as many calls of that class. A
//! second run that was killed does fewer calls than a first that went on. Runs with several nodes
//! are left out, because a finding does not say which node its figures are from.

use super::{SavingSeen, SettingChange, Value, settings};
use crate::{
    judge::report::{Finding, GrowthLine, Owner, Report},
    path,
    ray::framework::Framework,
};

/// Returns one entry for each finding of the first report that expected a saving for a class, if
/// the second run has its remedy.
pub(super) fn seen(changes: &[SettingChange], a: &Report, b: &Report) -> Vec<SavingSeen> {
    let several = |report: &Report| report.recordings.len() > 1;
    if several(a)
        || several(b)
        || framework(a) != framework(b)
        || changes.iter().any(settings::is_model)
    {
        return Vec::new();
    }
    let numbered = (1..).zip(&a.findings);
    let found = numbered.filter_map(|(number, finding)| {
        let saving = finding.saving.as_ref()?;
        let class = saving.class.clone()?;
        let first = owners(a, &class).next()?;
        let second = owners(b, &class).find(|owner| owner.kind == first.kind);
        let second = second.or_else(|| owners(b, &class).next())?;
        if !is_applied(finding, changes) && !is_mended(finding, &class, a, b) {
            return None;
        }
        let (before, after) = (first.private_peak_bytes?, second.private_peak_bytes?);
        Some(SavingSeen {
            finding: number,
            rule: finding.rule.clone(),
            class,
            expected_bytes: saving.bytes,
            seen_bytes: got_as_far(first, second)
                .then(|| before.0.cast_signed() - after.0.cast_signed()),
            a_calls: first.calls,
            b_calls: second.calls,
        })
    });
    found.collect()
}

/// Returns the finding of a report that advises a change.
pub(super) fn advising<'a>(report: &'a Report, change: &SettingChange) -> Option<&'a Finding> {
    let mut findings = report.findings.iter();
    findings.find(|finding| is_applied(finding, std::slice::from_ref(change)))
}

/// Returns whether a setting changed as one of the remedies says.
fn is_applied(finding: &Finding, changes: &[SettingChange]) -> bool {
    let remedies = finding.remedy.iter();
    let mut pairs = remedies.flat_map(|remedy| changes.iter().map(move |change| (remedy, change)));
    pairs.any(|(remedy, change)| is_advised(remedy, change))
}

/// Returns whether a change follows a remedy: `KEY=8` and a change to 8 or towards it, or
/// `a lower KEY` and a lower value.
fn is_advised(remedy: &str, change: &SettingChange) -> bool {
    let value = |value: &Option<Value>| {
        let value = value.as_ref().filter(|value| value.effective);
        value.map(|value| value.value.clone())
    };
    let (old, new) = (value(&change.a), value(&change.b));
    let number = |text: &Option<String>| text.as_deref()?.parse::<f64>().ok();
    let (from, to) = (number(&old), number(&new));
    let mut places = remedy.match_indices(change.key.as_str());
    places.any(|(at, key)| {
        let (before, after) = (&remedy[..at], &remedy[at + key.len()..]);
        if before.ends_with(|one: char| one.is_alphanumeric() || "._".contains(one)) {
            return false;
        }
        let Some(advised) = after.strip_prefix('=') else {
            let lower = before.ends_with("a lower ");
            return lower && from.zip(to).is_some_and(|(from, to)| to < from);
        };
        let advised = advised.split([' ', ',', ';', ')']).next();
        let advised = advised.unwrap_or_default().to_owned();
        if new.as_ref() == Some(&advised) {
            return old != new;
        }
        let wanted = number(&Some(advised));
        let moved = from.zip(to).zip(wanted);
        moved.is_some_and(|((from, to), wanted)| (to - from) * (wanted - from) > 0.0)
    })
}

/// A line counts as fixed if it keeps less than one part in this many of what it kept.
const MENDED: u64 = 2;

/// Returns whether the line of code that the remedies name keeps much less in the second run, or
/// did not run there.
fn is_mended(finding: &Finding, class: &str, a: &Report, b: &Report) -> bool {
    let lines = |report: &'_ Report| -> Vec<GrowthLine> {
        let growth = report.growth.iter().filter(|growth| growth.class == class);
        growth.flat_map(|growth| growth.lines.clone()).collect()
    };
    let kept = |line: &GrowthLine| line.held_bytes.unwrap_or(line.grown_bytes).0;
    let function = |line: &GrowthLine| (path::base(&line.file).to_owned(), line.function.clone());
    let is_named = |line: &&GrowthLine| {
        let place = line.place();
        line.line.is_some() && finding.remedy.iter().any(|text| text.contains(&place))
    };
    let now = lines(b);
    lines(a).iter().filter(is_named).any(|line| {
        let same = now.iter().filter(|other| function(other) == function(line));
        same.map(kept).sum::<u64>() < kept(line) / MENDED
    })
}

/// Returns whether the second run made as many calls as the first: in all, or in each process if
/// fewer processes do the work.
fn got_as_far(first: &Owner, second: &Owner) -> bool {
    let each = |owner: &Owner| owner.calls / u64::from(owner.processes.max(1));
    second.calls >= first.calls || (second.calls > 0 && each(second) >= each(first))
}

/// Returns the owners of a class, the one that held the most first.
fn owners<'a>(report: &'a Report, class: &str) -> impl Iterator<Item = &'a Owner> {
    let class = class.to_owned();
    report
        .owners
        .iter()
        .filter(move |owner| owner.class == class)
}

/// Returns the framework of a run, by the command lines of its jobs, else by its classes; `None`
/// for Ray alone.
fn framework(report: &Report) -> Option<Framework> {
    let mut commands = settings::command_lines(report);
    let classes = report.owners.iter().map(|owner| owner.class.as_str());
    let by_command = commands.find_map(|argv| Framework::of_command_line(&argv));
    by_command.or_else(|| Framework::of_classes(&classes))
}
