//! Judges the golden recordings of `tests/golden` again: reports must stay the same.
//!
//! Typed fields must be equal to those that an earlier version reported, except where
//! `tests/golden/differences.txt` lists a difference with its reason. Fields may be added.
//! Sentences are a snapshot, so that a change of wording is reviewed as old → new.

mod compare;
mod forecast;
mod listed;
mod replay;
mod screen;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{Read as _, copy},
    path::{Path, PathBuf},
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use flate2::read::GzDecoder;
use regex::Regex;
use serde_json::Value;

use crate::{judge::judge, recording, show::json};
use compare::{Difference, differences, sentences};
use listed::Listed;

/// Returns the folder of the golden recordings.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden")
}

/// Returns the names of the golden recordings, sorted.
pub(crate) fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("tests/golden");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .filter_map(|name| Some(name.to_str()?.strip_suffix(".raytrace.gz")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Unpacks a golden recording into a temporary file.
pub(crate) fn unpacked(name: &str) -> tempfile::NamedTempFile {
    let unpacked = tempfile::NamedTempFile::new().expect("a file");
    let packed = File::open(folder().join(format!("{name}.raytrace.gz"))).expect("a recording");
    let mut to = unpacked.as_file();
    copy(&mut GzDecoder::new(packed), &mut to).expect("gzip");
    unpacked
}

/// Reads a golden recording.
pub(crate) fn read(name: &str) -> recording::Read {
    recording::read(unpacked(name).path()).expect("a recording")
}

/// Reads the report that was stored with a golden recording.
fn kept(name: &str) -> Value {
    let packed = File::open(folder().join(format!("{name}.json.gz"))).expect("a report");
    let mut text = String::new();
    let mut unpacked = GzDecoder::new(packed);
    unpacked.read_to_string(&mut text).expect("gzip");
    serde_json::from_str(&text).expect("JSON")
}

/// Returns what `raytrace report --format json` says about it now.
fn now(name: &str) -> Value {
    let read = read(name);
    let mut report = judge(&read.events);
    report.notes.extend(read.warnings);
    let text = json::render(&report).expect("JSON");
    serde_json::from_str(&text).expect("JSON")
}

/// Reads the list of intended differences.
fn listed() -> Vec<Listed> {
    let list = fs::read_to_string(folder().join("differences.txt")).expect("the list");
    listed::parse(&list)
}

/// For each recording: its name, the stored report, and today's report.
static REPORTS: LazyLock<Vec<(String, Value, Value)>> =
    LazyLock::new(|| for_each(|name| (name.to_owned(), kept(name), now(name))));

/// Runs `work` for each golden recording, on all processors.
pub(crate) fn for_each<T: Send>(work: impl Fn(&str) -> T + Sync) -> Vec<T> {
    let (names, next) = (names(), AtomicUsize::new(0));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let some = || {
            let mine = || names.get(next.fetch_add(1, Ordering::Relaxed));
            std::iter::from_fn(mine)
                .map(|name| work(name))
                .collect::<Vec<T>>()
        };
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        let ended = started.into_iter().map(thread::ScopedJoinHandle::join);
        ended
            .flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

#[test]
fn typed_fields_match_the_stored_reports() {
    let expected = listed();
    let mut wrong = Vec::new();
    for (name, kept, now) in &*REPORTS {
        let found = differences(kept, now);
        let is_listed = |one: &&Difference| expected.iter().any(|line| line.is(name, &one.path));
        let unlisted = found.iter().filter(|one| !is_listed(one));
        wrong
            .extend(unlisted.map(|one| format!("{name} {}: {} → {}", one.path, one.kept, one.now)));
    }
    let shown = wrong.iter().take(60).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join("\n");
    assert!(
        wrong.is_empty(),
        "{} fields differ. What is meant is listed in tests/golden/differences.txt, with the reason:\n{shown}",
        wrong.len()
    );
    assert!(!REPORTS.is_empty(), "no golden recordings");
}

#[test]
fn sentences_match_the_reviewed_snapshot() {
    let shapes = [
        (r"\b[0-9a-f]{8,}\b", "ID"),
        (r"\d+(\.\d+)*", "#"),
        // The unit depends on the size.
        ("# (Ki|Mi|Gi)?B\\b", "# B"),
    ];
    let shapes = shapes.map(|(form, word)| (Regex::new(form).expect("a form"), word));
    let mut found = BTreeSet::new();
    for (_, _, now) in &*REPORTS {
        for (path, text) in sentences(now) {
            let mut text = text.to_owned();
            for (form, word) in &shapes {
                text = form.replace_all(&text, *word).into_owned();
            }
            found.insert(format!("{path}: {text}"));
        }
    }
    let found = found.into_iter().collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!("sentences", found);
}
