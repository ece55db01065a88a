//! Draws the table of living processes, and the list of the last deaths.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use super::{
    Focus, Top,
    format::{cut, fit, rate},
    rows::{self, Group, Row, RowId},
    style::{bold, faint, lines, plain, rule},
};
use crate::{
    ids::Bytes,
    judge::report::{Certainty, Death},
    show::{
        live as lines_of, sanitize,
        size::{self, size},
        time::Zone,
        words,
    },
};

/// Minimum width at which there are columns for shared memory and swap.
const WIDE: u16 = 100;

/// Draws the table in `area`.
pub(super) fn draw(top: &Top, frame: &mut Frame<'_>, area: Rect) {
    let rows = rows::of(top);
    let focused = top.choice.focus == Focus::Table;
    let mut shown = vec![
        heading(top, rows.len(), area.width),
        columns(top, area.width),
    ];
    let height = usize::from(area.height).saturating_sub(shown.len());
    let chosen = top.chosen(&rows);
    let from = window(chosen, rows.len(), height);
    for (place, row) in rows.iter().enumerate().skip(from).take(height) {
        let style = chosen_style(focused && place == chosen);
        shown.push(Line::styled(text(top, row, area.width), style));
    }
    if rows.is_empty() {
        shown.push(Line::styled(nothing(top), faint()));
    }
    lines(frame, area, shown);
}

/// Returns the first row that is shown. The chosen row is in the middle, if that is possible.
fn window(chosen: usize, count: usize, height: usize) -> usize {
    chosen
        .saturating_sub(height / 2)
        .min(count.saturating_sub(height))
}

fn chosen_style(chosen: bool) -> Style {
    if chosen {
        plain().add_modifier(Modifier::REVERSED)
    } else {
        plain()
    }
}

fn nothing(top: &Top) -> &'static str {
    if !top.choice.filter.is_empty() {
        "No name or id matches: Esc clears the filter."
    } else if top.live.ended {
        "No process was left when the recording ended. Tab shows the deaths."
    } else if top.live.clusters.is_empty() {
        "Waiting for Ray (no process named raylet in /proc)."
    } else {
        "No memory sample yet."
    }
}

fn heading(top: &Top, count: usize, width: u16) -> Line<'static> {
    let choice = &top.choice;
    let mut spans: Vec<Span<'static>> = Vec::new();
    for (number, group) in (1..).zip(Group::ALL) {
        let style = if group == choice.group {
            bold()
        } else {
            faint()
        };
        spans.push(Span::styled(
            format!("[{number}] {}  ", group.name()),
            style,
        ));
    }
    let arrow = if choice.reversed { "reversed " } else { "" };
    spans.push(Span::styled(
        format!(
            "· {}, sorted by {arrow}{}",
            words::count(count, "row", "rows"),
            choice.sort.name()
        ),
        faint(),
    ));
    if !choice.filter.is_empty() {
        let filter = format!(" · filter {}", sanitize::name(&choice.filter));
        spans.push(Span::styled(
            filter,
            top.tint(Color::Yellow).add_modifier(Modifier::BOLD),
        ));
    }
    rule(spans, width, choice.focus == Focus::Table)
}

/// Returns the width that the other columns leave for the name.
fn name_width(top: &Top, width: u16) -> usize {
    let fixed = if top.choice.group == Group::Processes {
        9
    } else {
        7
    };
    let wide = if width >= WIDE { 22 } else { 0 };
    usize::from(width).saturating_sub(fixed + 11 + 8 + 16 + wide)
}

fn columns(top: &Top, width: u16) -> Line<'static> {
    let name = name_width(top, width);
    let wide = if width >= WIDE {
        format!("{:>11}{:>11}", "SHARED", "SWAP")
    } else {
        String::new()
    };
    let first = match top.choice.group {
        Group::Processes => format!("{:>8} {}", "PID", fit("NAME", name)),
        Group::Classes => format!("{}{:>7}", fit("CLASS OR TASK", name), "PROCS"),
        Group::Components => format!("{}{:>7}", fit("COMPONENT", name), "PROCS"),
    };
    let text = format!(
        "{first}{:>11}{:>8}{:>16}{wide}",
        "PRIVATE", "% USED", "GROWTH"
    );
    Line::styled(text, faint())
}

fn text(top: &Top, row: &Row<'_>, width: u16) -> String {
    let name = fit(&row.name, name_width(top, width));
    let first = match &row.id {
        RowId::Process(process) => format!("{:>8} {name}", process.pid.0),
        RowId::Named(_) if row.members.is_empty() => format!("{name}{:>7}", ""),
        RowId::Named(_) => format!("{name}{:>7}", row.members.len()),
    };
    let used = top.live.node.as_ref();
    let used = used.map_or(Bytes(0), crate::event::NodeMemory::used);
    let wide = if width >= WIDE {
        format!("{:>11}{:>11}", some(row.shared), some(row.swap))
    } else {
        String::new()
    };
    format!(
        "{first}{:>11}{:>8}{:>16}{wide}",
        size(row.private),
        size::percent(row.private, used),
        rate(row.rate)
    )
}

fn some(bytes: Bytes) -> String {
    if bytes.0 == 0 {
        "-".to_owned()
    } else {
        size(bytes)
    }
}

/// Returns the height of the list of deaths: its heading, and as many rows as are useful.
pub(super) fn deaths_height(top: &Top, height: u16) -> u16 {
    let most = (height / 4).saturating_sub(1);
    let wanted = u16::try_from(top.causes().len()).unwrap_or(most);
    1 + wanted.clamp(1, most.max(1))
}

/// Draws the last deaths in `area`, first causes only.
pub(super) fn deaths(top: &Top, frame: &mut Frame<'_>, area: Rect) {
    let focused = top.choice.focus == Focus::Deaths;
    let causes = top.causes();
    let heading = match top.listed {
        0 => "no deaths".to_owned(),
        count if count > top.deaths.len() => format!(
            "{} of the last {} of {count} deaths",
            words::count(causes.len(), "first cause", "first causes"),
            top.deaths.len()
        ),
        count if count == causes.len() => words::count(count, "death", "deaths"),
        count => format!(
            "{}, {}",
            words::count(causes.len(), "first cause", "first causes"),
            words::count(count, "death", "deaths")
        ),
    };
    let style = if focused { bold() } else { faint() };
    let mut shown = vec![rule(
        vec![Span::styled(heading, style)],
        area.width,
        focused,
    )];
    if causes.is_empty() {
        let text = "Abnormal deaths are listed here.";
        shown.push(Line::styled(text, faint()));
    }
    let height = usize::from(area.height).saturating_sub(1);
    let from = window(top.choice.death, causes.len(), height);
    for (place, (death, followers)) in causes.iter().enumerate().skip(from).take(height) {
        let line = death_line(top, death, followers.len(), usize::from(area.width));
        shown.push(line.style(chosen_style(focused && place == top.choice.death)));
    }
    lines(frame, area, shown);
}

fn death_line(top: &Top, death: &Death, followers: usize, width: usize) -> Line<'static> {
    let time = death.when.time.or(death.when.exit_time);
    let time = time.map_or_else(String::new, |time| Zone::default().seconds(time));
    let label = death.verdict.killer.words().label;
    let sure = match death.verdict.certainty {
        _ if !death.verdict.settled => " · not final yet",
        Certainty::Proven => "",
        Certainty::Inferred => " · inferred",
        Certainty::Unknown => " · unknown",
    };
    let text = format!(" {}{sure}", lines_of::what_happened(death));
    let then = match followers {
        0 => String::new(),
        count => format!(" +{count} followed"),
    };
    let left = width.saturating_sub(time.len() + 1 + label.len());
    let colour = if death.verdict.killer.is_memory_kill() {
        Color::Red
    } else {
        Color::Yellow
    };
    Line::from(vec![
        Span::raw(format!("{time} ")),
        Span::styled(label, top.tint(colour).add_modifier(Modifier::BOLD)),
        Span::raw(cut(&text, left.saturating_sub(then.len()))),
        Span::styled(then, bold()),
    ])
}
