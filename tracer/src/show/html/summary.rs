//! The first screen, as HTML: one sentence for each first cause, how the jobs ended, what was missed.

use super::escape;
use crate::{
    judge::report::Certainty,
    show::{alike, causes::Entry, findings, header, jobs, rank, sanitize, view::View, words},
};

/// First causes that have a sentence here; the table has all.
const MAX_ENTRIES: usize = 20;
/// Jobs that have a line.
const MAX_JOBS: usize = 10;

/// `raytrace: gpu-07, 2 first causes`.
pub(super) fn title(view: &View<'_>) -> String {
    let report = &view.shown.report;
    let hosts: Vec<String> = report
        .recordings
        .iter()
        .map(|recording| sanitize::name(&recording.host.name))
        .collect();
    let count = words::count(view.shown.totals.0, "first cause", "first causes");
    match hosts.as_slice() {
        [] => format!("raytrace: {count}"),
        _ => format!("raytrace: {}, {count}", hosts.join(" ")),
    }
}

/// The section.
pub(super) fn render(view: &View<'_>) -> String {
    let causes = view.shown.causes();
    let mut html = String::from("<header>\n<h1>Who killed what</h1>\n<ul class=\"about\">\n");
    let about = header::recordings(view)
        .into_iter()
        .chain(header::texts(view))
        .chain(header::counts(view, &causes));
    about.for_each(|line| item(&mut html, "", &escape(&line)));
    for line in header::gaps(view) {
        item(&mut html, "gap", &escape(&line));
    }
    html.push_str("</ul>\n</header>\n<ol class=\"lead\" aria-label=\"First causes and jobs\">\n");
    for (label, line) in jobs::lines(view, &causes, MAX_JOBS) {
        let content = format!("<b>{}</b> {}", escape(&label), escape(&line));
        item(&mut html, "job", &content);
    }
    let (kept, left_out) = rank::most_important(view, rank::entries(view, causes), MAX_ENTRIES);
    for entry in &kept {
        let death = entry.first().death;
        let class = if words::is_kill(death.verdict.killer) {
            ""
        } else {
            "death"
        };
        item(&mut html, class, &sentence(view, entry));
    }
    if left_out > 0 {
        let what = words::count(left_out, "more first cause", "more first causes");
        item(
            &mut html,
            "quiet",
            &format!("<a href=\"#deaths\">… and {what}</a>"),
        );
    }
    html.push_str("</ol>\n");
    list(&mut html, "What to change", &findings::lines(view));
    let notes = view.shown.report.notes.iter();
    let notes: Vec<String> = notes
        .map(|note| sanitize::line(note, sanitize::EVIDENCE))
        .collect();
    list(&mut html, "Also", &notes);
    html.push_str(NO_SCRIPT);
    html
}

const NO_SCRIPT: &str = "<noscript><p>The timeline, the tables and the evidence need JavaScript; nothing is loaded from anywhere.</p></noscript>";

fn item(html: &mut String, class: &str, content: &str) {
    if class.is_empty() {
        html.push_str(&format!("<li>{content}</li>\n"));
    } else {
        html.push_str(&format!("<li class=\"{class}\">{content}</li>\n"));
    }
}

/// `KILL 1 08:41:07.482Z Ray's memory monitor killed hog (task, pid 7, 3.4 GiB) PROVEN`.
fn sentence(view: &View<'_>, entry: &Entry<'_>) -> String {
    let death = entry.first().death;
    let (label, text, sure) = match entry.causes.as_slice() {
        [cause] => (cause.label(), words::headline(death), death),
        causes => (
            alike::label(causes),
            alike::headline(causes),
            alike::least_certain(causes),
        ),
    };
    let class = match sure.verdict.certainty {
        Certainty::Proven => "sure proven",
        Certainty::Inferred | Certainty::Unknown => "sure",
    };
    format!(
        "<a href=\"#death-{}\"><b>{}</b> <time>{}</time> {}</a> <span class=\"{class}\">{}</span>",
        death.id.0,
        escape(&label),
        escape(&view.death_time(death)),
        escape(&text),
        escape(&words::certainty(sure))
    )
}

fn list(html: &mut String, heading: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    html.push_str(&format!("<section><h2>{heading}</h2>\n<ul>\n"));
    for line in lines {
        item(html, "", &escape(line));
    }
    html.push_str("</ul></section>\n");
}
