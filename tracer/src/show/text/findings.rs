//! The end of the report: what to change, what else a text said, and the next commands to type.

use owo_colors::Style as Colour;

use super::View;
use crate::{
    judge::report::{Certainty, Finding},
    show::{layout::Page, sanitize},
};

/// Findings, notes, next commands.
pub(super) fn write(view: &View<'_>, page: &mut Page) {
    let report = &view.shown.report;
    if !report.findings.is_empty() {
        heading(page, "WHAT TO CHANGE");
    }
    for (number, finding) in report.findings.iter().enumerate() {
        let lead = format!("  {} ", number + 1);
        page.paragraph(&lead, Colour::new().bold(), &line(finding), 4);
        if view.shown.detail || view.shown.all {
            for figure in &finding.evidence {
                page.paragraph(
                    "    ",
                    Colour::new(),
                    &sanitize::line(figure, sanitize::EVIDENCE),
                    6,
                );
            }
        }
    }
    if !report.notes.is_empty() {
        heading(page, "ALSO");
    }
    for note in &report.notes {
        let text = sanitize::line(note, sanitize::EVIDENCE);
        page.paragraph("  ", Colour::new(), &text, 4);
    }
    next(view, page);
}

fn heading(page: &mut Page, text: &str) {
    page.blank();
    page.paragraph(text, Colour::new().bold(), "", 0);
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
    if let Some(cost) = &finding.cost {
        text.push_str(&format!(" Cost: {}", sentence(cost)));
    }
    text
}

fn sentence(text: &str) -> String {
    let text = sanitize::line(text, 2 * sanitize::EVIDENCE);
    format!("{}.", text.trim_end_matches('.'))
}

fn next(view: &View<'_>, page: &mut Page) {
    let Some(file) = &view.style.file else {
        return;
    };
    let file = quoted(file);
    let first = view.shown.causes().first().map(|cause| cause.number);
    let mut commands = Vec::new();
    if let Some(number) = first.filter(|_| !view.shown.detail) {
        commands.push(format!("--kill {number}"));
    }
    commands.push("--format json".to_owned());
    commands.push("--format markdown --redact".to_owned());
    let commands = commands.join(" · ").replace(" -", "\u{a0}-");
    let commands = commands.replace("t ", "t\u{a0}");
    let text = format!("raytrace report {file} {commands}");
    page.blank();
    page.paragraph("Next: ", Colour::new().dimmed(), &text, 6);
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let path = sanitize::line(path, sanitize::EVIDENCE);
    let plain =
        |character: char| character.is_ascii_alphanumeric() || "/._-+:@".contains(character);
    if path.chars().all(plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}
