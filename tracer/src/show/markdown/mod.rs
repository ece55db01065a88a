//! Renders the report as Markdown to paste into an issue or a chat, in at most 60 lines.
//!
//! It has no tables and no HTML, so that it also reads well where Markdown is not rendered. All
//! text passes [`escape`]: names of tasks and lines of logs come from whoever ran the job.

mod escape;
#[cfg(test)]
mod tests;

use crate::show::{
    Style, alike, cascade,
    causes::{Cause, Entry},
    clause, evidence, facts, findings, growth, header, held, jobs, minute, rank, sanitize,
    select::SelectedReport,
    text_sources,
    view::View,
    words,
};

/// Maximum number of lines of a report. Longer pastes are not read.
const MAX_LINES: usize = 60;
/// Maximum number of jobs, of gaps, of findings and of notes.
const MAX_EACH: usize = 5;
/// Maximum number of first causes of a group that have a line.
const MAX_ALIKE: usize = 10;
/// Maximum number of recordings that are named.
const MAX_RECORDINGS: usize = 3;

/// How much is said of each first cause.
#[derive(Debug, Clone, Copy)]
struct Detail {
    /// Maximum number of entries that are shown.
    entries: usize,
    /// Maximum number of lines of evidence, and of a cascade. `None` leaves only a headline.
    items: Option<usize>,
}

/// Levels of detail, from much to little. The first one that fits is taken. The last one always
/// fits.
const DETAILS: [Detail; 7] = [
    detail(16, Some(usize::MAX)),
    detail(16, Some(6)),
    detail(16, Some(4)),
    detail(16, Some(2)),
    detail(8, Some(1)),
    detail(16, None),
    detail(8, None),
];

const fn detail(entries: usize, items: Option<usize>) -> Detail {
    Detail { entries, items }
}

/// Renders the whole report.
#[must_use]
pub fn render(shown: &SelectedReport, style: &Style) -> String {
    let view = View::new(shown, style);
    let mut lines = Vec::new();
    for detail in DETAILS {
        lines = page(&view, detail);
        if lines.len() <= MAX_LINES {
            break;
        }
    }
    lines.join("\n") + "\n"
}

fn page(view: &View<'_>, detail: Detail) -> Vec<String> {
    let causes = view.shown.causes();
    let mut lines = top(view, &causes);
    let (kept, left_out) = rank::most_important(rank::entries(view, causes), detail.entries);
    if detail.items.is_none() && !kept.is_empty() {
        lines.push(String::new());
    }
    for entry in &kept {
        lines.extend(match detail.items {
            Some(items) => block(view, entry, items),
            None => vec![format!("- {}", headline(view, entry, "**"))],
        });
    }
    if left_out > 0 {
        lines.push(String::new());
        lines.push(rank::left_out(left_out));
    }
    lines.extend(normal_exits(view));
    lines.extend(held_or_grown(view));
    lines.extend(what_to_change(view, detail.items.is_some()));
    lines.extend(section("Also", &findings::notes(view)));
    lines
}

/// Renders where and how it was recorded, what was missed, how each job ended, and how many deaths
/// there are.
fn top(view: &View<'_>, causes: &[Cause<'_>]) -> Vec<String> {
    let version = sanitize::name(&view.shown.report.raytrace);
    let mut lines = vec![
        format!("## Deaths recorded by raytrace {}", escape::text(&version)),
        String::new(),
    ];
    for line in first(header::recordings(view), MAX_RECORDINGS) {
        lines.push(format!("- {}", escape::text(&line)));
    }
    for line in text_sources::lines(view) {
        lines.push(format!("- {}", escape::text(&line)));
    }
    for line in first(header::gaps(view), MAX_EACH) {
        lines.push(format!("- **Gap:** {}", escape::text(&line)));
    }
    for (label, line) in jobs::lines(view, causes, MAX_EACH) {
        let label = escape::text(&label);
        let line = escape::text(&line);
        lines.push(match label.as_str() {
            "" => format!("- {line}"),
            _ => format!("- **{label}** {line}"),
        });
    }
    for line in header::counts(view, causes) {
        lines.push(format!("- {}", escape::text(&line)));
    }
    lines
}

/// `**KILL 1** · 08:41:07.482Z · Ray's memory monitor killed hog (task, pid 7, 3.4 GiB) · PROVEN`.
fn headline(view: &View<'_>, entry: &Entry<'_>, mark: &str) -> String {
    let death = entry.first().death;
    let time = view.death_time(death);
    let (label, text, sure) = alike::heading(&entry.causes);
    format!(
        "{mark}{}{mark} · {time} · {} · {}",
        escape::text(&label),
        escape::text(&text),
        words::certainty(sure)
    )
}

/// Renders a first cause or a group, with its facts.
fn block(view: &View<'_>, entry: &Entry<'_>, most: usize) -> Vec<String> {
    let mut lines = vec![String::new(), format!("### {}", headline(view, entry, ""))];
    match entry.causes.as_slice() {
        [cause] => lines.extend(alone(view, cause, most)),
        causes => {
            lines.extend(fact_lines(&alike::facts(view, causes)));
            let each = alike::lines(view, causes, most.min(MAX_ALIKE));
            lines.extend(items("each", &each, usize::MAX, escape::text));
        }
    }
    lines
}

fn alone(view: &View<'_>, cause: &Cause<'_>, most: usize) -> Vec<String> {
    let death = cause.death;
    let mut lines = fact_lines(&facts::all(view, death));
    if view.shown.detail {
        lines.extend(fact_lines(&facts::identity(view, death)));
    }
    let evidence = evidence::at_most(view, cause, most);
    lines.extend(items("evidence", &evidence, usize::MAX, escape::code));
    let cascade = cascade::lines(view, cause);
    lines.extend(items("cascade", &cascade, most, escape::text));
    if let Some(job) = jobs::ended_by(view, cause) {
        let (probably, job) = (jobs::probably(job), jobs::name(view, job));
        lines.push(format!("- **ended** {probably}job {}", escape::text(&job)));
    }
    if let Some(then) = &death.then {
        let then = clause::recovery(then);
        lines.push(format!("- **then** {}", escape::text(&then)));
    }
    lines
}

fn fact_lines(facts: &[facts::Fact]) -> Vec<String> {
    facts
        .iter()
        .map(|(label, text)| match *label {
            // In a table, columns are aligned only as code.
            "minute" => format!("- **{label}** {}", escape::code(text)),
            minute::ROW => format!("  {}", escape::code(text)),
            _ => format!("- **{label}** {}", escape::text(text)),
        })
        .collect()
}

/// Renders texts under a label: a single one beside it, several as a list of at most `most`.
fn items(label: &str, texts: &[String], most: usize, shown: fn(&str) -> String) -> Vec<String> {
    if let [] | [_] = texts {
        let one = texts.iter();
        return one
            .map(|text| format!("- **{label}** {}", shown(text)))
            .collect();
    }
    let mut lines = vec![format!("- **{label}**")];
    for text in first(texts.to_vec(), most) {
        // What raytrace itself says about the part left out is not evidence.
        let own = text.starts_with('…');
        let text = if own {
            escape::text(&text)
        } else {
            shown(&text)
        };
        lines.push(format!("  - {text}"));
    }
    lines
}

/// Renders what was held at the kill, each class with its lines. Without such a kill, and for
/// classes that had more processes than lived at the kill, renders the first line of each owner's
/// growth.
fn held_or_grown(view: &View<'_>) -> Vec<String> {
    let Some(held) = held::at_kill(view) else {
        let owners = growth::lines(view).into_iter();
        let grown: Vec<String> = owners.map(|(text, _)| text).collect();
        return section("What grew", &grown);
    };
    let more = growth::lines_of(view, &held.more).into_iter();
    let more: Vec<String> = more.map(|(text, _)| text).collect();
    let classes = held.classes.into_iter();
    let told: Vec<String> = classes
        .map(|(text, lines)| {
            if lines.is_empty() {
                text
            } else {
                format!("{text}: {}", lines.join("; "))
            }
        })
        .collect();
    let mut lines = section(&format!("What was held at {}", held.kill), &told);
    lines.extend(section("What grew", &more));
    lines
}

/// Renders each finding with its remedy, cost and check below it, or on one line if there is little
/// room.
fn what_to_change(view: &View<'_>, in_parts: bool) -> Vec<String> {
    if !in_parts {
        return numbered_section("What to change", &findings::lines(view));
    }
    let found = findings::texts(view);
    let mut lines = Vec::new();
    for (number, one) in (1..).zip(found.iter().take(MAX_EACH)) {
        lines.push(format!("{number}. {}", escape::text(&one.summary)));
        for (label, text) in &one.parts {
            lines.push(format!("   - {label}: {}", escape::settings(text)));
        }
    }
    let left = found.len().saturating_sub(MAX_EACH);
    lines.extend((left > 0).then(|| format!("{}. … and {left} more", MAX_EACH + 1)));
    if !lines.is_empty() {
        lines.splice(0..0, [String::new(), "### What to change".to_owned()]);
    }
    lines
}

/// Renders the normal exits, if they were asked for.
fn normal_exits(view: &View<'_>) -> Vec<String> {
    if !view.shown.lists_normal_exits {
        return Vec::new();
    }
    let deaths = view.shown.report.deaths.iter();
    let texts: Vec<String> = deaths
        .filter(|death| !death.listed)
        .map(|death| {
            let time = view.death_time(death);
            format!("{time} {} {}", words::subject(death), words::clause(death))
        })
        .collect();
    section("Normal exits", &texts)
}

/// Renders a heading and a list, or nothing if there are no texts.
fn section(heading: &str, texts: &[String]) -> Vec<String> {
    marked_section(heading, texts, |_| "-".to_owned())
}

/// Renders a heading and a list with numbers, or nothing if there are no texts.
fn numbered_section(heading: &str, texts: &[String]) -> Vec<String> {
    marked_section(heading, texts, |number| format!("{number}."))
}

fn marked_section(heading: &str, texts: &[String], mark: impl Fn(usize) -> String) -> Vec<String> {
    if texts.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), format!("### {heading}")];
    let texts = first(texts.to_vec(), MAX_EACH);
    let numbered = (1..).zip(&texts);
    lines.extend(numbered.map(|(at, text)| format!("{} {}", mark(at), escape::text(text))));
    lines
}

/// Returns the first `most` texts, and one that counts the rest.
fn first(mut texts: Vec<String>, most: usize) -> Vec<String> {
    if texts.len() > most {
        let left = texts.split_off(most).len();
        texts.push(format!("… and {left} more"));
    }
    texts
}
