//! Whether what findings expected to save was saved, where the second run has their remedy: by the peaks of the class that they named.
//!
//! Peaks are compared only where the second run did the work of the first: in the same framework at least as many calls of that class,
//! which a run that was killed never does against one that goes on. Of several nodes a finding does not say which its figures are of, so
//! nothing is told of these.

use super::{SavingSeen, SettingChange, Value, settings};
use crate::{
    judge::report::{Finding, GrowthLine, Owner, Report},
    path,
    ray::framework::Framework,
};

/// One for each finding of the first report that expected something of a class, where the second has its remedy.
pub(super) fn seen(changes: &[SettingChange], a: &Report, b: &Report) -> Vec<SavingSeen> {
    let several = |report: &Report| report.recordings.len() > 1;
    if several(a) || several(b) || framework(a) != framework(b) {
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

/// Whether a setting of its remedies changed as these say.
fn is_applied(finding: &Finding, changes: &[SettingChange]) -> bool {
    let remedies = finding.remedy.iter();
    let mut pairs = remedies.flat_map(|remedy| changes.iter().map(move |change| (remedy, change)));
    pairs.any(|(remedy, change)| is_advised(remedy, change))
}

/// `KEY=8` and a change to 8 or towards it; `a lower KEY` and a lower value.
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

/// A line that its remedy names keeps less than this part of what it kept.
const MENDED: u64 = 2;

/// Whether the line of code that its remedies name keeps much less in the second run, or did not run there.
fn is_mended(finding: &Finding, class: &str, a: &Report, b: &Report) -> bool {
    let lines = |report: &'_ Report| -> Vec<GrowthLine> {
        let growth = report.growth.iter().filter(|growth| growth.class == class);
        growth.flat_map(|growth| growth.lines.clone()).collect()
    };
    let place = |line: &GrowthLine| {
        let number = line.line?;
        Some(format!(
            "{}:{number} {}",
            path::base(&line.file),
            line.function
        ))
    };
    let kept = |line: &GrowthLine| line.held_bytes.unwrap_or(line.grown_bytes).0;
    let function = |line: &GrowthLine| (path::base(&line.file).to_owned(), line.function.clone());
    let is_named = |line: &&GrowthLine| {
        place(line).is_some_and(|place| finding.remedy.iter().any(|text| text.contains(&place)))
    };
    let now = lines(b);
    lines(a).iter().filter(is_named).any(|line| {
        let same = now.iter().filter(|other| function(other) == function(line));
        same.map(kept).sum::<u64>() < kept(line) / MENDED
    })
}

/// Whether the second made as many calls as the first: all together, or each of its processes where fewer do the work.
fn got_as_far(first: &Owner, second: &Owner) -> bool {
    let each = |owner: &Owner| owner.calls / u64::from(owner.processes.max(1));
    second.calls >= first.calls || (second.calls > 0 && each(second) >= each(first))
}

/// Those of a class, the one that held most first.
fn owners<'a>(report: &'a Report, class: &str) -> impl Iterator<Item = &'a Owner> {
    let class = class.to_owned();
    report
        .owners
        .iter()
        .filter(move |owner| owner.class == class)
}

/// By the command lines of its jobs, else by its classes; `None` for Ray alone.
fn framework(report: &Report) -> Option<Framework> {
    let mut commands = settings::command_lines(report);
    let classes = report.owners.iter().map(|owner| owner.class.as_str());
    let by_command = commands.find_map(|argv| Framework::of_command_line(&argv));
    by_command.or_else(|| Framework::of_classes(&classes))
}
