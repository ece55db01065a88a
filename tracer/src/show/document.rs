//! The report as one document: the answer first, then the first causes, then sections.
//!
//! Text, Markdown and HTML print this model, so that what one of them has, all have.

use std::collections::{BTreeSet, HashMap};

use crate::{
    ids::EventId,
    judge::report::{Certainty, Death},
    show::{
        alike,
        answer::{self, Answer, Most},
        brief, cascade,
        causes::{Cause, Entry},
        clause, evidence,
        facts::{self, Fact},
        findings::{self, FindingText},
        fleet, gpus, growth, header, held, in_use, jobs, minute, owners, rank, sanitize,
        shared_files, text_sources,
        view::View,
        words,
    },
};

/// The label of what would settle an unknown.
const MISSING: &str = "missing";
/// Maximum number of first causes of a group that have a line.
const MAX_ALIKE: usize = 20;

/// The heading of the deaths that are listed only if they are asked for. The page has a table of
/// all deaths instead.
pub const NORMAL_EXITS: &str = "Normal exits";

/// What `PROVEN` means.
const LEGEND: &str = "PROVEN is about who ended the process: the kernel showed it. Why may be known from a log alone.";

/// The whole report.
#[derive(Debug)]
pub struct Document {
    /// What was read, where the reader must know that first: texts, or several recordings.
    pub head: Vec<String>,
    /// The first screen.
    pub answer: Answer,
    /// What `PROVEN` means, if it stands anywhere.
    pub legend: Option<&'static str>,
    /// The first causes that have more to tell.
    pub blocks: Vec<Block>,
    /// Says how many first causes have no block.
    pub left_out: Option<String>,
    /// What was held, what grew, what to change, and so on.
    pub sections: Vec<Section>,
}

/// How much a document has.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Of the first screen.
    pub answer: Most,
    /// Maximum number of blocks.
    pub blocks: usize,
}

/// A first cause, or a group of similar ones.
#[derive(Debug)]
pub struct Block {
    /// `KILL 1`.
    pub label: String,
    /// Its time.
    pub when: String,
    /// Who ended what.
    pub headline: String,
    /// How sure that is.
    pub sure: Certainty,
    /// That in words.
    pub certainty: String,
    /// Its facts.
    pub rows: Vec<Row>,
}

/// One fact, or several under one label.
#[derive(Debug)]
pub struct Row {
    /// At most eight letters.
    pub label: &'static str,
    /// The texts.
    pub texts: Vec<String>,
    /// Whether they are words of others, or a table.
    pub verbatim: bool,
}

/// A part of the report with a heading.
#[derive(Debug)]
pub struct Section {
    /// `What was held at`.
    pub heading: &'static str,
    /// `KILL 1`, which belongs to the heading.
    pub of: String,
    /// Whether its items have numbers, which texts refer to.
    pub numbered: bool,
    /// Its items.
    pub items: Vec<Item>,
}

/// One sentence, with lines below it.
#[derive(Debug)]
pub struct Item {
    /// The sentence.
    pub text: String,
    /// Lines below it, each with its label, which may be empty.
    pub parts: Vec<(&'static str, String)>,
}

/// Makes the document of what is shown.
pub fn of(view: &View<'_>, extent: Extent) -> Document {
    let causes = view.shown.causes();
    let entries = rank::entries(view, causes.clone());
    let leading = answer::leading(view, &entries);
    let answer = answer::of(view, &causes, &entries, &leading, extent.answer);
    let with_facts = leading.into_iter().take(extent.answer.facts).collect();
    let head = if is_headed(view) {
        let texts = text_sources::lines(view).into_iter();
        let texts = texts.filter(|_| !fleet::is_fleet_report(&view.shown.report));
        header::recordings(view).into_iter().chain(texts).collect()
    } else {
        Vec::new()
    };
    let sections = sections(view, &causes);
    let (mut blocks, left_out) = blocks(view, entries, &with_facts, extent.blocks);
    refer_back(&answer, &mut blocks);
    let told = answer.causes.iter().map(|told| told.sure);
    let mut sure = told.chain(blocks.iter().map(|block| block.sure));
    let legend = sure.any(|sure| sure == Certainty::Proven).then_some(LEGEND);
    Document {
        head,
        answer,
        legend,
        blocks,
        left_out: (left_out > 0).then(|| rank::left_out(left_out)),
        sections,
    }
}

/// Returns whether what was read stands before the answer.
fn is_headed(view: &View<'_>) -> bool {
    let report = &view.shown.report;
    fleet::is_fleet_report(report) || !report.texts.is_empty()
}

fn is_full(view: &View<'_>) -> bool {
    view.shown.detail || view.shown.all
}

/// Returns the blocks of at most this many first causes, and how many have none. What the first
/// screen tells of one event is not told again.
fn blocks(
    view: &View<'_>,
    entries: Vec<Entry<'_>>,
    with_facts: &BTreeSet<EventId>,
    most: usize,
) -> (Vec<Block>, usize) {
    let (kept, left_out) = rank::most_important(entries, most);
    let full = is_full(view);
    let told = kept.iter().enumerate().filter_map(|(at, entry)| {
        let has_facts = !full && with_facts.contains(&entry.first().death.id);
        let mut earlier = kept[..at].iter();
        let again = !full && earlier.any(|first| alike::same(first, entry).is_some());
        let block = (!again).then(|| block(view, entry, has_facts))?;
        (full || at == 0 || !block.rows.is_empty()).then_some(block)
    });
    (told.collect(), left_out)
}

fn block(view: &View<'_>, entry: &Entry<'_>, has_facts: bool) -> Block {
    let death = entry.first().death;
    let (label, headline, least) = alike::heading(&entry.causes);
    let node = death.node.as_deref().map(sanitize::name);
    let node = node.map_or_else(String::new, |node| format!("  {node}"));
    Block {
        label,
        when: format!("{}{node}", view.death_time(death)),
        headline,
        sure: least.verdict.certainty,
        certainty: words::certainty(least),
        rows: match entry.causes.as_slice() {
            [cause] => rows(view, cause, has_facts),
            causes => rows_of_group(view, causes, has_facts),
        },
    }
}

/// Tells once what would settle an unknown, which may be five lines on a log to read. Later blocks
/// name the first cause where it stands.
fn refer_back(answer: &Answer, blocks: &mut [Block]) {
    let mut first: HashMap<String, String> = HashMap::new();
    for told in &answer.causes {
        let missing = told.facts.iter().filter(|(label, _)| *label == MISSING);
        first.extend(missing.map(|(_, text)| (text.clone(), told.label.clone())));
    }
    for block in blocks {
        let missing = block.rows.iter_mut().filter(|row| row.label == MISSING);
        for text in missing.flat_map(|row| &mut row.texts) {
            match first.get(text) {
                Some(label) if *label == block.label => {}
                Some(label) => {
                    let what = text.split(". ").next().unwrap_or_default();
                    *text = format!("{what}; see {label} for what to do");
                }
                None => {
                    first.insert(text.clone(), block.label.clone());
                }
            }
        }
    }
}

fn rows_of_group(view: &View<'_>, causes: &[Cause<'_>], has_facts: bool) -> Vec<Row> {
    let facts = alike::facts(view, causes).into_iter();
    let mut rows: Vec<Row> = facts.filter(|_| !has_facts).map(one).collect();
    rows.extend(several(
        "each",
        alike::lines(view, causes, MAX_ALIKE),
        false,
    ));
    rows
}

fn rows(view: &View<'_>, cause: &Cause<'_>, has_facts: bool) -> Vec<Row> {
    let death = cause.death;
    let detail = view.shown.detail;
    let facts = if is_full(view) {
        facts::all(view, death)
    } else {
        let mut told = first_facts(view, death, has_facts);
        told.extend(facts::short(view, death, has_facts));
        told
    };
    let mut rows = Vec::new();
    for fact in facts.into_iter().filter(|(_, text)| !text.is_empty()) {
        match rows.last_mut() {
            Some(Row { label, texts, .. }) if fact.0 == minute::ROW && *label == "minute" => {
                texts.push(fact.1);
            }
            _ => rows.push(one(fact)),
        }
    }
    if detail {
        rows.extend(facts::identity(view, death).into_iter().map(one));
    }
    if is_full(view) {
        rows.extend(several("evidence", evidence::lines(view, cause), true));
    }
    rows.extend(several("cascade", cascade::lines(view, cause), false));
    rows.extend(jobs::ended_by(view, cause).map(|job| {
        let (probably, name) = (jobs::probably(job), jobs::name(view, job));
        one(("ended", format!("{probably}job {name}: {}", jobs::why(job))))
    }));
    let then = death.then.as_ref();
    rows.extend(then.map(|then| one(("then", clause::recovery(then)))));
    rows.extend(stack(death).filter(|_| detail));
    rows
}

/// Returns why a first cause came about, unless the first screen says it.
fn first_facts(view: &View<'_>, death: &Death, has_facts: bool) -> Vec<Fact> {
    match (has_facts, death.is_memory_kill()) {
        (true, _) => Vec::new(),
        (false, true) => vec![("why", brief::why(view, death))],
        (false, false) => facts::shared(view, death),
    }
}

fn stack(death: &Death) -> Option<Row> {
    let frames = death.activity.stack_at_death.as_deref()?.lines();
    let frames = frames.map(|frame| sanitize::line(frame, sanitize::EVIDENCE));
    several("stack", frames.collect(), true)
}

fn one((label, text): Fact) -> Row {
    Row {
        label,
        texts: vec![text],
        verbatim: label == "minute",
    }
}

fn several(label: &'static str, texts: Vec<String>, verbatim: bool) -> Option<Row> {
    (!texts.is_empty()).then_some(Row {
        label,
        texts,
        verbatim,
    })
}

/// Returns all sections with something to say.
fn sections(view: &View<'_>, causes: &[Cause<'_>]) -> Vec<Section> {
    let held = held::at_kills(view);
    let grown = grown(view, &held);
    let mut all: Vec<Section> = held
        .into_iter()
        .map(|held| Section {
            of: held.kill,
            ..section("What was held at", items(held.classes))
        })
        .collect();
    all.push(section("What grew", grown));
    let (change, no_cause): (Vec<_>, Vec<_>) = findings::texts(view)
        .into_iter()
        .partition(FindingText::matters);
    all.push(Section {
        numbered: true,
        ..section("What to change", found(view, change))
    });
    all.push(section("Not the problem", found(view, no_cause)));
    all.push(section("Also", lines(findings::notes(view))));
    if view.shown.lists_normal_exits {
        all.push(section(NORMAL_EXITS, lines(normal_exits(view))));
    }
    all.push(section("Memory", memory(view)));
    if !is_headed(view) {
        all.push(section("Recording", lines(recording(view, causes))));
    }
    all.retain(|section| !section.items.is_empty());
    all
}

fn section(heading: &'static str, items: Vec<Item>) -> Section {
    Section {
        heading,
        of: String::new(),
        numbered: false,
        items,
    }
}

fn items(texts: Vec<(String, Vec<String>)>) -> Vec<Item> {
    let item = |(text, below): (String, Vec<String>)| Item {
        text,
        parts: below.into_iter().map(|line| ("", line)).collect(),
    };
    texts.into_iter().map(item).collect()
}

fn lines(texts: Vec<String>) -> Vec<Item> {
    let texts = texts.into_iter().map(|text| (text, Vec::new()));
    items(texts.collect())
}

fn found(view: &View<'_>, texts: Vec<FindingText<'_>>) -> Vec<Item> {
    let full = is_full(view);
    let item = |told: FindingText<'_>| {
        let figures = told.finding.evidence.iter().filter(|_| full);
        let figures = figures.map(|text| ("", sanitize::line(text, sanitize::EVIDENCE)));
        Item {
            text: told.summary,
            parts: told.parts.into_iter().chain(figures).collect(),
        }
    };
    texts.into_iter().map(item).collect()
}

/// Returns which lines of Python grew the memory: those of classes that had more processes than
/// lived at the kill, or all without such a kill or with `--all`.
fn grown(view: &View<'_>, held: &[held::Held]) -> Vec<Item> {
    let mut grown = if held.is_empty() || view.shown.all {
        growth::lines(view)
    } else {
        let more: Vec<String> = held.iter().flat_map(|one| one.more.clone()).collect();
        growth::lines_of(view, &more)
    };
    let unread = growth::unread(view).into_iter();
    grown.extend(unread.map(|line| (line, Vec::new())));
    items(grown)
}

fn normal_exits(view: &View<'_>) -> Vec<String> {
    let deaths = view.shown.report.deaths.iter();
    let exits = deaths.filter(|death| !death.listed);
    let line = |death: &Death| {
        let time = view.death_time(death);
        format!("{time} {} {}", words::subject(death), words::clause(death))
    };
    exits.map(line).collect()
}

/// Returns what was in use at most: by class, by all processes, shared memory, and GPUs.
fn memory(view: &View<'_>) -> Vec<Item> {
    let report = &view.shown.report;
    let sum = report.in_use.as_ref().filter(|_| is_full(view));
    let lines_of = [
        (in_use::LABEL, sum.map(in_use::line)),
        ("Shared memory", shared_files::line(report)),
        ("GPUs", gpus::line(report)),
    ];
    let told = lines_of.into_iter();
    let told = told.filter_map(|(label, line)| Some(format!("{label}: {}", line?)));
    let peaks = owners::lines(report).into_iter();
    let peaks = peaks.map(|(label, line)| format!("{label}: {line}"));
    lines(peaks.chain(told).collect())
}

/// Returns where and how it was recorded, and how many deaths there are.
fn recording(view: &View<'_>, causes: &[Cause<'_>]) -> Vec<String> {
    let mut lines = header::recordings(view);
    if causes.iter().any(|cause| cause.death.is_memory_kill()) {
        lines.extend(header::counts(view, causes));
    }
    lines
}
