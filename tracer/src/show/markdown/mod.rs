//! Renders the report as Markdown to paste into an issue or a chat, in at most 60 lines.
//!
//! It has no tables and no HTML, so that it also reads well where Markdown is not rendered. All
//! text passes [`escape`]: names of tasks and lines of logs come from whoever ran the job.

mod escape;
#[cfg(test)]
mod tests;

use crate::show::{
    Style,
    answer::{Answer, Most, Told},
    document::{self, Block, Document, Extent, Row, Section},
    sanitize,
    select::SelectedReport,
    view::View,
};

/// Maximum number of lines of a report. Longer pastes are not read.
const MAX_LINES: usize = 60;
/// Maximum number of jobs, and of gaps.
const MAX_EACH: usize = 5;

/// How much is said.
#[derive(Debug, Clone, Copy)]
struct Detail {
    /// Maximum number of first causes: with a line, and with a block.
    causes: usize,
    blocks: usize,
    /// Maximum number of texts under one label.
    texts: usize,
    /// Whether lines below an item are shown.
    parts: bool,
    /// Maximum number of items of a section.
    items: usize,
}

/// Levels of detail, from much to little. The first one that fits is taken. The last one always
/// fits.
const DETAILS: [Detail; 7] = [
    detail(16, 16, usize::MAX, true, 5),
    detail(16, 16, 8, true, 5),
    detail(16, 8, 4, true, 5),
    detail(16, 4, 2, true, 5),
    detail(16, 2, 2, false, 5),
    detail(12, 1, 1, false, 3),
    detail(6, 0, 0, false, 1),
];

const fn detail(causes: usize, blocks: usize, texts: usize, parts: bool, items: usize) -> Detail {
    Detail {
        causes,
        blocks,
        texts,
        parts,
        items,
    }
}

/// Renders the whole report.
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
    let answer = Most {
        jobs: MAX_EACH,
        causes: detail.causes,
        facts: detail.causes,
        short: 0,
        gaps: MAX_EACH,
    };
    let blocks = detail.blocks;
    let document = document::of(view, Extent { answer, blocks });
    let version = sanitize::name(&view.shown.report.raytrace);
    let mut lines = vec![
        format!("## Deaths recorded by raytrace {}", escape::text(&version)),
        String::new(),
    ];
    lines.extend(top(&document));
    let legend = document.legend.filter(|_| blocks > 0);
    lines.extend(legend.map(|legend| format!("- {legend}")));
    lines.extend(document.blocks.iter().flat_map(|one| block(one, detail)));
    let left = document.left_out.iter().filter(|_| blocks > 0);
    lines.extend(left.flat_map(|line| [String::new(), line.clone()]));
    let sections = document.sections.iter();
    lines.extend(sections.flat_map(|one| section(one, detail)));
    lines
}

/// Renders the answer: how each job ended, the first causes, and what was missed.
fn top(document: &Document) -> Vec<String> {
    let answer: &Answer = &document.answer;
    let item = |line: &String| format!("- {}", escape::text(line));
    let mut lines: Vec<String> = first(&document.head, MAX_EACH).iter().map(item).collect();
    for (label, line) in &answer.jobs {
        let (label, line) = (escape::text(label), escape::text(line));
        lines.push(match label.as_str() {
            "" => format!("- {line}"),
            _ => format!("- **{label}** {line}"),
        });
    }
    lines.extend(answer.causes.iter().flat_map(told));
    lines.extend(answer.close.iter().map(item));
    let gaps = first(&answer.gaps, MAX_EACH).into_iter();
    lines.extend(gaps.map(|line| format!("- **Gap:** {}", escape::text(&line))));
    lines
}

/// `- **KILL 1** · 08:41:07.482Z · Ray's memory monitor killed hog, pid 7 · PROVEN`, with its facts.
fn told(told: &Told) -> Vec<String> {
    let when = match told.when.as_str() {
        "" => String::new(),
        when => format!("{} · ", escape::text(when)),
    };
    let mut lines = vec![format!(
        "- **{}** · {when}{} · {}",
        escape::text(&told.label),
        escape::text(&told.text),
        told.certainty
    )];
    lines.extend(told.facts.iter().map(|(label, text)| {
        let text = match *label {
            "fix" | "or" => escape::settings(text),
            _ => escape::text(text),
        };
        format!("  - **{label}** {text}")
    }));
    lines
}

/// Renders a first cause or a group, with its facts.
fn block(block: &Block, detail: Detail) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        format!(
            "### {} · {} · {} · {}",
            escape::text(&block.label),
            escape::text(&block.when),
            escape::text(&block.headline),
            block.certainty
        ),
    ];
    lines.extend(block.rows.iter().flat_map(|one| row(one, detail.texts)));
    lines
}

/// Renders the texts under a label: a single one beside it, several as a list of at most `most`.
fn row(row: &Row, most: usize) -> Vec<String> {
    let shown = |text: &String| {
        // What raytrace itself says about the part left out is not evidence.
        if row.verbatim && !text.starts_with('…') {
            escape::code(text)
        } else {
            escape::text(text)
        }
    };
    if let [only] = row.texts.as_slice() {
        return vec![format!("- **{}** {}", row.label, shown(only))];
    }
    let mut lines = vec![format!("- **{}**", row.label)];
    let texts = first(&row.texts, most);
    lines.extend(texts.iter().map(|text| format!("  - {}", shown(text))));
    lines
}

/// Renders a section: a list, or one with numbers.
fn section(section: &Section, detail: Detail) -> Vec<String> {
    let heading = format!("### {} {}", section.heading, section.of);
    let mut lines = vec![String::new(), heading.trim_end().to_owned()];
    for (number, item) in (1..).zip(section.items.iter().take(detail.items)) {
        let mark = if section.numbered {
            format!("{number}.")
        } else {
            "-".to_owned()
        };
        let indent = " ".repeat(mark.len() + 1);
        let parts = item.parts.iter().filter(|_| detail.parts);
        lines.push(format!("{mark} {}", escape::text(&item.text)));
        for (label, text) in parts {
            let label = match *label {
                "" => String::new(),
                label => format!("{label}: "),
            };
            let text = escape::settings(text);
            lines.push(format!("{indent}- {label}{text}"));
        }
    }
    let left = section.items.len().saturating_sub(detail.items);
    lines.extend((left > 0).then(|| format!("- … and {left} more")));
    lines
}

/// Returns the first `most` texts, and one that counts the rest.
fn first(texts: &[String], most: usize) -> Vec<String> {
    let mut kept: Vec<String> = texts.iter().take(most).cloned().collect();
    let left = texts.len() - kept.len();
    if left > 0 {
        kept.push(format!("… and {left} more"));
    }
    kept
}
