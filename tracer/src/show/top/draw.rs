//! Lays out the screen and draws its parts.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::Modifier,
    text::{Line, Span},
};

use super::{
    Focus, Over, Top, detail, format, head, help,
    style::{bold, faint, lines, plain},
    table,
};

/// Smallest terminal in which anything can be read, in columns and lines.
const LEAST: (u16, u16) = (50, 12);
/// Minimum width at which details are beside the table, in columns.
const WIDE: u16 = 120;

/// Draws the whole screen.
pub(super) fn all(top: &Top, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("{}×{} at least; q ends", LEAST.0, LEAST.1);
        frame.render_widget(Line::raw(text), area);
        return;
    }
    let head = head::lines(top, usize::from(area.width), area.height < 30);
    let height = u16::try_from(head.len()).unwrap_or(0);
    let [head_area, body, foot] = Layout::vertical([
        Constraint::Length(height),
        Constraint::Min(4),
        Constraint::Length(1),
    ])
    .areas(area);
    lines(frame, head_area, head);
    lists(top, frame, body);
    frame.render_widget(foot_line(top, usize::from(area.width)), foot);
    if top.choice.over == Over::Help {
        help::draw(frame, area);
    }
}

/// Draws the table, the deaths and, if asked for, the details. A small terminal has room only for
/// the details and the list that they belong to.
fn lists(top: &Top, frame: &mut Frame<'_>, area: Rect) {
    let deaths = table::deaths_height(top, frame.area().height);
    let [body, below] =
        Layout::vertical([Constraint::Min(4), Constraint::Length(deaths)]).areas(area);
    match (top.choice.detail, area.width >= WIDE, top.choice.focus) {
        (false, _, _) => {
            table::draw(top, frame, body);
            table::deaths(top, frame, below);
        }
        (true, true, _) => {
            let [left, _, right] = Layout::horizontal([
                Constraint::Percentage(56),
                Constraint::Length(1),
                Constraint::Min(0),
            ])
            .areas(body);
            table::draw(top, frame, left);
            detail::draw(top, frame, right);
            table::deaths(top, frame, below);
        }
        (true, false, focus) => {
            let [upper, lower] =
                Layout::vertical([Constraint::Min(4), Constraint::Percentage(64)]).areas(area);
            match focus {
                Focus::Table => table::draw(top, frame, upper),
                Focus::Deaths => table::deaths(top, frame, upper),
            }
            detail::draw(top, frame, lower);
        }
    }
}

fn foot_line(top: &Top, width: usize) -> Line<'static> {
    if top.choice.over == Over::Filter {
        let text = format!(
            "Filter: {}▏  Enter keeps it, Esc clears it",
            top.choice.filter
        );
        return Line::styled(
            format::fit(&text, width),
            plain().add_modifier(Modifier::REVERSED),
        );
    }
    let other = match top.choice.focus {
        Focus::Table => "deaths",
        Focus::Deaths => "table",
    };
    let keys = [
        ("↑↓", "choose"),
        ("Enter", "details"),
        ("g", "group"),
        ("s", "sort"),
        ("/", "filter"),
        ("Tab", other),
        ("?", "help"),
        ("q", "quit"),
    ];
    let spans = keys.into_iter().flat_map(|(key, what)| {
        [
            Span::styled(key, bold()),
            Span::styled(format!(" {what}  "), faint()),
        ]
    });
    spans.collect()
}
