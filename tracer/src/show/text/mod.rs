//! The report as people read it: jobs first, then one block per first cause, then what to change.

mod block;
mod group;
#[cfg(test)]
mod tests;

use owo_colors::Style as Colour;

use crate::show::{
    Style,
    causes::{self, Cause, Entry},
    findings, header, jobs,
    layout::Page,
    sanitize,
    select::Shown,
    view::View,
    words,
};

/// More places than this are not shown unless asked for.
const MAX_ENTRIES: usize = 30;
/// More jobs than this are shown as a count.
const MAX_JOBS: usize = 8;

/// The whole report, coloured.
#[must_use]
pub fn render(shown: &Shown, style: &Style) -> String {
    let view = View::new(shown, style);
    let mut page = Page::new(style.width);
    let causes = shown.causes();
    top(&view, &mut page, &causes);
    let next = findings::next(&view, &causes);
    entries(&view, &mut page, causes);
    if shown.all {
        group::normal_exits(&view, &mut page);
    }
    bottom(&view, &mut page);
    if let Some(next) = next {
        page.blank();
        page.paragraph("Next: ", Colour::new().dimmed(), &next, 6);
    }
    page.finish()
}

/// Where and how it was recorded, how each job ended, how many deaths there are.
fn top(view: &View<'_>, page: &mut Page, causes: &[Cause<'_>]) {
    for line in header::recordings(view) {
        page.paragraph("", Colour::new(), &line, 2);
    }
    for line in header::gaps(view) {
        page.paragraph("! ", Colour::new().yellow().bold(), &line, 2);
    }
    for (label, line) in jobs::lines(view, causes, MAX_JOBS) {
        let lead = if label.is_empty() {
            label
        } else {
            format!("{label} ")
        };
        page.paragraph(&lead, Colour::new().bold(), &line, 2);
    }
    for line in header::counts(view, causes) {
        page.paragraph("", Colour::new(), &line, 2);
    }
}

/// What to change, and what else a text said.
fn bottom(view: &View<'_>, page: &mut Page) {
    let report = &view.shown.report;
    if !report.findings.is_empty() {
        heading(page, "WHAT TO CHANGE");
    }
    let lines = findings::lines(view);
    for (number, (finding, line)) in report.findings.iter().zip(lines).enumerate() {
        let lead = format!("  {} ", number + 1);
        page.paragraph(&lead, Colour::new().bold(), &line, 4);
        let figures = finding.evidence.iter();
        for figure in figures.filter(|_| view.shown.detail || view.shown.all) {
            let figure = sanitize::line(figure, sanitize::EVIDENCE);
            page.paragraph("    ", Colour::new(), &figure, 6);
        }
    }
    if !report.notes.is_empty() {
        heading(page, "ALSO");
    }
    for note in &report.notes {
        let note = sanitize::line(note, sanitize::EVIDENCE);
        page.paragraph("  ", Colour::new(), &note, 4);
    }
}

fn heading(page: &mut Page, text: &str) {
    page.blank();
    page.paragraph(text, Colour::new().bold(), "", 0);
}

fn entries(view: &View<'_>, page: &mut Page, causes: Vec<Cause<'_>>) {
    let entries = if view.shown.all || view.shown.detail {
        causes.into_iter().map(alone).collect()
    } else {
        causes::fold(causes)
    };
    let (kept, left_out) = most_important(view, entries);
    for entry in &kept {
        page.blank();
        match entry.causes.as_slice() {
            [cause] => block::write(view, page, cause),
            causes => group::write(view, page, causes),
        }
    }
    if left_out > 0 {
        page.blank();
        let what = words::count(left_out, "more first cause", "more first causes");
        let text = format!("… and {what}, none a memory kill that ended a job (--all lists them)");
        page.paragraph("", Colour::new(), &text, 2);
    }
}

fn alone(cause: Cause<'_>) -> Entry<'_> {
    Entry {
        causes: vec![cause],
    }
}

/// The places that fit, in their order, and how many first causes are left out: those that ended a job stay, then
/// memory kills, then the earliest.
fn most_important<'a>(view: &View<'_>, entries: Vec<Entry<'a>>) -> (Vec<Entry<'a>>, usize) {
    if view.shown.all || entries.len() <= MAX_ENTRIES {
        return (entries, 0);
    }
    let mut ranked = entries;
    ranked.sort_by_key(|entry| {
        let first = entry.first();
        let ended = entry
            .causes
            .iter()
            .any(|cause| jobs::ended_by(view, cause).is_some());
        let memory = words::is_memory_kill(first.death.verdict.killer);
        (!(ended && memory), !ended, !memory, first.number)
    });
    let left = ranked.split_off(MAX_ENTRIES);
    ranked.sort_by_key(|entry| entry.first().number);
    let left_out = left.iter().map(|entry| entry.causes.len()).sum();
    (ranked, left_out)
}
