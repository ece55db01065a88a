//! The report as people read it: jobs first, then one block per first cause, then what to change.

mod block;
mod cascade;
mod facts;
mod findings;
mod group;
mod header;
mod jobs;
#[cfg(test)]
mod tests;

use crate::{
    judge::report::Utc,
    show::{
        Style,
        causes::{self, Cause, Entry},
        layout::Page,
        select::Shown,
        words,
    },
};

/// More places than this are not shown unless asked for.
const MAX_ENTRIES: usize = 30;

/// What every part of the text needs.
#[derive(Clone, Copy)]
struct View<'a> {
    shown: &'a Shown,
    style: &'a Style,
    /// Whether the report spans several days, so that times need their date.
    dated: bool,
}

/// The whole report, coloured.
#[must_use]
pub fn render(shown: &Shown, style: &Style) -> String {
    let view = View {
        shown,
        style,
        dated: header::spans_days(&shown.report, style),
    };
    let mut page = Page::new(style.width);
    header::write(&view, &mut page);
    let causes = shown.causes();
    jobs::write(&view, &mut page, &causes);
    header::counts(&view, &mut page, &causes);
    entries(&view, &mut page, causes);
    if shown.all {
        group::normal_exits(&view, &mut page);
    }
    findings::write(&view, &mut page);
    page.finish()
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
        page.paragraph("", owo_colors::Style::new(), &text, 2);
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

impl View<'_> {
    /// A death's time: of day, with its date where the report spans several.
    fn time(&self, time: Option<Utc>) -> String {
        match time {
            None => "time unknown".to_owned(),
            Some(time) if self.dated => {
                format!(
                    "{} {}",
                    self.style.zone.date(time),
                    self.style.zone.clock(time)
                )
            }
            Some(time) => self.style.zone.clock(time),
        }
    }
}
