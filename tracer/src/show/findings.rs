//! What to change, and the next commands to type.

use crate::{
    judge::report::{Certainty, Finding},
    show::{causes::Cause, sanitize, size::size, summary, view::View, words},
};

/// The rule whose findings differ by their cgroup alone.
const HIDDEN_LIMIT: &str = "limit-unseen";

/// What a finding says, in parts that stand in the same order in each.
#[derive(Debug)]
pub struct FindingText<'a> {
    /// The finding.
    pub finding: &'a Finding,
    /// What was found.
    pub summary: String,
    /// What to do, what that saves and costs, and how to see that it is wrong: a label and a text.
    pub parts: Vec<(&'static str, String)>,
}

/// Each finding. A limit that Ray cannot see is shown once, however many cgroups have such a limit, unless all is asked for.
#[must_use]
pub fn texts<'a>(view: &View<'a>) -> Vec<FindingText<'a>> {
    let findings: &'a [Finding] = &view.shown.report.findings;
    let hidden = |finding: &&Finding| finding.rule == HIDDEN_LIMIT;
    let folds = !view.shown.all && !view.shown.detail;
    let first = findings.iter().position(|finding| hidden(&finding));
    let kept = findings.iter().enumerate();
    let kept = kept.filter(|(at, finding)| !folds || !hidden(finding) || Some(*at) == first);
    let more = findings.iter().filter(hidden).count().saturating_sub(1);
    kept.map(|(at, finding)| FindingText {
        finding,
        summary: summary(finding, if folds && Some(at) == first { more } else { 0 }),
        parts: parts(finding),
    })
    .collect()
}

/// One sentence or a few for each finding.
#[must_use]
pub fn lines(view: &View<'_>) -> Vec<String> {
    let line = |told: FindingText<'_>| {
        let parts = told.parts.iter();
        let parts = parts.map(|(label, text)| format!(" {label}: {}", sentence(text)));
        told.summary + &parts.collect::<String>()
    };
    texts(view).into_iter().map(line).collect()
}

fn summary(finding: &Finding, more: usize) -> String {
    let mut text = sentence(&finding.summary);
    if more > 0 {
        let cgroups = words::count(more, "more cgroup", "more cgroups");
        text.push_str(&format!(" Nor can it see those of {cgroups} (--all)."));
    }
    if finding.certainty != Certainty::Proven {
        text.push_str(" (inferred)");
    }
    text
}

fn parts(finding: &Finding) -> Vec<(&'static str, String)> {
    let mut parts = Vec::new();
    if !finding.remedy.is_empty() {
        let remedies = finding.remedy.iter();
        let remedies = remedies.map(|remedy| sanitize::line(remedy, sanitize::EVIDENCE));
        parts.push(("Fix", remedies.collect::<Vec<String>>().join("; ")));
    }
    if let Some(saving) = &finding.saving {
        let whose = saving.class.as_deref().map(sanitize::name);
        let whose = whose.map_or_else(String::new, |class| format!(" of {class}"));
        let bytes = size(saving.bytes);
        parts.push(("Expected", format!("−{bytes} at the peak{whose}")));
    }
    parts.extend(finding.cost.clone().map(|cost| ("Cost", cost)));
    let wrong_if = finding.wrong_if.as_deref();
    parts.extend(wrong_if.map(|text| ("Check", format!("wrong if {text}"))));
    let others = finding.contradicts.iter();
    parts.extend(others.map(|other| ("Contradicts", other.clone())));
    let harmless = |text: String| sanitize::line(&text, 2 * sanitize::EVIDENCE);
    let parts = parts.into_iter();
    parts.map(|(label, text)| (label, harmless(text))).collect()
}

fn sentence(text: &str) -> String {
    let text = sanitize::line(text, 2 * sanitize::EVIDENCE);
    format!("{}.", text.trim_end_matches('.'))
}

/// The commands to type next; none where the report is not of a file.
#[must_use]
pub fn next(view: &View<'_>, causes: &[Cause<'_>]) -> Option<String> {
    let Some(file) = view.style.file.as_deref().map(quoted) else {
        let next = "before the next run: sudo raytrace record (sees who kills; without privilege: exit codes and Ray's reasons)";
        return (!view.shown.report.texts.is_empty()).then(|| view.command(next));
    };
    let leading = summary::leading(&view.shown.report).filter(|_| !view.shown.detail);
    let leads = |cause: &&Cause<'_>| {
        leading
            .as_ref()
            .is_some_and(|one| one.death.id == cause.death.id)
    };
    let mut commands: Vec<String> = Vec::new();
    commands.extend(
        causes
            .iter()
            .find(leads)
            .map(|cause| format!("--kill\u{a0}{}", cause.number)),
    );
    commands.push("--format\u{a0}json".to_owned());
    commands.push("--format\u{a0}markdown\u{a0}--redact".to_owned());
    Some(format!("raytrace report {file} {}", commands.join(" · ")))
}

/// A path as a shell takes it.
pub(super) fn quoted(path: &str) -> String {
    let path = sanitize::line(path, sanitize::EVIDENCE);
    let plain =
        |character: char| character.is_ascii_alphanumeric() || "/._-+:@".contains(character);
    if path.chars().all(plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}
