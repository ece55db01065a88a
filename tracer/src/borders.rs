//! Which folder uses which: the rules of ARCHITECTURE.md, read from the source.
//!
//! A folder that is not in a row may not be used there. The rows go from the bottom to the top: what stands in a row is below it.

mod circles;

use std::{collections::BTreeSet, fs, path::Path};

/// Each folder or file below `src`, with those that it may use; a row uses only rows above it.
const USES: [(&str, &[&str]); 23] = [
    ("ids", &[]),
    ("path", &[]),
    ("signals", &[]),
    ("size", &["ids"]),
    ("cgroup_path", &[]),
    // What logs say is a part of events, and roles are a part of what Ray is: these two know each other.
    ("event", &["ids", "ray"]),
    ("ray", &["event", "ids"]),
    ("kernel_log", &["event", "ids"]),
    // The crate of that name, which reads.
    ("proc", &["cgroup_path", "event", "ids", "ray"]),
    ("stacks", &["event", "ids", "path", "ray"]),
    (
        "observe",
        &["cgroup_path", "event", "ids", "kernel_log", "path", "ray"],
    ),
    ("recording", &["event", "ids", "observe", "ray"]),
    ("slice", &["event", "ids", "ray"]),
    (
        "judge",
        &[
            "cgroup_path",
            "event",
            "ids",
            "kernel_log",
            "path",
            "ray",
            "signals",
        ],
    ),
    (
        "clause",
        &["event", "ids", "judge", "path", "signals", "size"],
    ),
    ("contract", &["clause", "ids", "judge"]),
    (
        "explain",
        &["event", "ids", "judge", "kernel_log", "path", "ray"],
    ),
    // Of the recording only how a row is written.
    (
        "show",
        &[
            "cgroup_path",
            "event",
            "ids",
            "judge",
            "path",
            "ray",
            "recording",
            "signals",
        ],
    ),
    ("deaths", &["ids", "judge"]),
    (
        "collect",
        &[
            "deaths",
            "event",
            "ids",
            "judge",
            "observe",
            "path",
            "ray",
            "recording",
        ],
    ),
    (
        "command",
        &[
            "cli",
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

/// What is compiled for tests alone.
const TESTS: [&str; 7] = [
    "borders", "damage", "fuzz", "golden", "sample", "skips", "tests",
];

/// The folders that a source text uses: of `crate::judge::Judge` and `use crate::{judge::Judge, ids}`.
fn used(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for after in text.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            Some(list) => found.extend(heads(list)),
            None => found.extend(word(after)),
        }
    }
    found
}

/// The first word of each element of a list in braces, whose first brace is left out.
fn heads(list: &str) -> Vec<String> {
    let (mut depth, mut heads, mut begins) = (1, Vec::new(), true);
    for (place, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => begins = true,
            _ if begins && depth == 1 && character.is_alphabetic() => {
                heads.extend(word(&list[place..]));
                begins = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

fn word(text: &str) -> Option<String> {
    let end = text.find(|one: char| !one.is_alphanumeric() && one != '_');
    let word = &text[..end.unwrap_or(text.len())];
    // A macro or an item of the crate's root is no folder.
    USES.iter()
        .any(|(folder, _)| *folder == word)
        .then(|| word.to_owned())
}

/// Each source file without its tests and comments, with the folder below `src` that it is in.
fn sources(folder: &Path, top: Option<&str>, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().and_then(|name| name.to_str());
        let stem = stem.expect("a name");
        if TESTS.contains(&stem) {
            continue;
        }
        let top = top.unwrap_or(stem);
        if path.is_dir() {
            sources(&path, Some(top), found);
        } else if path.extension().is_some_and(|end| end == "rs") && top != "lib" {
            let text = fs::read_to_string(&path).expect("a file");
            let code = text.split("#[cfg(test)]\nmod tests {").next();
            let lines = code.unwrap_or_default().lines();
            let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
            found.push((top.to_owned(), lines.collect::<Vec<_>>().join("\n")));
        }
    }
}

#[test]
fn no_folder_uses_another_that_it_may_not_use() {
    let mut all = Vec::new();
    for (folder, top) in [
        ("src", None),
        ("core/src", None),
        ("proc/src", Some("proc")),
        ("stacks/src", Some("stacks")),
    ] {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        sources(&src, top, &mut all);
    }
    let mut wrong = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for (folder, text) in &all {
        let row = USES.iter().find(|(name, _)| name == folder);
        let Some((name, allowed)) = row else {
            wrong.insert(format!("{folder} has no row in the table"));
            continue;
        };
        seen.insert(*name);
        for other in used(text) {
            if other != *folder && !allowed.contains(&other.as_str()) {
                wrong.insert(format!("{folder} uses {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(seen.len(), USES.len(), "read {seen:?}");
}

#[test]
fn the_folders_form_no_circle() {
    let known = [("event", "ray"), ("command", "cli")];
    let place = |name: &str| USES.iter().position(|(folder, _)| *folder == name);
    for (at, (folder, uses)) in USES.iter().enumerate() {
        for other in *uses {
            let below = place(other).is_some_and(|other| other < at);
            assert!(
                below || known.contains(&(*folder, *other)),
                "{folder} uses {other}, which is no row above it"
            );
        }
    }
}

#[test]
fn uses_are_found_in_lists_and_paths() {
    let text = "use crate::{\n    event::{Call, Event},\n    judge::report::Utc,\n};\nlet x = crate::path::short(y);";
    let found: Vec<String> = used(text).into_iter().collect();
    assert_eq!(found, ["event", "judge", "path"]);
}
