//! Renders the first screen and the sections as HTML, which can be read without JavaScript.

use crate::{
    judge::report::Certainty,
    phrase::when,
    show::{
        answer::{Most, Told},
        brief,
        document::{self, Document, Extent, Item, Section},
        facts::Fact,
        header, sanitize, settings,
        view::View,
        words,
    },
};

/// Maximum numbers of first causes, jobs and gaps that have a sentence here. The table has all
/// deaths.
const MOST: Most = Most {
    jobs: 10,
    causes: 20,
    facts: 4,
    short: 8,
    gaps: 6,
};
/// If there are more jobs than this, they are below the first causes, which belong on the first
/// screen.
const FEW_JOBS: usize = 2;
/// The facts about what to change.
const REMEDY: [&str; 3] = ["fix", "cost", "or"];

/// The parts of the page.
#[derive(Debug)]
pub(super) struct Summary {
    /// The answer.
    pub(super) title: String,
    /// What stands above the chart.
    pub(super) top: String,
    /// What stands below it.
    pub(super) sections: String,
}

/// Renders the parts of the page.
pub(super) fn render(view: &View<'_>) -> Summary {
    let extent = Extent {
        answer: MOST,
        blocks: 0,
    };
    let document = document::of(view, extent);
    let title = title(view, &document);
    let sections = document.sections.iter();
    let sections = sections.filter(|one| one.heading != document::NORMAL_EXITS);
    let legend = document.legend.into_iter();
    let legend = legend.map(|text| format!("<p class=\"hint\">{}</p>\n", escaped(text)));
    Summary {
        top: top(view, &document, &title),
        sections: legend.chain(sections.map(section)).collect(),
        title,
    }
}

/// `The kernel killed WorkerDict.update_actor, pid 7: cgroup /job was full, 8.0 of 8.0 GiB`.
fn title(view: &View<'_>, document: &Document) -> String {
    let causes = view.shown.causes();
    let leading = document.answer.causes.first();
    let cause = leading.and_then(|told| causes.iter().find(|one| one.death.id == told.death));
    let text = match (cause, leading) {
        (Some(cause), Some(told)) if told.label.starts_with("KILL\u{a0}") => {
            let death = cause.death;
            let why = brief::why(view, death);
            let why = why.split("; ").next().unwrap_or_default();
            if death.is_memory_kill() {
                format!("{}: {why}", told.text)
            } else {
                told.text.clone()
            }
        }
        (_, Some(told)) => told.text.clone(),
        _ if view.shown.totals.causes == 0 => "No abnormal death".to_owned(),
        _ => words::count(view.shown.totals.causes, "first cause", "first causes"),
    };
    words::capitalized(&text)
}

fn top(view: &View<'_>, document: &Document, title: &str) -> String {
    let answer = &document.answer;
    let mut html = format!(
        "<header>\n<h1>{}</h1>\n<ul class=\"about\">\n",
        escaped(title)
    );
    let about = if document.head.is_empty() {
        header::recordings(view)
    } else {
        document.head.clone()
    };
    for line in about.iter().chain(&answer.close) {
        item(&mut html, "", &escaped(line));
    }
    for line in &answer.gaps {
        item(&mut html, "gap", &escaped(line));
    }
    html.push_str("</ul>\n</header>\n<ol class=\"lead\" aria-label=\"First causes and jobs\">\n");
    let jobs: Vec<String> = answer
        .jobs
        .iter()
        .map(|(label, line)| format!("<b>{}</b> {}", escaped(label), escaped(line)))
        .collect();
    let few = jobs.len() <= FEW_JOBS;
    jobs.iter()
        .filter(|_| few)
        .for_each(|job| item(&mut html, "job", job));
    for told in &answer.causes {
        let class = when(!told.label.starts_with("KILL"), "death");
        item(&mut html, class, &card(told));
    }
    jobs.iter()
        .filter(|_| !few)
        .for_each(|job| item(&mut html, "job", job));
    html.push_str("</ol>\n");
    html.push_str(NO_SCRIPT);
    html
}

const NO_SCRIPT: &str = "<noscript><p>The timeline, the tables and the evidence need JavaScript; nothing is loaded from anywhere.</p></noscript>";

fn is_remedy(fact: &Fact) -> bool {
    REMEDY.contains(&fact.0)
}

fn escaped(text: &str) -> String {
    sanitize::html(text)
}

fn item(html: &mut String, class: &str, content: &str) {
    if class.is_empty() {
        html.push_str(&format!("<li>{content}</li>\n"));
    } else {
        html.push_str(&format!("<li class=\"{class}\">{content}</li>\n"));
    }
}

/// Returns `KILL 1 08:41:07.482Z Ray's memory monitor killed hog, pid 7 PROVEN`, with its facts, and
/// what to change in a frame of its own.
fn card(told: &Told) -> String {
    let class = match told.sure {
        Certainty::Proven => "sure proven",
        Certainty::Inferred | Certainty::Unknown => "sure",
    };
    let when = match told.when.as_str() {
        "" => String::new(),
        when => format!("<time>{}</time> ", escaped(when)),
    };
    let (remedy, facts): (Vec<&Fact>, Vec<&Fact>) =
        told.facts.iter().partition(|one| is_remedy(one));
    let remedy = match list(&remedy) {
        none if none.is_empty() => none,
        list => format!("\n<div class=\"fix\">{list}</div>"),
    };
    format!(
        "<a href=\"#death-{}\"><b>{}</b> {when}{}</a> <span class=\"{class}\">{}</span>{}{remedy}",
        told.death.0,
        escaped(&told.label),
        escaped(&told.text),
        escaped(&told.certainty),
        list(&facts)
    )
}

/// Renders facts as a list of labels and texts, with settings as code.
fn list(facts: &[&Fact]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let each = facts.iter().map(|(label, text)| {
        let (class, text) = match *label {
            "fix" | "or" => (
                format!(" class=\"{label}\"{}", copied(text)),
                with_code(text),
            ),
            _ => (String::new(), escaped(text)),
        };
        format!("<dt>{}</dt><dd{class}>{text}</dd>", escaped(label))
    });
    format!("\n<dl>{}</dl>", each.collect::<String>())
}

/// Returns the attribute with the settings that a text begins with, which a script gives a button to
/// copy. Settings further on may be those in force, and a value in capitals is to be chosen.
fn copied(text: &str) -> String {
    let mut settings: Vec<&str> = Vec::new();
    for word in settings::words(text) {
        let value = word.bare.split_once('=').map_or("", |(_, value)| value);
        let is_chosen = value.chars().any(|letter| !letter.is_ascii_uppercase());
        if !word.before.is_empty() || !is_chosen {
            break;
        }
        settings.push(word.bare);
        if !word.after.is_empty() {
            break;
        }
    }
    if settings.is_empty() {
        return String::new();
    }
    format!(" data-copy=\"{}\"", escaped(&settings.join(" ")))
}

/// Escapes a text. Its settings, names and paths are code.
fn with_code(text: &str) -> String {
    let word = |word: settings::Word<'_>| {
        let (before, bare, after) = (
            escaped(word.before),
            escaped(word.bare),
            escaped(word.after),
        );
        if word.is_code {
            format!("{before}<code>{bare}</code>{after}")
        } else {
            format!("{before}{bare}{after}")
        }
    };
    let words: Vec<String> = settings::words(text).map(word).collect();
    words.join(" ")
}

/// Renders a section: its items, each with the lines below it.
fn section(section: &Section) -> String {
    let tag = if section.numbered { "ol" } else { "ul" };
    let heading = format!("{} {}", section.heading, section.of);
    let heading = escaped(heading.trim_end());
    let mut html = format!("<section><h2>{heading}</h2>\n<{tag}>\n");
    for one in &section.items {
        item(&mut html, "", &told(one));
    }
    html.push_str(&format!("</{tag}></section>\n"));
    html
}

fn told(one: &Item) -> String {
    let mut content = escaped(&one.text);
    if one.parts.is_empty() {
        return content;
    }
    content.push_str("\n<ul>\n");
    for (label, text) in &one.parts {
        match *label {
            "" => item(&mut content, "", &escaped(text)),
            label @ ("Fix" | "Or") => {
                let line = format!("<b>{label}:</b> {}", with_code(text));
                item(&mut content, "settings", &line);
            }
            label => item(
                &mut content,
                "",
                &format!("<b>{label}:</b> {}", escaped(text)),
            ),
        }
    }
    content.push_str("</ul>");
    content
}
