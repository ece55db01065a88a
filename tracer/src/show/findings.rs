//! What to change, and the next commands to type.

use crate::{
    judge::report::{Certainty, Finding},
    show::{causes::Cause, sanitize, size::size, summary, view::View},
};

/// One numbered sentence or two for each finding.
#[must_use]
pub fn lines(view: &View<'_>) -> Vec<String> {
    view.shown.report.findings.iter().map(line).collect()
}

fn line(finding: &Finding) -> String {
    let mut text = sentence(&finding.summary);
    if finding.certainty != Certainty::Proven {
        text.push_str(" (Not proven.)");
    }
    if !finding.remedy.is_empty() {
        let remedies: Vec<String> = finding
            .remedy
            .iter()
            .map(|remedy| sanitize::line(remedy, sanitize::EVIDENCE))
            .collect();
        text.push_str(&format!(" {}", sentence(&remedies.join("; "))));
    }
    if let Some(saving) = &finding.saving {
        let whose = saving.class.as_deref().map(sanitize::name);
        let whose = whose.map_or_else(String::new, |class| format!(" of {class}"));
        let bytes = size(saving.bytes);
        text.push_str(&format!(" Expected: −{bytes} at the peak{whose}."));
    }
    if let Some(cost) = &finding.cost {
        text.push_str(&format!(" Cost: {}", sentence(cost)));
    }
    if let Some(wrong_if) = &finding.wrong_if {
        text.push_str(&format!(" Wrong if {}", sentence(wrong_if)));
    }
    for other in &finding.contradicts {
        text.push_str(&format!(" Contradicts {}", sentence(other)));
    }
    text
}

fn sentence(text: &str) -> String {
    let text = sanitize::line(text, 2 * sanitize::EVIDENCE);
    format!("{}.", text.trim_end_matches('.'))
}

/// The commands to type next; none where the report is not of a file.
#[must_use]
pub fn next(view: &View<'_>, causes: &[Cause<'_>]) -> Option<String> {
    let Some(file) = view.style.file.as_deref().map(quoted) else {
        let next = "sudo raytrace record, before the next run: it sees who kills (without privilege: exit codes and Ray's reasons)";
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
