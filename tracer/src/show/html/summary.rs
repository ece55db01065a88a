//! Renders the first screen as HTML.
//!
//! It has a sentence for each first cause, and says how the jobs ended and what was missed.

use crate::{
    judge::report::Certainty,
    show::{
        alike, causes::Entry, findings, fleet, gpus, growth, header, held, in_use, jobs, rank,
        sanitize, shared_files, text_sources, view::View, words,
    },
};

/// Maximum number of first causes that have a sentence here. The table has all.
const MAX_ENTRIES: usize = 20;
/// Maximum number of jobs that have a line.
const MAX_JOBS: usize = 10;
/// If there are more jobs than this, they are below the first causes, which belong on the first
/// screen.
const FEW_JOBS: usize = 2;

/// `raytrace: gpu-07, 2 first causes`.
pub(super) fn title(view: &View<'_>) -> String {
    let report = &view.shown.report;
    let hosts: Vec<String> = report
        .recordings
        .iter()
        .map(|recording| sanitize::name(&recording.host.name))
        .collect();
    let count = words::count(view.shown.totals.causes, "first cause", "first causes");
    match hosts.as_slice() {
        [] => format!("raytrace: {count}"),
        _ if fleet::is_fleet_report(report) => {
            let nodes = words::count(report.nodes.len(), "node", "nodes");
            format!("raytrace: {nodes}, {count}")
        }
        _ => format!("raytrace: {}, {count}", hosts.join(" ")),
    }
}

/// Returns lines about memory in use at the peak, shared memory and GPUs, as far as they were seen.
fn memory(view: &View<'_>) -> impl Iterator<Item = String> {
    let report = &view.shown.report;
    let lines = [
        (in_use::LABEL, report.in_use.as_ref().map(in_use::line)),
        ("Shared memory", shared_files::line(report)),
        ("GPUs", gpus::line(report)),
    ];
    let lines = lines.into_iter();
    lines.filter_map(|(label, line)| Some(format!("{label}: {}", line?)))
}

/// Renders the section.
pub(super) fn render(view: &View<'_>) -> String {
    let causes = view.shown.causes();
    let mut html = String::from("<header>\n<h1>Who killed what</h1>\n<ul class=\"about\">\n");
    let about = header::recordings(view)
        .into_iter()
        .chain(text_sources::lines(view))
        .chain(header::counts(view, &causes))
        .chain(memory(view));
    about.for_each(|line| item(&mut html, "", &sanitize::html(&line)));
    for line in header::gaps(view) {
        item(&mut html, "gap", &sanitize::html(&line));
    }
    html.push_str("</ul>\n</header>\n<ol class=\"lead\" aria-label=\"First causes and jobs\">\n");
    let jobs = jobs::lines(view, &causes, MAX_JOBS);
    let jobs: Vec<String> = jobs
        .iter()
        .map(|(label, line)| format!("<b>{}</b> {}", sanitize::html(label), sanitize::html(line)))
        .collect();
    let (before, after) = if jobs.len() > FEW_JOBS {
        (&jobs[..0], &jobs[..])
    } else {
        (&jobs[..], &jobs[..0])
    };
    for job in before {
        item(&mut html, "job", job);
    }
    let (kept, left_out) = rank::most_important(rank::entries(view, causes), MAX_ENTRIES);
    for entry in &kept {
        let death = entry.first().death;
        let class = if death.verdict.killer.is_kill() {
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
    for job in after {
        item(&mut html, "job", job);
    }
    if let Some(quiet) = fleet::quiet_nodes(&view.shown.report) {
        item(&mut html, "quiet", &sanitize::html(&quiet));
    }
    html.push_str("</ol>\n");
    if let Some(held) = held::at_kill(view) {
        let heading = format!("What was held at {}", held.kill);
        list(&mut html, "ul", &heading, held.classes);
    }
    let unread = growth::unread(view).into_iter().map(alone);
    let grown = growth::lines(view).into_iter().chain(unread);
    list(&mut html, "ul", "What grew", grown);
    let found = findings::lines(view).into_iter().map(alone);
    list(&mut html, "ol", "What to change", found);
    let notes = findings::notes(view).into_iter().map(alone);
    list(&mut html, "ul", "Also", notes);
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

/// Returns `KILL 1 08:41:07.482Z Ray's memory monitor killed hog (task, pid 7, 3.4 GiB) PROVEN`. In
/// a report of several nodes it also names the node of the death, and how many deaths followed on
/// how many nodes.
fn sentence(view: &View<'_>, entry: &Entry<'_>) -> String {
    let death = entry.first().death;
    let (label, mut text, sure) = alike::heading(&entry.causes);
    match (entry.causes.as_slice(), &death.node) {
        ([cause], Some(node)) => {
            text = format!("{}: {text}{}", sanitize::name(node), fleet::followed(cause));
        }
        (alike, _) => {
            let deaths: Vec<_> = alike.iter().map(|cause| cause.death).collect();
            text.push_str(&fleet::on_nodes(&deaths));
        }
    }
    let class = match sure.verdict.certainty {
        Certainty::Proven => "sure proven",
        Certainty::Inferred | Certainty::Unknown => "sure",
    };
    format!(
        "<a href=\"#death-{}\"><b>{}</b> <time>{}</time> {}</a> <span class=\"{class}\">{}</span>",
        death.id.0,
        sanitize::html(&label),
        sanitize::html(&view.death_time(death)),
        sanitize::html(&text),
        sanitize::html(&words::certainty(sure))
    )
}

/// A text with no lines below it.
fn alone(text: String) -> (String, Vec<String>) {
    (text, Vec::new())
}

/// Writes a section with a list, each text with the lines below it. `tag` is `ul` or `ol`.
fn list(
    html: &mut String,
    tag: &str,
    heading: &str,
    texts: impl IntoIterator<Item = (String, Vec<String>)>,
) {
    let mut texts = texts.into_iter().peekable();
    if texts.peek().is_none() {
        return;
    }
    html.push_str(&format!("<section><h2>{heading}</h2>\n<{tag}>\n"));
    for (text, below) in texts {
        let mut content = sanitize::html(&text);
        if !below.is_empty() {
            content.push_str("\n<ul>\n");
            for line in below {
                item(&mut content, "", &sanitize::html(&line));
            }
            content.push_str("</ul>");
        }
        item(html, "", &content);
    }
    html.push_str(&format!("</{tag}></section>\n"));
}
