//! Renders the report as text: the answer, then the first causes, then what to change.

#[cfg(test)]
mod tests;

use owo_colors::Style as Colour;

use crate::{
    judge::report::Certainty,
    show::{
        Style,
        answer::{Answer, Most, Told},
        document::{self, Block, Document, Extent, Item, Row, Section},
        fleet,
        layout::Page,
        select::SelectedReport,
        view::View,
    },
};

/// Maximum number of first causes with a block of their own, unless all are asked for.
const MAX_BLOCKS: usize = 10;
/// The same in a report of several recordings.
const MAX_FLEET_BLOCKS: usize = 5;
/// Lines that people still see as one screen.
const SCREEN: usize = 45;
/// Maximum numbers of jobs, first causes, those with facts, those with some of them, and gaps, tried
/// in order until all fits on a screen.
const MOST: [Most; 11] = [
    most(8, 12, 4, 4, 6),
    most(8, 12, 3, 4, 6),
    most(8, 12, 2, 4, 6),
    most(8, 12, 1, 4, 6),
    most(8, 12, 1, 2, 6),
    most(8, 12, 1, 0, 6),
    most(6, 8, 1, 0, 5),
    most(4, 6, 1, 0, 4),
    most(3, 4, 1, 0, 3),
    most(2, 3, 1, 0, 2),
    most(1, 2, 1, 0, 1),
];

const fn most(jobs: usize, causes: usize, facts: usize, short: usize, gaps: usize) -> Most {
    Most {
        jobs,
        causes,
        facts,
        short,
        gaps,
    }
}

/// Renders the whole report, with colours.
pub fn render(shown: &SelectedReport, style: &Style) -> String {
    let view = View::new(shown, style);
    let blocks = match (shown.all, fleet::is_fleet_report(&shown.report)) {
        (true, _) => usize::MAX,
        (false, true) => MAX_FLEET_BLOCKS,
        (false, false) => MAX_BLOCKS,
    };
    let made = |answer| document::of(&view, Extent { answer, blocks });
    if shown.all {
        return whole(&made(Most::ALL), style.width);
    }
    let mut document = made(MOST[0]);
    for most in &MOST[1..] {
        if screen(&document, style.width).lines() <= SCREEN {
            break;
        }
        document = made(*most);
    }
    whole(&document, style.width)
}

fn whole(document: &Document, width: usize) -> String {
    let mut page = screen(document, width);
    if !document.blocks.is_empty() {
        let has_a_kill = document
            .blocks
            .iter()
            .any(|one| one.label.starts_with("KILL"));
        heading(&mut page, if has_a_kill { "KILLS" } else { "DEATHS" });
        if let Some(legend) = document.legend {
            page.paragraph("  ", Colour::new(), legend, 2);
        }
    }
    for (number, one) in document.blocks.iter().enumerate() {
        if number > 0 {
            page.blank();
        }
        block(&mut page, one);
    }
    if let Some(line) = &document.left_out {
        page.blank();
        page.paragraph("", Colour::new(), line, 2);
    }
    for one in &document.sections {
        section(&mut page, one);
    }
    page.finish()
}

/// Writes the first screen.
fn screen(document: &Document, width: usize) -> Page {
    let mut page = Page::new(width);
    let plain = Colour::new();
    let answer: &Answer = &document.answer;
    for line in &document.head {
        page.paragraph("", plain, line, 2);
    }
    for (label, line) in &answer.jobs {
        let lead = match label.as_str() {
            "" => String::new(),
            label => format!("{label} "),
        };
        let failed = label.contains(" FAILED");
        let colour = if failed { plain.red() } else { plain };
        page.paragraph(&lead, colour.bold(), line, 2);
    }
    for one in &answer.causes {
        told(&mut page, one);
    }
    for line in &answer.close {
        page.paragraph("", plain, line, 2);
    }
    for line in &answer.gaps {
        page.paragraph("! ", plain.yellow().bold(), line, 2);
    }
    see(&mut page, answer);
    page
}

fn told(page: &mut Page, told: &Told) {
    let when = match told.when.as_str() {
        "" => String::new(),
        when => format!("{when}  "),
    };
    page.headline(
        &format!("{}  {when}", told.label),
        killed(&told.label),
        &told.text,
        &told.certainty,
        colour(told.sure),
    );
    for (label, text) in &told.facts {
        match *label {
            "fix" => page.bold_fact(label, text),
            _ => page.fact(label, text),
        }
    }
}

/// Writes the commands to type next, with what they show in a column if there is room.
fn see(page: &mut Page, answer: &Answer) {
    let longest = answer
        .see
        .iter()
        .map(|(command, _)| command.chars().count());
    let column = longest.max().unwrap_or_default();
    for (number, (command, what)) in answer.see.iter().enumerate() {
        let lead = if number == 0 { "See     " } else { "        " };
        let fits = column + 12 + what.chars().count() <= page.width();
        let text = if fits && !what.is_empty() {
            format!("{command:<column$}    {what}")
        } else {
            command.clone()
        };
        page.command(lead, Colour::new().dimmed(), &text);
    }
}

fn block(page: &mut Page, block: &Block) {
    page.headline(
        &format!("{}  {}  ", block.label, block.when),
        killed(&block.label),
        &block.headline,
        &block.certainty,
        colour(block.sure),
    );
    for one in &block.rows {
        row(page, one);
    }
}

fn row(page: &mut Page, row: &Row) {
    if let [only] = row.texts.as_slice() {
        if row.verbatim {
            page.item(row.label, only);
        } else {
            page.fact(row.label, only);
        }
        return;
    }
    for (number, text) in row.texts.iter().enumerate() {
        page.item(if number == 0 { row.label } else { "" }, text);
    }
}

fn section(page: &mut Page, section: &Section) {
    let text = format!("{} {}", section.heading.to_uppercase(), section.of);
    heading(page, text.trim_end());
    for (number, item) in (1..).zip(&section.items) {
        let lead = if section.numbered {
            format!("  {number}. ")
        } else {
            "  ".to_owned()
        };
        items(page, &lead, item);
    }
}

fn items(page: &mut Page, lead: &str, item: &Item) {
    page.paragraph(lead, Colour::new().bold(), &item.text, 4);
    for (label, text) in &item.parts {
        match *label {
            "" => page.paragraph("    ", Colour::new(), text, 6),
            "Fix" => page.paragraph("    Fix: ", Colour::new().bold(), text, 6),
            label => page.paragraph(&format!("    {label}: "), Colour::new().dimmed(), text, 6),
        }
    }
}

fn heading(page: &mut Page, text: &str) {
    page.blank();
    page.paragraph(text, Colour::new().bold(), "", 0);
}

/// Returns the colour of a label: a kill is red.
fn killed(label: &str) -> Colour {
    let plain = Colour::new().bold();
    if label.starts_with("KILL") {
        plain.red()
    } else {
        plain
    }
}

/// Returns the colour of a certainty: green is proven, and yellow asks for care.
fn colour(certainty: Certainty) -> Colour {
    match certainty {
        Certainty::Proven => Colour::new().green().bold(),
        Certainty::Inferred | Certainty::Unknown => Colour::new().yellow().bold(),
    }
}
