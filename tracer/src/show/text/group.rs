//! Writes similar first causes as one block, and the deaths that are not listed by default.

use super::block;
use crate::show::{alike, causes::Cause, layout::Page, view::View, words};

/// Maximum number of lines of one group.
const MAX_LINES: usize = 20;

/// Writes the block of a group of similar first causes.
pub(super) fn write(view: &View<'_>, page: &mut Page, causes: &[Cause<'_>]) {
    let first = causes[0].death;
    let time = view.death_time(first);
    let least = alike::least_certain(causes);
    page.headline(
        &format!("{}  {time}  ", alike::label(causes)),
        &alike::headline(causes),
        &words::certainty(least),
        block::colour(least.verdict.certainty),
    );
    for (label, text) in alike::facts(view, causes) {
        page.fact(label, &text);
    }
    block::items(page, "each", &alike::lines(view, causes, MAX_LINES));
}

/// Writes the deaths that are not listed by default, one line each (`--all`).
pub(super) fn normal_exits(view: &View<'_>, page: &mut Page) {
    let mut first = true;
    for death in &view.shown.report.deaths {
        if death.listed {
            continue;
        }
        if first {
            page.blank();
            page.paragraph("NORMAL EXITS", owo_colors::Style::new().bold(), "", 0);
            first = false;
        }
        let time = view.death_time(death);
        let text = format!("{time} {} {}", words::subject(death), words::clause(death));
        page.paragraph("  ", owo_colors::Style::new(), &text, 4);
    }
}
