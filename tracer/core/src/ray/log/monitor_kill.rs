//! Parses the memory monitor's kill record, in its five generations.
//!
//! - 2.0 and 2.1 `System memory low at node with IP A. Used memory (UGB) / total capacity (TGB) (F)
//!   exceeds threshold H, killing latest task with name N and actor|task ID I …`, in one line
//! - ≤ 2.54 `Killing worker with task …`, then `Memory on the node (…) where the task|lease (…,
//!   name=N, pid=P, memory used=XGB) was running was U / T (F), which exceeds the memory usage
//!   threshold of H. Ray killed this worker (ID: W) because …`
//! - 2.55 `Killing N worker(s), kill details: … Ray killed N worker(s) based on the killing policy:
//!   [(Task: …, pid=P, actual memory used=XGB, worker ID=W)]; …` in one line: every listed worker
//!   is killed
//! - 2.56 the same with `Considered workers: [; Selected to kill: (…)`: only the selected workers
//!   are killed
//! - 2.57–2.60 as 2.56, over many lines
//!
//! Two readers share this grammar. The log parser has a whole record ([`parse`]). `explain` has
//! texts that may be cut anywhere, shuffled or mixed with others, and asks line by line (the rest).
//!
//! Sources: worker lists of `worker_killing_policy*.cc` and `node_manager.cc` of those versions,
//! and real logs of each.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;

use super::line::{id_field, number_field, text_field};
use crate::{
    ids::{Bytes, HexId, Pid},
    ray::{
        facts::{Candidate, MonitorKill, TopUser},
        version::Version,
        words::pattern,
    },
};

/// ≤ 2.54: the beginning of a record, and of its line about the node, which names the worker.
const ONE_BEGINS: &str = "Killing worker with task";
const NODE_BEGINS: &str = "Memory on the node (";
/// 2.0 and 2.1: words of the only line.
const NEWEST_BEGINS: &str = "System memory low at node with IP ";
/// ≥ 2.55: the beginning of a record.
const MANY_BEGIN: &str = "worker(s), kill details";
/// ≥ 2.55: texts before a chosen worker, in each listed worker, and before a list of killed workers
/// only.
const CHOSEN: &str = "Selected to kill: (";
const LISTS: &str = "actual memory used=";
const ALL_KILLED: &str = "based on the killing policy: [(";
/// The text before figures in bytes.
const EXACTLY: &str = "exceeded threshold of ";
/// A column in the head of the table of the largest processes, `PID MEM(GB) COMMAND`, between tabs
/// or any number of blanks. Ray prints it only with a kill for memory.
const TABLE: &str = "MEM(GB)";

/// A pattern for the text before a row or the head of that table, however the lines are wrapped.
pub const TABLE_PATTERN: &str = r"(?i:top \d+ memory users|mem\(gb\)\s+command)";
/// The advice at the end of a record, by version.
const ADVICE: &str = "Refer to the documentation";
const SUGGESTIONS: &str = "suggestions:";
/// What a worker's death says about it from 2.1 to 2.60, and what a driver prints.
const FOR_MEMORY: &str = "killed due to the node running low on memory";

/// The newest Ray whose messages the grammars were made with. `cargo xtask canary` looks for them
/// in newer versions.
pub const NEWEST: Version = Version(2, 60);

/// The first and the last minor version of Ray 2.
pub type MinorRange = (u32, u32);

/// Words of kill records, and of related messages of Ray, that only some versions use.
const WORDINGS: [(&str, MinorRange); 9] = [
    ("killing latest task with name ", (0, 1)),
    ("where the task was running was", (1, 1)),
    ("where the task (", (2, 49)),
    ("where the lease (", (51, 54)),
    ("There are some potential root causes", (0, 53)),
    ("Some common causes include", (54, 60)),
    ("consider enabling resource isolation", (58, 60)),
    ("Considered workers: [;", (56, 56)),
    ("GB used / ", (57, 60)),
];

/// Returns the versions that use the words of a line. Some lines have words of several.
pub fn wording_versions(line: &str) -> impl Iterator<Item = MinorRange> {
    let used = WORDINGS
        .iter()
        .filter(move |(words, _)| line.contains(words));
    used.map(|(_, versions)| *versions)
}

/// Every line that opens or belongs to a record contains one of these texts.
pub const KEYWORDS: [&str; 9] = [
    TABLE,
    NEWEST_BEGINS,
    ONE_BEGINS,
    NODE_BEGINS,
    "memory used=",
    "low on memory",
    CHOSEN,
    MANY_BEGIN,
    EXACTLY,
];

/// The beginning of a long sentence, and a check that the text from there on contains its point.
pub type Sentence = (&'static str, fn(&str) -> bool);

/// The long sentences, which a terminal may have broken.
pub static SENTENCES: [Sentence; 3] = [
    (NEWEST_BEGINS, |text| text.contains(NEWEST_ENDS)),
    (NODE_BEGINS, |text| {
        if text.contains("where the ") {
            has_whole_id(text, KILLED)
        } else {
            text.contains(") was ")
        }
    }),
    (CHOSEN, |text| has_whole_id(text, "worker ID=")),
];

/// The text before the worker's id in a line about the node.
const KILLED: &str = "Ray killed this worker (ID: ";

/// Whether a whole id follows `words`. An id at the end of a line, as in `…worker ID=2abec8`, may
/// continue in the next line.
fn has_whole_id(text: &str, words: &str) -> bool {
    id_field(text, words).is_some_and(|id| id.has_digits(HexId::WORKER_DIGITS))
}

/// Whether a text opens a record, of any version.
pub(crate) fn begins(message: &str) -> bool {
    message.starts_with(ONE_BEGINS)
        || (message.starts_with("Killing ") && message.contains(MANY_BEGIN))
}

/// Whether a line, which may be cut, opens a record or its part about the node.
pub fn opens(line: &str) -> bool {
    is_node_line(line) || has_kill_details(line) || line.starts_with(ONE_BEGINS)
}

/// ≤ 2.54: whether a line is the one about the node.
pub fn is_node_line(line: &str) -> bool {
    line.contains(NODE_BEGINS)
}

/// ≥ 2.55: whether a line says that workers are killed.
pub fn has_kill_details(line: &str) -> bool {
    line.contains("kill details:")
}

/// Whether the figures of a line are exact.
pub fn is_exact(line: &str) -> bool {
    line.contains(EXACTLY)
}

/// Whether a line contains the head of the table of the largest processes.
pub fn has_table_head(line: &str) -> bool {
    line.split_once(TABLE).is_some_and(|(before, behind)| {
        before.trim_end().ends_with("PID") && behind.trim_start().starts_with("COMMAND")
    })
}

/// Whether a line is a row of the table of memory users, or a record that contains it. The table
/// lists all processes of the node, also those of other people.
pub fn is_table_row(line: &str) -> bool {
    line.contains("memory users: PID") || !top(line).is_empty() || row(line).is_some()
}

/// Whether a line is the advice that ends a record.
pub fn is_advice(line: &str) -> bool {
    line.starts_with(ADVICE)
}

/// Whether Ray says that its memory monitor killed.
pub fn killed_for_memory(text: &str) -> bool {
    text.contains(FOR_MEMORY)
}

/// Whether a record on one line is complete: it ends with the advice.
pub(super) fn complete(text: &str) -> bool {
    text.contains(SUGGESTIONS) || text.contains(ADVICE)
}

/// Whether this line is the last of a record.
pub(super) fn ends(line: &str) -> bool {
    line.trim_start().starts_with(SUGGESTIONS) || line.starts_with(ADVICE)
}

/// ≤ 2.54: the one worker of a record, with or without its actor.
static ONE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"where the (?:task|lease|actor) \(([^()]*?)(?:, )?name=(.{0,200}?), pid=(\d+), memory used=([\d.]+)\s?GB\)",
    )
});
/// 2.1: a record without name and pid.
static NAMELESS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"where the task was running was [\d.]+GB"));
/// 2.0 and 2.1: the newest task, and the figures.
static NEWEST_TASK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"IP (\S+)\. Used memory \(([\d.]+)GB\) / total capacity \(([\d.]+)GB\) \([\d.]+\) exceeds threshold (\d(?:\.\d+)?), killing latest task with name (.+) and (?:actor|task) ID (\w+) to avoid running out of memory",
    )
});
/// The end of that sentence.
const NEWEST_ENDS: &str = " to avoid running out of memory";
/// ≥ 2.55: the beginning of one of the listed workers, and the end of its text. The fields between
/// them include the task's name, which may contain parentheses: `MapWorker(MapBatches(f)).submit`.
static LISTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(Selected to kill: )?\((?:Task: job ID=|Actor\(([0-9a-f]+)\): job ID=|Worker with no lease granted: )",
    )
});
static LISTED_END: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"pid=(\d+), actual memory used=([\d.]+)GB, worker ID=([0-9a-f]+)\)"));
/// The longest text of the fields before the pid. It is checked in code: a pattern that counts has
/// a state for each character.
const MAX_FIELDS: usize = 600;
/// A row of the largest processes: pid, GiB and title, separated by tabs.
static TOP: LazyLock<Regex> = LazyLock::new(|| pattern(r"(\d+)\t(\d+\.\d+)\t"));
/// `was 3.95GB / 23.54GB (0.167)`, 2.60: `was 2.06GB used / 4.00GB limit (0.515)`.
static USED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"was ([\d.]+)GB(?: used)? / ([\d.]+)GB(?: limit)?(?: \([\d.]+\))?"));
/// `exceeds the memory usage threshold of 0.1666`
static FRACTION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"memory usage threshold of (\d(?:\.\d+)?)"));
/// `Memory usage 2198269952B exceeded threshold of 2147483648B (50.0% of 4294967296B limit)`
static EXACT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"Memory usage (\d+)B exceeded threshold of (\d+)B(?: \([\d.]+% of (\d+)B)?")
});
static NODE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"Memory on the node \(IP: ([^,)\s]{1,64}), ID: ([0-9a-f]{56})\)"));

/// Ids of leases, tasks and nodes in a record. Those of the killed workers are left in.
static LONG_ID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(lease ID[=:] ?|task ID: |, ID: )[0-9a-f]{32,64}\b"));

/// How many characters of a title are kept.
const MAX_TITLE: usize = 200;

/// The figures of a record.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    /// What the monitor counted, exact where the record says bytes.
    pub used: Option<Bytes>,
    /// Its threshold.
    pub threshold: Option<Bytes>,
    /// What it takes as the machine's memory.
    pub total: Option<Bytes>,
}

/// Returns the figures in a text.
pub fn figures(text: &str) -> Figures {
    // Most lines of a record have no figures, and searching for these words is faster than matching
    // the patterns.
    let rounded = text.contains("GB") && text.contains("was ");
    if !rounded && !text.contains("threshold of ") {
        return Figures::default();
    }
    let rounded = USED.captures(text);
    let exact = EXACT.captures(text);
    let total = rounded.as_ref().and_then(|found| gigabytes(&found[2]));
    let fraction = FRACTION
        .captures(text)
        .and_then(|found| found[1].parse::<f64>().ok());
    let exact_bytes = |group: usize| {
        let found = exact.as_ref()?.get(group)?;
        found.as_str().parse().ok().map(Bytes)
    };
    let scaled_total = || Some(total?.times(fraction?));
    Figures {
        used: exact_bytes(1).or_else(|| rounded.as_ref().and_then(|found| gigabytes(&found[1]))),
        threshold: exact_bytes(2).or_else(scaled_total),
        total: exact_bytes(3).or(total),
    }
}

/// Returns what a text says was in use, rounded as Ray prints it: `was 5.72GB used / 8.00GB limit`.
pub fn rounded(text: &str) -> Option<Bytes> {
    let has_it = text.contains("GB") && text.contains("was ");
    has_it
        .then(|| USED.captures(text))
        .flatten()
        .and_then(|found| gigabytes(&found[1]))
}

/// Returns the address and the id of the node that a record is about.
pub fn node(text: &str) -> Option<(String, HexId)> {
    if !is_node_line(text) {
        return None;
    }
    let found = NODE.captures(text)?;
    Some((found[1].to_owned(), HexId::parse(&found[2])?))
}

/// 2.0 and 2.1: returns the address of the node, the worker that ran the newest task, and the
/// figures.
pub fn newest(text: &str) -> Option<(String, Candidate, Figures)> {
    let found = text
        .contains(NEWEST_BEGINS)
        .then(|| NEWEST_TASK.captures(text))??;
    let total = gigabytes(&found[3]);
    let figures = Figures {
        used: gigabytes(&found[2]),
        threshold: total
            .zip(found[4].parse().ok())
            .map(|(total, part)| total.times(part)),
        total,
    };
    let actor_id = HexId::parse(&found[6]).filter(|id| id.has_digits(HexId::ACTOR_DIGITS));
    let candidate = Candidate {
        actor_id,
        task_name: Some(found[5].to_owned()),
        ..Candidate::default()
    };
    Some((found[1].to_owned(), candidate, figures))
}

/// ≤ 2.54: returns the one worker of a record.
pub fn one(text: &str) -> Option<Candidate> {
    let worker_id = id_field(text, KILLED);
    let Some(found) = ONE.captures(text) else {
        let known = NAMELESS.is_match(text) && worker_id.is_some();
        return known.then(|| Candidate {
            worker_id,
            ..Candidate::default()
        });
    };
    Some(Candidate {
        pid: found[3].parse().ok().map(Pid),
        worker_id,
        job_id: None,
        actor_id: id_field(&found[1], "actor ID: "),
        task_name: Some(found[2].to_owned()),
        used: gigabytes(&found[4]),
    })
}

/// ≥ 2.55: returns the workers that a text lists, each with whether it was killed. In a list
/// without marks, workers were killed only if the list says so itself.
pub fn listed(text: &str) -> Vec<(Candidate, bool)> {
    if !text.contains(LISTS) {
        return Vec::new();
    }
    let all = text.contains(ALL_KILLED) && !text.contains(CHOSEN.trim_end_matches([' ', '(']));
    let mut found = LISTED.captures_iter(text).peekable();
    let mut listed = Vec::new();
    while let Some(begin) = found.next() {
        let Some(fields_at) = begin.get(0).map(|begin| begin.end()) else {
            continue;
        };
        let next = found.peek().and_then(|next| next.get(0));
        let fields = &text[fields_at..next.map_or(text.len(), |next| next.start())];
        let actor_id = begin.get(2).and_then(|id| HexId::parse(id.as_str()));
        let of_job = begin[0].ends_with("job ID=");
        listed.extend(candidate(fields, of_job).map(|one| {
            let one = Candidate { actor_id, ..one };
            (one, all || begin.get(1).is_some())
        }));
    }
    listed
}

/// Parses the fields of a listed worker. Those of a job begin with the job's id.
fn candidate(fields: &str, of_job: bool) -> Option<Candidate> {
    let end = LISTED_END.captures(fields)?;
    let fields = &fields[..end.get(0)?.start()];
    if fields.chars().nth(MAX_FIELDS).is_some() {
        return None;
    }
    let job = of_job.then(|| fields.split(',').next()).flatten();
    Some(Candidate {
        pid: end[1].parse().ok().map(Pid),
        worker_id: HexId::parse(&end[3]),
        job_id: job.and_then(HexId::parse),
        actor_id: None,
        task_name: text_field(fields, "task name=", ", required")
            .map(|name| name.trim_end_matches(", ").to_owned()),
        used: gigabytes(&end[2]),
    })
}

/// Returns the largest processes that a text lists.
pub fn top(text: &str) -> Vec<TopUser> {
    let mut users = Vec::new();
    if !text.contains('\t') {
        return users;
    }
    let mut rows = TOP.captures_iter(text).peekable();
    while let Some(row) = rows.next() {
        let Some(all) = row.get(0) else { continue };
        let end = rows
            .peek()
            .and_then(|next| next.get(0))
            .map_or(text.len(), |next| next.start());
        let (Ok(pid), Some(used)) = (row[1].parse(), gigabytes(&row[2])) else {
            continue;
        };
        users.push(TopUser {
            pid: Pid(pid),
            used,
            command: title(&text[all.end()..end]),
        });
    }
    users
}

/// Parses a single row of the table, even where its tabs have become spaces.
pub fn row(text: &str) -> Option<TopUser> {
    let mut words = text.split_whitespace();
    let pid = words.next()?.parse().ok()?;
    let used = words.next().filter(|used| used.contains('.'))?;
    let command = words.collect::<Vec<_>>().join(" ");
    let used = gigabytes(used)?;
    (!command.is_empty()).then(|| TopUser {
        pid: Pid(pid),
        used,
        command: title(&command),
    })
}

/// Returns a line of a record without the long ids that stand before its names and figures.
pub fn without_ids(line: &str) -> Cow<'_, str> {
    LONG_ID.replace_all(line, "$1…")
}

/// Returns a title without the text after its row. Some programs print a record in one line, with
/// ` | ` between its lines.
fn title(text: &str) -> String {
    let mut title = text.split('\n').next().unwrap_or("");
    for advice in [ADVICE, SUGGESTIONS] {
        title = title.split(advice).next().unwrap_or(title);
    }
    let title = title.trim_end_matches([',', ';', ' ', '\r', '|']);
    title.chars().take(MAX_TITLE).collect()
}

/// Parses a whole record. A record that names no worker in known words has nobody selected: it is
/// counted, but no death is explained by it.
pub(super) fn parse(text: &str) -> MonitorKill {
    let body = text.split("Top 10 memory users").next().unwrap_or(text);
    let (selected, spared) = if text.starts_with(ONE_BEGINS) {
        (whole_one(text, body).into_iter().collect(), Vec::new())
    } else {
        split(listed(body))
    };
    let figures = figures(body);
    MonitorKill {
        selected,
        spared,
        used: figures.used,
        threshold: figures.threshold,
        total: figures.total,
        node_id: id_field(body, ", ID: "),
        policy: text_field(body, ") because ", ";")
            .map(|words| words.trim().chars().take(200).collect()),
        top: top(text),
    }
}

/// ≤ 2.54: returns the worker of a record, with what the record's first line says about it.
fn whole_one(text: &str, body: &str) -> Option<Candidate> {
    let one = one(body)?;
    let name = text_field(text, "task_name=", ", ").map(str::to_owned);
    Some(Candidate {
        job_id: id_field(text, "job_id="),
        task_name: one.task_name.or(name),
        ..one
    })
}

fn split(listed: Vec<(Candidate, bool)>) -> (Vec<Candidate>, Vec<Candidate>) {
    let (selected, spared): (Vec<_>, Vec<_>) = listed.into_iter().partition(|(_, killed)| *killed);
    let without_mark = |of: Vec<(Candidate, bool)>| of.into_iter().map(|(one, _)| one).collect();
    (without_mark(selected), without_mark(spared))
}

/// Parses a number of "GB". Ray means GiB, rounded to 0.01.
fn gigabytes(text: &str) -> Option<Bytes> {
    Some(Bytes(1 << 30).times(text.parse().ok()?))
}

/// ≤ 2.54: parses `Worker evicted and process killed to reclaim memory. worker pid: N …`.
pub(super) fn evicted(message: &str) -> Option<(Pid, Option<HexId>)> {
    let pid = number_field(message, "worker pid: ")?;
    Some((Pid(pid), id_field(message, "worker_id=")))
}
