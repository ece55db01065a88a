//! The memory monitor's kill record, in its four generations.
//!
//! - ≤ 2.54 `Killing worker with task …`, then `Memory on the node (…) where the task|lease (…, name=N, pid=P, memory used=XGB) was
//!   running was U / T (F), which exceeds the memory usage threshold of H. Ray killed this worker (ID: W) because …`
//! - 2.55 `Killing N worker(s), kill details: … Ray killed N worker(s) based on the killing policy: [(Task: …, pid=P, actual memory
//!   used=XGB, worker ID=W)]; …` in one line: every listed one is killed
//! - 2.56 the same with `Considered workers: [; Selected to kill: (…)`: only the selected are killed
//! - 2.57–2.60 as 2.56, over many lines
//!
//! Sources: worker lists of `worker_killing_policy*.cc` and `node_manager.cc` of those versions, and real logs of each.

use std::sync::LazyLock;

use regex::Regex;

use super::line::{id_field, number_field, text_field};
use crate::{
    ids::{Bytes, HexId, Pid},
    ray::facts::{Candidate, MonitorKill, TopUser},
};

pub(super) fn begins(message: &str) -> bool {
    message.starts_with("Killing worker with task")
        || (message.starts_with("Killing ") && message.contains(" worker(s), kill details:"))
}

/// Whether a record of one line is whole: the advice stands at its end.
pub(super) fn complete(text: &str) -> bool {
    text.contains("suggestions:") || text.contains("Refer to the documentation on how to address")
}

/// Whether this line is the last of a record.
pub(super) fn ends(line: &str) -> bool {
    line.trim_start().starts_with("suggestions:")
        || line.starts_with("Refer to the documentation on how to address")
}

/// A candidate: `…pid=P, memory used=0.66GB…` or `…pid=P, actual memory used=0.70GB, worker ID=W)`.
static CANDIDATE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"pid=(\d+), (?:actual )?memory used=([\d.]+)\s?GB(?:, worker ID=([0-9a-f]+))?")
});
/// Pid, GiB and title, separated by tabs.
static TOP: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:^|[;\n] ?)(\d+)\t([\d.]+)\t([^;\n]*)"));
/// `was 3.95GB / 23.54GB (0.167)`, 2.60: `was 2.06GB used / 4.00GB limit`.
static USED: LazyLock<Regex> = LazyLock::new(|| pattern(r"was ([\d.]+)GB(?: used)? / ([\d.]+)GB"));
/// `exceeds the memory usage threshold of 0.1666`
static FRACTION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"memory usage threshold of ([\d.]*\d)"));
/// `Memory usage 2198269952B exceeded threshold of 2147483648B (50.0% of 4294967296B limit)`
static EXACT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(\d+)B exceeded threshold of (\d+)B \([\d.]+% of (\d+)B"));

#[expect(
    clippy::expect_used,
    reason = "the patterns are literals and are compiled in tests"
)]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// The record, if it names at least one worker.
pub(super) fn parse(text: &str) -> Option<MonitorKill> {
    let body = text.split("Top 10 memory users").next().unwrap_or(text);
    let (selected, spared) = if text.starts_with("Killing worker with task") {
        (one_worker(text, body).into_iter().collect(), Vec::new())
    } else {
        candidates(body)
    };
    if selected.is_empty() {
        return None;
    }
    let rounded = USED.captures(body);
    let exact = EXACT.captures(body);
    let total = gigabytes(rounded.as_ref().and_then(|found| found.get(2)));
    let fraction = FRACTION
        .captures(body)
        .and_then(|found| found[1].parse::<f64>().ok());
    let exact_bytes = |group: usize| {
        exact
            .as_ref()
            .and_then(|found| found[group].parse().ok())
            .map(Bytes)
    };
    Some(MonitorKill {
        selected,
        spared,
        used: exact_bytes(1).or_else(|| gigabytes(rounded.as_ref().and_then(|found| found.get(1)))),
        threshold: exact_bytes(2).or_else(|| Some(scaled(total?, fraction?))),
        total: exact_bytes(3).or(total),
        node_id: id_field(body, ", ID: "),
        policy: text_field(body, ") because ", ";")
            .map(|words| words.trim().chars().take(200).collect()),
        top: TOP
            .captures_iter(text)
            .filter_map(|found| top_user(&found))
            .collect(),
    })
}

/// ≤ 2.54: the one worker of the record.
fn one_worker(text: &str, body: &str) -> Option<Candidate> {
    let found = CANDIDATE.captures(body)?;
    let name =
        text_field(body, ", name=", ", pid=").or_else(|| text_field(text, "task_name=", ", "));
    Some(Candidate {
        pid: found[1].parse().ok().map(Pid),
        worker_id: id_field(body, "Ray killed this worker (ID: "),
        job_id: id_field(text, "job_id="),
        actor_id: id_field(body, "(actor ID: "),
        task_name: name.map(str::to_owned),
        used: gigabytes(found.get(2)),
    })
}

/// ≥ 2.55: the selected and the spared.
fn candidates(body: &str) -> (Vec<Candidate>, Vec<Candidate>) {
    let marked = body.contains("Selected to kill:");
    let mut selected = Vec::new();
    let mut spared = Vec::new();
    let mut from = 0;
    for found in CANDIDATE.captures_iter(body) {
        let Some(all) = found.get(0) else { continue };
        // What belongs to this candidate begins behind the one before.
        let own = &body[from..all.start()];
        from = all.end();
        let candidate = Candidate {
            pid: found[1].parse().ok().map(Pid),
            worker_id: found.get(3).and_then(|id| HexId::parse(id.as_str())),
            job_id: id_field(own, "job ID="),
            actor_id: id_field(own, "(Actor("),
            task_name: text_field(own, "task name=", ", required").map(str::to_owned),
            used: gigabytes(found.get(2)),
        };
        if !marked || own.contains("Selected to kill:") {
            selected.push(candidate);
        } else {
            spared.push(candidate);
        }
    }
    (selected, spared)
}

fn top_user(found: &regex::Captures<'_>) -> Option<TopUser> {
    Some(TopUser {
        pid: Pid(found[1].parse().ok()?),
        used: gigabytes(found.get(2))?,
        command: found[3].trim_end().to_owned(),
    })
}

/// Ray prints "GB" and means GiB, rounded to 0.01.
fn gigabytes(found: Option<regex::Match<'_>>) -> Option<Bytes> {
    let gib: f64 = found?.as_str().parse().ok()?;
    Some(scaled(Bytes(1 << 30), gib))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "memory sizes are far below 2^53 and not negative"
)]
fn scaled(bytes: Bytes, factor: f64) -> Bytes {
    Bytes((bytes.0 as f64 * factor).max(0.0) as u64)
}

/// ≤ 2.54: `Worker evicted and process killed to reclaim memory. worker pid: N …`.
pub(super) fn evicted(message: &str) -> Option<(Pid, Option<HexId>)> {
    let pid = number_field(message, "worker pid: ")?;
    Some((Pid(pid), id_field(message, "worker_id=")))
}
