//! Writes the first screen of a report of several recordings, in at most forty lines.

use owo_colors::Style as Colour;

use crate::show::{causes::Cause, fleet, header, jobs, layout::Page, view::View};

/// Lines that people still see as one screen.
const LINES: usize = 40;
/// Maximum numbers of jobs, first causes and gaps, tried in order until all fits.
const MOST: [(usize, usize, usize); 6] = [
    (8, 10, 6),
    (6, 8, 5),
    (4, 6, 4),
    (3, 4, 3),
    (2, 3, 2),
    (1, 2, 1),
];

/// Writes the nodes, how each job ended, the first causes on all nodes, and what is missing.
pub(super) fn page(view: &View<'_>, causes: &[Cause<'_>]) -> Page {
    if view.shown.all {
        return with(view, causes, (usize::MAX, usize::MAX, usize::MAX));
    }
    let mut pages = MOST.iter().map(|most| with(view, causes, *most));
    let fits = |page: &Page| page.lines() <= LINES;
    let last = MOST.last().copied().unwrap_or((1, 1, 1));
    pages.find(fits).unwrap_or_else(|| with(view, causes, last))
}

fn with(view: &View<'_>, causes: &[Cause<'_>], most: (usize, usize, usize)) -> Page {
    let (most_jobs, most_causes, most_gaps) = most;
    let mut page = Page::new(view.style.width);
    let plain = Colour::new();
    for line in fleet::header(view) {
        page.paragraph("", plain, &line, 2);
    }
    for line in fleet::gaps(view, most_gaps) {
        page.paragraph("! ", plain.yellow().bold(), &line, 2);
    }
    for line in header::pending(view).into_iter().take(most_gaps) {
        page.paragraph("! ", plain.yellow().bold(), &line, 2);
    }
    for (label, line) in jobs::lines(view, causes, most_jobs) {
        let lead = if label.is_empty() {
            label
        } else {
            format!("{label} ")
        };
        page.paragraph(&lead, plain.bold(), &line, 2);
    }
    for (number, line) in fleet::causes(view, causes, most_causes).iter().enumerate() {
        let (lead, indent) = if number == 0 { ("", 2) } else { ("  ", 6) };
        page.paragraph(lead, plain, line, indent);
    }
    if let Some(line) = fleet::quiet_nodes(&view.shown.report) {
        page.paragraph("", plain, &line, 2);
    }
    page
}
