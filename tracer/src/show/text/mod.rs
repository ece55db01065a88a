//! Renders the report as text: jobs first, then a block per first cause, then what to change.

mod block;
mod group;
mod screen;
#[cfg(test)]
mod tests;

use owo_colors::Style as Colour;

use crate::show::{
    Style, alike,
    causes::{Cause, Entry},
    findings, fleet, gpus, growth, header, held, in_use, jobs,
    layout::Page,
    owners, rank, sanitize,
    select::SelectedReport,
    shared_files, text_sources,
    view::View,
    words,
};

/// Maximum number of entries with a block of their own, unless all are asked for.
const MAX_BLOCKS: usize = 10;
/// Maximum number of entries that are listed.
const MAX_ENTRIES: usize = 30;
/// Maximum number of entries with a block in a report of several recordings. The first screen has a
/// line for each.
const MAX_FLEET_ENTRIES: usize = 5;
/// Maximum number of jobs that have a line. The others are counted.
const MAX_JOBS: usize = 8;

/// Renders the whole report, with colours.
#[must_use]
pub fn render(shown: &SelectedReport, style: &Style) -> String {
    let view = View::new(shown, style);
    let causes = shown.causes();
    let mut page = if fleet::is_fleet_report(&shown.report) {
        screen::page(&view, &causes)
    } else {
        let mut page = Page::new(style.width);
        top(&view, &mut page, &causes);
        page
    };
    let next = findings::next(&view, &causes);
    let entries = rank::entries(&view, causes);
    index(&view, &mut page, &entries);
    blocks(&view, &mut page, entries);
    if shown.lists_normal_exits {
        group::normal_exits(&view, &mut page);
    }
    bottom(&view, &mut page);
    for (number, command) in next.iter().enumerate() {
        if number == 0 {
            page.blank();
        }
        let lead = if number == 0 { "Next: " } else { "      " };
        page.command(lead, Colour::new().dimmed(), command);
    }
    page.finish()
}

/// Writes where and how it was recorded, how each job ended, how many deaths there are, and the
/// peaks of memory.
fn top(view: &View<'_>, page: &mut Page, causes: &[Cause<'_>]) {
    for line in header::recordings(view) {
        page.paragraph("", Colour::new(), &line, 2);
    }
    for line in text_sources::lines(view) {
        page.paragraph("", Colour::new(), &line, 2);
    }
    for line in header::gaps(view) {
        page.paragraph("! ", Colour::new().yellow().bold(), &line, 2);
    }
    let most = if view.shown.all { usize::MAX } else { MAX_JOBS };
    for (label, line) in jobs::lines(view, causes, most) {
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
    if let Some(line) = owners::line(&view.shown.report) {
        page.paragraph("Peaks: ", Colour::new().bold(), &line, 2);
    }
    let sum = view.shown.report.in_use.as_ref();
    if let Some(sum) = sum.filter(|_| view.shown.detail || view.shown.all) {
        page.paragraph(
            &format!("{}: ", in_use::LABEL),
            Colour::new().bold(),
            &in_use::line(sum),
            2,
        );
    }
    if let Some(line) = shared_files::line(&view.shown.report) {
        page.paragraph("Shared memory: ", Colour::new().bold(), &line, 2);
    }
    if let Some(line) = gpus::line(&view.shown.report) {
        page.paragraph("GPUs: ", Colour::new().bold(), &line, 2);
    }
}

/// Writes who held memory or what grew, what to change, and what else was found.
fn bottom(view: &View<'_>, page: &mut Page) {
    grown(view, page);
    let found = findings::texts(view);
    if !found.is_empty() {
        heading(page, "WHAT TO CHANGE");
    }
    for (number, told) in (1..).zip(found) {
        let lead = format!("  {number}. ");
        page.paragraph(&lead, Colour::new().bold(), &told.summary, 4);
        for (label, text) in &told.parts {
            page.paragraph(&format!("    {label}: "), Colour::new().dimmed(), text, 6);
        }
        let figures = told.finding.evidence.iter();
        for figure in figures.filter(|_| view.shown.detail || view.shown.all) {
            let figure = sanitize::line(figure, sanitize::EVIDENCE);
            page.paragraph("    ", Colour::new(), &figure, 6);
        }
    }
    let notes = findings::notes(view);
    if !notes.is_empty() {
        heading(page, "ALSO");
    }
    for note in notes {
        page.paragraph("  ", Colour::new(), &note, 4);
    }
}

/// Writes what was held at the kill, and which lines of Python grew the memory: those of classes
/// that had more processes than lived at the kill, or all without such a kill or with `--all`.
fn grown(view: &View<'_>, page: &mut Page) {
    let held = held::at_kill(view);
    if let Some(held) = &held {
        heading(page, &format!("WHAT WAS HELD AT {}", held.kill));
        each_owner(page, &held.classes);
    }
    let unread = growth::unread(view);
    let grown = match &held {
        Some(held) if !view.shown.all => growth::lines_of(view, &held.more),
        _ => growth::lines(view),
    };
    if !grown.is_empty() || held.is_none() && !unread.is_empty() {
        heading(page, "WHAT GREW");
    }
    each_owner(page, &grown);
    for line in &unread {
        page.paragraph("! ", Colour::new().yellow().bold(), line, 2);
    }
}

/// Writes a sentence for each owner, with the lines below it.
fn each_owner(page: &mut Page, owners: &[(String, Vec<String>)]) {
    for (text, next) in owners {
        page.paragraph("  ", Colour::new(), text, 4);
        for line in next {
            page.paragraph("    ", Colour::new(), line, 6);
        }
    }
}

fn heading(page: &mut Page, text: &str) {
    page.blank();
    page.paragraph(text, Colour::new().bold(), "", 0);
}

/// Writes one line for each first cause, if there are several.
fn index(view: &View<'_>, page: &mut Page, entries: &[Entry<'_>]) {
    let has_its_own = fleet::is_fleet_report(&view.shown.report);
    if entries.len() < 2 || view.shown.all || view.shown.detail || has_its_own {
        return;
    }
    for entry in entries.iter().take(MAX_ENTRIES) {
        let death = entry.first().death;
        let (label, text, sure) = alike::heading(&entry.causes);
        let time = view.death_time(death);
        let mut line = format!("{time}  {text}");
        let followed: usize = (entry.causes.iter())
            .map(|cause| cause.followers().len())
            .sum();
        if followed > 0 {
            let deaths = words::count(followed, "death", "deaths");
            line.push_str(&format!("; {deaths} followed"));
        }
        let mut ended = entry
            .causes
            .iter()
            .filter_map(|cause| jobs::ended_by(view, cause));
        if let Some(job) = ended.next() {
            let (probably, name) = (jobs::probably(job), jobs::name(view, job));
            line.push_str(&format!("; {probably}ended job {name}"));
        }
        let certainty = words::certainty(sure).replace(' ', "\u{a0}");
        line.push_str(&format!("  {certainty}"));
        page.paragraph(&format!("  {label}  "), Colour::new().bold(), &line, 4);
    }
    if entries.len() > MAX_ENTRIES {
        let rest = entries[MAX_ENTRIES..].iter();
        let left_out = rest.map(|entry| entry.causes.len()).sum();
        page.paragraph("  ", Colour::new(), &rank::left_out(left_out), 4);
    }
}

fn blocks(view: &View<'_>, page: &mut Page, entries: Vec<Entry<'_>>) {
    let most = match (view.shown.all, fleet::is_fleet_report(&view.shown.report)) {
        (true, _) => usize::MAX,
        (false, false) => MAX_BLOCKS,
        (false, true) => MAX_FLEET_ENTRIES,
    };
    let (kept, left_out) = rank::most_important(entries, most);
    for entry in &kept {
        page.blank();
        match entry.causes.as_slice() {
            [cause] => block::write(view, page, cause),
            causes => group::write(view, page, causes),
        }
    }
    if left_out > 0 {
        page.blank();
        page.paragraph("", Colour::new(), &rank::left_out(left_out), 2);
    }
}
