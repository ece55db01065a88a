//! Draws the pane of details: all that is known of the chosen row or death.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::Color,
    text::{Line, Span},
    widgets::{Block, Borders, Paragraph, Sparkline, Wrap},
};

use super::{
    Focus, Top,
    format::{cut, rate},
    rows::{self, REST, Row, RowId, SHARED},
    style::{bold, faint},
};
use crate::{
    event::Role,
    ids::Bytes,
    judge::{live::LiveProcess, report::Death},
    show::{clause, live::duration, sanitize, size::size, time::Zone, words},
};

/// Maximum number of members of a class that are listed.
const MEMBERS: usize = 12;

/// Draws the pane in `area`.
pub(super) fn draw(top: &Top, frame: &mut Frame<'_>, area: Rect) {
    let block = Block::new().borders(Borders::ALL).border_style(faint());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let rows = rows::of(top);
    let row = rows.get(top.chosen(&rows));
    let (lines, series) = match (top.choice.focus, row) {
        (Focus::Deaths, _) => (of_death(top), Vec::new()),
        (Focus::Table, Some(row)) => (of_row(top, row, inner.width), series(top, row)),
        (Focus::Table, None) => (
            vec![Line::styled("Nothing is chosen.", faint())],
            Vec::new(),
        ),
    };
    let drawn = if series.len() > 1 && inner.height >= 12 {
        4
    } else {
        0
    };
    let [text, chart] =
        Layout::vertical([Constraint::Min(1), Constraint::Length(drawn)]).areas(inner);
    let paragraph = Paragraph::new(lines).wrap(Wrap { trim: false });
    frame.render_widget(paragraph, text);
    if drawn > 0 {
        let members = row.map_or(&[][..], |row| row.members.as_slice());
        let seconds = members.iter().map(|one| top.trends.seconds(one.process));
        sparkline(top, frame, chart, series, seconds.max().unwrap_or(0));
    }
}

/// Draws the last two minutes, of which `seconds` are known. The chart starts near the lowest
/// figure, so that small changes are visible.
fn sparkline(top: &Top, frame: &mut Frame<'_>, area: Rect, mut series: Vec<u64>, seconds: i64) {
    let low = series.iter().min().copied().unwrap_or(0);
    let high = series.iter().max().copied().unwrap_or(0);
    let [label, chart] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let text = format!(
        "last {seconds} s: {} to {}",
        size(Bytes(low)),
        size(Bytes(high))
    );
    frame.render_widget(Line::styled(text, faint()), label);
    // A margin below the lowest figure keeps a flat line visible.
    let base = low.saturating_sub((high - low) / 10 + (16 << 20));
    let keep = series.len().saturating_sub(usize::from(chart.width));
    series.drain(..keep);
    let bars = series.into_iter().map(|bytes| bytes - base);
    let drawn = Sparkline::default().data(bars).style(top.tint(Color::Blue));
    frame.render_widget(drawn, chart);
}

fn series(top: &Top, row: &Row<'_>) -> Vec<u64> {
    let mut sums: Vec<u64> = Vec::new();
    for member in &row.members {
        let figures: Vec<Bytes> = top.trends.series(member.process).collect();
        if sums.len() < figures.len() {
            let missing = figures.len() - sums.len();
            sums.splice(..0, std::iter::repeat_n(0, missing));
        }
        let offset = sums.len() - figures.len();
        for (sum, figure) in sums[offset..].iter_mut().zip(figures) {
            *sum += figure.0;
        }
    }
    sums
}

fn of_row(top: &Top, row: &Row<'_>, width: u16) -> Vec<Line<'static>> {
    match (&row.id, row.members.as_slice()) {
        (RowId::Process(_), [process, ..]) => of_process(top, process),
        (_, []) => of_rest(row),
        _ => of_group(top, row, usize::from(width)),
    }
}

fn of_rest(row: &Row<'_>) -> Vec<Line<'static>> {
    let what = match row.name.as_str() {
        SHARED => {
            "All shared memory of the machine: the object store, /dev/shm, memfds. Ray's monitor and the cgroups count it too; it is \
             no process's private memory."
        }
        REST => {
            "In use on the machine, but not the private memory of a process of this table and not shared memory: other programs, page \
             tables, the kernel's own."
        }
        _ => "",
    };
    vec![title(&row.name), Line::raw(what)]
}

fn of_group(top: &Top, row: &Row<'_>, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![
        title(&row.name),
        Line::raw(format!(
            "{}, private {} together, growth {}",
            words::count(row.members.len(), "process", "processes"),
            size(row.private),
            or_unknown(rate(row.rate))
        )),
    ];
    for member in row.members.iter().take(MEMBERS) {
        let grown = rate(top.trends.rate(member.process));
        let name = cut(
            &words::name_of_live(member),
            width.saturating_sub(36).max(8),
        );
        let text = format!(
            "{:>8} {:>10} {grown:>14}  {name}",
            member.process.pid.0,
            size(member.private())
        );
        lines.push(Line::raw(text));
    }
    if row.members.len() > MEMBERS {
        let more = row.members.len() - MEMBERS;
        lines.push(Line::styled(
            format!("… and {more} more: key 2 lists processes"),
            faint(),
        ));
    }
    lines
}

fn or_unknown(text: String) -> String {
    if text.is_empty() {
        "not known yet".to_owned()
    } else {
        text
    }
}

fn of_process(top: &Top, process: &LiveProcess) -> Vec<Line<'static>> {
    let memory = &process.memory;
    let shared = memory.anon.zip(memory.own).zip(process.parent);
    let shared = shared.filter(|((anon, own), _)| anon.0 > own.0 + (1 << 20));
    let shared = shared.map_or_else(String::new, |((anon, own), parent)| {
        let shared = size(Bytes(anon.0 - own.0));
        format!(", {shared} shared with pid {parent} by a fork")
    });
    let figure = |bytes: Option<Bytes>| bytes.map_or_else(|| "-".to_owned(), size);
    let inside = process
        .ns_pid
        .map_or_else(String::new, |pid| format!(", pid {pid} in its container"));
    let id = |id: &Option<crate::ids::HexId>| {
        id.as_ref()
            .map_or_else(|| "-".to_owned(), |id| sanitize::name(&id.0))
    };
    let age = top.live.now.since(process.process.start);
    let age = std::time::Duration::from_nanos(u64::try_from(age).unwrap_or(0));
    let mut lines = vec![
        title(&sanitize::line(&process.label, sanitize::EVIDENCE)),
        fact(
            "pid",
            format!(
                "{}{inside}, {}, for {}",
                process.process.pid,
                role(process.role),
                duration(age)
            ),
        ),
        fact(
            "memory",
            format!(
                "{} private + {} file + {} shared, {} swapped, peak {}{shared}",
                figure(memory.private()),
                figure(memory.file),
                figure(memory.shmem),
                figure(memory.swap),
                figure(memory.peak)
            ),
        ),
        fact("growth", or_unknown(rate(top.trends.rate(process.process)))),
        fact(
            "job",
            format!("{}  worker {}", id(&process.job_id), id(&process.worker_id)),
        ),
        fact(
            "cgroup",
            process
                .cgroup
                .as_deref()
                .map_or_else(|| "-".to_owned(), |path| sanitize::line(path, 200)),
        ),
    ];
    // The next death of a process with this pid; the newest come first.
    let died = top.deaths().filter(|death| {
        death.process.pid == process.process.pid && death.when.act_time >= top.live.now
    });
    lines.extend(died.last().into_iter().flat_map(|death| answer(top, death)));
    lines
}

/// Returns what `report --summary` says about a death, in a recording that has ended.
fn answer(top: &Top, death: &Death) -> Vec<Line<'static>> {
    let lines = top.answers.iter().filter_map(|all| all.get(&death.id));
    let told = lines.flatten().map(|line| {
        let (name, text) = line.split_at_checked(8).unwrap_or_default();
        fact(name.trim_end(), text.to_owned())
    });
    told.collect()
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Worker => "worker",
        Role::Driver => "driver",
        Role::Raylet => "raylet",
        Role::Gcs => "GCS",
        Role::Dashboard => "dashboard",
        Role::Agent => "agent",
        Role::Descendant => "subprocess of a worker or driver",
        Role::Other => "outside Ray",
    }
}

fn of_death(top: &Top) -> Vec<Line<'static>> {
    let causes = top.causes();
    let Some((death, followers)) = causes.get(top.choice.death) else {
        return vec![Line::styled("No death yet.", faint())];
    };
    let zone = Zone::default();
    let time = death.when.time.or(death.when.exit_time);
    let mut lines = vec![
        title(&words::headline(death)),
        fact(
            "when",
            time.map_or_else(String::new, |time| zone.full(time)),
        ),
        fact("proof", words::certainty(death)),
    ];
    lines.extend(answer(top, death));
    let then = death.then.as_ref();
    lines.extend(then.map(|then| fact("then", clause::recovery(then))));
    for piece in &death.verdict.evidence {
        let source = sanitize::name(&piece.source);
        let what = sanitize::line(&piece.what, sanitize::EVIDENCE);
        lines.push(fact(&source, what));
    }
    let shown = followers.iter().take(MEMBERS);
    lines.extend(shown.map(|next| fact("followed", words::headline(next))));
    if followers.len() > MEMBERS {
        let more = format!("… and {} more", followers.len() - MEMBERS);
        lines.push(Line::styled(more, faint()));
    }
    lines
}

fn title(text: &str) -> Line<'static> {
    Line::styled(text.to_owned(), bold())
}

fn fact(name: &str, text: String) -> Line<'static> {
    Line::from(vec![
        Span::styled(format!("{name:<8} "), faint()),
        Span::raw(text),
    ])
}
