//! Draws the help about keys and words, over everything else.

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    text::Line,
    widgets::{Block, Clear, Padding, Paragraph},
};

const TEXT: [&str; 21] = [
    "↑ ↓ k j PgUp PgDn   choose a row",
    "Enter               details of the row or death, and back",
    "1 2 3, g            by class or task, by process, by component",
    "s, r                sort by memory, growth, name; reverse",
    "/                   filter by name, pid, beginning of a worker or job id",
    "Tab, d              the deaths, and back to the table",
    "← → [ ]             an ended recording: sample, death before and after",
    "Esc                 back: details, deaths, filter",
    "q, Ctrl-C           quit",
    "",
    "PRIVATE   anonymous memory. What a child made by fork shares with its",
    "          parent counts for the parent only, once that was measured",
    "% USED    share of the memory in use on the machine",
    "GROWTH    over 10 s, one minute or two: the shortest in which the memory",
    "          changed by 16 MiB",
    "NEXT KILLER is the limit that will be hit first: Ray's monitor at its",
    "threshold, the kernel at the limit of a cgroup that Ray is in, or the",
    "kernel when the machine is full. The time left follows from the growth of",
    "what counts toward the limit.",
    "top sends no signals.",
    "Any key closes this.",
];

/// Draws the help in the middle of `area`.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect) {
    let height = u16::try_from(TEXT.len()).unwrap_or(0) + 2;
    let place = area.centered(Constraint::Max(79), Constraint::Max(height));
    let block = Block::bordered()
        .title(" Keys and words ")
        .padding(Padding::horizontal(1));
    let lines: Vec<Line<'_>> = TEXT.into_iter().map(Line::raw).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(block), place);
}
