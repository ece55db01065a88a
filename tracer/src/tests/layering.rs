//! Tests that folders use only what the tables here allow, read from the source.
//!
//! Everything that a folder may use is in its row. Rows are ordered from the bottom layer to the
//! top: a folder uses only folders in rows above its own.

mod cycles;
mod sources;

use std::collections::BTreeSet;

/// Each folder or file below `src` and what it may use. A row uses only rows above it.
const USES: [(&str, &[&str]); 28] = [
    ("ids", &[]),
    // Words of other programs. Who reads them gives them a meaning.
    ("catalogue", &[]),
    ("path", &[]),
    ("phrase", &[]),
    ("signals", &[]),
    ("size", &["ids"]),
    ("cgroup_path", &[]),
    ("budget", &["ids"]),
    ("ray", &["ids"]),
    // Facts from logs and roles are a part of events.
    ("event", &["ids", "ray"]),
    ("python", &["event"]),
    ("kernel_log", &["event", "ids"]),
    // The crate `proc`, which reads `/proc`.
    ("proc", &["cgroup_path", "event", "ids", "ray"]),
    ("stacks", &["event", "ids", "path", "python"]),
    (
        "observe",
        &[
            "budget",
            "cgroup_path",
            "event",
            "ids",
            "kernel_log",
            "path",
            "ray",
        ],
    ),
    ("recording", &["event", "ids", "observe", "ray"]),
    (
        "judge",
        &[
            "cgroup_path",
            "event",
            "ids",
            "kernel_log",
            "path",
            "phrase",
            "python",
            "ray",
            "signals",
        ],
    ),
    ("slice", &["cgroup_path", "event", "ids", "judge", "ray"]),
    (
        "clause",
        &["event", "ids", "judge", "path", "signals", "size"],
    ),
    ("contract", &["clause", "ids", "judge"]),
    // For tests only.
    ("schema", &["contract", "ids", "judge"]),
    (
        "explain",
        &[
            "catalogue",
            "event",
            "ids",
            "judge",
            "kernel_log",
            "path",
            "ray",
            "signals",
        ],
    ),
    // Only for the format of a row.
    (
        "show",
        &[
            "cgroup_path",
            "event",
            "ids",
            "judge",
            "path",
            "phrase",
            "ray",
            "recording",
            "signals",
        ],
    ),
    ("deaths", &["ids", "judge"]),
    (
        "collect",
        &[
            "budget",
            "cgroup_path",
            "deaths",
            "event",
            "ids",
            "judge",
            "observe",
            "path",
            "phrase",
            "ray",
            "recording",
        ],
    ),
    (
        "command",
        &[
            "cgroup_path",
            "collect",
            "deaths",
            "event",
            "explain",
            "ids",
            "judge",
            "observe",
            "ray",
            "recording",
            "show",
            "slice",
        ],
    ),
    ("cli", &["command"]),
    ("main", &[]),
];

/// The layers of the judge: what a module may use of the other ones.
const LAYERS: [(&str, &[&str]); 2] = [
    // The tables may use the types of the report, and the warnings.
    ("state", &["cause", "missing", "limit_warnings", "report"]),
    // The queries may use the tables too.
    (
        "query",
        &["cause", "missing", "limit_warnings", "report", "state"],
    ),
];

/// Returns which of the modules directly below a module uses which.
fn below(above: &str) -> BTreeSet<(String, String)> {
    let above = sources::module(above);
    let child = |path: &[String]| path.strip_prefix(&above[..])?.first().cloned();
    let mut found = BTreeSet::new();
    for (own, others) in sources::all() {
        for other in others {
            if let (Some(own), Some(other)) = (child(&own), child(&other)) {
                found.insert((own, other));
            }
        }
    }
    found.retain(|(own, other)| own != other);
    found
}

/// Returns the uses that a table does not allow.
fn wrong(uses: &BTreeSet<(String, String)>, table: &[(&str, &[&str])]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (own, allowed) in table {
        let of_own = uses.iter().filter(|(one, _)| one == own);
        let not = of_own.filter(|(_, other)| !allowed.contains(&other.as_str()));
        wrong.extend(not.map(|(_, other)| format!("{own} uses {other}")));
    }
    wrong
}

#[test]
fn folders_use_only_what_they_may() {
    let wrong = wrong(&below(""), &USES);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_folder_has_a_row() {
    let rows: BTreeSet<&str> = USES.iter().map(|(folder, _)| *folder).collect();
    let all = sources::all();
    let read: BTreeSet<&str> = all
        .keys()
        .filter_map(|own| Some(own.first()?.as_str()))
        .collect();
    assert_eq!(read, rows);
}

#[test]
fn state_and_query_use_only_lower_layers() {
    let uses = below("judge");
    assert!(uses.len() > 60, "{uses:?}");
    let wrong = wrong(&uses, &LAYERS);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Fields with sentences for people, which the code must not interpret.
const SENTENCES: [&str; 3] = ["clause", "remedy", "summary"];
/// Functions that interpret a text.
const LOOKS: [&str; 9] = [
    "contains",
    "ends_with",
    "find",
    "replace",
    "split",
    "split_once",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
];

/// Finds where code interprets a sentence: `summary.contains`.
fn looks(code: &str) -> Vec<String> {
    let words = sources::words(code);
    let looks = words.windows(3).filter(|three| {
        SENTENCES.contains(&three[0]) && three[1] == "." && LOOKS.contains(&three[2])
    });
    looks.map(<[&str]>::concat).collect()
}

#[test]
fn judge_interprets_no_sentences() {
    let mut wrong = BTreeSet::new();
    let of_judge = sources::read_all().into_iter();
    let mut of_judge = of_judge.filter(|(own, _)| own.first().is_some_and(|one| one == "judge"));
    let mut read = 0;
    for (own, code) in &mut of_judge {
        read += 1;
        wrong.extend(
            looks(&code)
                .into_iter()
                .map(|look| format!("{}: {look}", own.join("::"))),
        );
    }
    assert!(read > 100, "read {read}");
    assert_eq!(wrong, BTreeSet::new());
    assert_eq!(
        looks("if death.summary\n    .contains(word)"),
        ["summary.contains"]
    );
}
