//! Looks in the sources of installed frameworks for what their tables name: settings, classes and
//! calls.
//!
//! A row that the installed version should have and has not is an error: its framework renamed it,
//! and advice would name a key that does not exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::{layout, process::step};

/// Settings that a framework passes on without naming them: verl gives all of `ray_init` to Ray.
const PASSED_ON: [&str; 1] = ["object_store_memory"];

/// What a table has for this check. `raytrace_core` documents the fields.
#[derive(Deserialize)]
struct Table {
    framework: String,
    distribution: Option<String>,
    /// The release that the table was checked with.
    checked_with: Option<String>,
    #[serde(default)]
    classes: Vec<Value>,
    #[serde(default)]
    settings: Vec<Value>,
    #[serde(default)]
    calls: Vec<Value>,
}

/// A name that the source should have.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    name: String,
    is_call: bool,
    since: Option<Vec<u32>>,
    until: Option<Vec<u32>>,
}

/// Checks each framework that is installed below `target/real`, and names the others.
pub(super) fn check() -> Result<()> {
    let folder = layout::root().join("tracer/core/src/ray/framework/tables");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let table: Table = serde_json::from_str(&text)?;
        // A table of a fork names its original, whose source is another one.
        if table.checked_with.is_none() {
            continue;
        }
        let name = table.distribution.clone().unwrap_or_default();
        match installed(&name)? {
            Some((sources, version)) => step(
                &format!("the table of {}, in {name} {version}", table.framework),
                || compare(&table, &sources, &version),
            )?,
            None => eprintln!(
                "SKIPPED the table of {}: {name} is not installed below target/real",
                table.framework
            ),
        }
    }
    Ok(())
}

fn compare(table: &Table, sources: &Path, version: &str) -> Result<()> {
    let mut words = BTreeSet::new();
    collect_words(sources, &mut words)?;
    let version = numbers(version).context("a version begins with a number")?;
    let missing = missing(&rows(table), &words, &version);
    if !missing.is_empty() {
        bail!(
            "{} does not have any more: {}; give the row an `until`, and add the new name",
            table.framework,
            missing.join(", ")
        );
    }
    Ok(())
}

/// Returns the newest installed package of this name, and its version.
fn installed(name: &str) -> Result<Option<(PathBuf, String)>> {
    let mut found: Vec<(Vec<u32>, PathBuf, String)> = Vec::new();
    for environment in entries(&layout::real())? {
        for python in entries(&environment.join("lib"))? {
            let site = python.join("site-packages");
            for folder in entries(&site)? {
                let file = folder.file_name().unwrap_or_default().to_string_lossy();
                let version = file
                    .strip_suffix(".dist-info")
                    .and_then(|file| file.strip_prefix(name)?.strip_prefix('-'));
                let version = version.and_then(|text| Some((numbers(text)?, text.to_owned())));
                if let Some((order, version)) = version {
                    found.push((order, site.join(name), version));
                }
            }
        }
    }
    found.sort();
    Ok(found.pop().map(|(_, sources, version)| (sources, version)))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    Ok(entries.collect::<std::io::Result<_>>()?)
}

fn rows(table: &Table) -> Vec<Row> {
    let of = |rows: &[Value], field: &str| -> Vec<Row> {
        let rows = rows.iter().filter_map(|row| {
            let text = |field: &str| row[field].as_str();
            let end = text(field)?.rsplit('.').next()?;
            Some(Row {
                name: end.trim_end_matches("::").to_owned(),
                is_call: field == "call",
                since: text("since").and_then(numbers),
                until: text("until").and_then(numbers),
            })
        });
        rows.collect()
    };
    let mut rows = of(&table.settings, "key");
    rows.extend(of(&table.classes, "name"));
    rows.extend(of(&table.calls, "call"));
    rows
}

/// Returns the rows of this version that are in no word. A row may be a part of a name: classes and
/// calls are looked for as such. The names of calls of a worker group begin with their role.
fn missing(rows: &[Row], words: &BTreeSet<String>, version: &[u32]) -> Vec<String> {
    let has = |name: &str| words.contains(name) || words.iter().any(|word| word.contains(name));
    // A date is of a program without versions at that time. Its installed release is later.
    let is_date = |numbers: &[u32]| numbers[0] > 1000;
    let holds = |row: &&Row| {
        let since = row.since.as_deref();
        let since = since.is_none_or(|since| is_date(since) || version >= since);
        // `0.7` holds for 0.7.1 too.
        let until = row.until.as_deref().is_none_or(|until| {
            let same = &version[..until.len().min(version.len())];
            !is_date(until) && same <= until
        });
        since && until && !PASSED_ON.contains(&row.name.as_str())
    };
    let without_role = |row: &Row| {
        let call = row.name.split_once('_').map(|(_, call)| call);
        row.is_call && call.is_some_and(|call| words.contains(call))
    };
    rows.iter()
        .filter(holds)
        .filter(|row| !has(&row.name) && !without_role(row))
        .map(|row| row.name.clone())
        .collect()
}

/// Returns the numbers of a version or a date: `0.9.1`, `2026-04-19`.
fn numbers(version: &str) -> Option<Vec<u32>> {
    let parts = version.split(['.', '-']);
    let numbers: Vec<u32> = parts.map_while(|part| part.parse().ok()).collect();
    (!numbers.is_empty()).then_some(numbers)
}

/// Collects the words of all sources and configurations below a folder.
fn collect_words(folder: &Path, words: &mut BTreeSet<String>) -> Result<()> {
    for path in entries(folder)? {
        if path.is_dir() {
            collect_words(&path, words)?;
        } else if path
            .extension()
            .is_some_and(|end| end == "py" || end == "yaml")
        {
            let text = fs::read(&path)?;
            let text = String::from_utf8_lossy(&text);
            let all = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            words.extend(all.filter(|word| word.len() > 2).map(str::to_owned));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_row_is_missing_in_its_versions_only() {
        let table = r#"{"framework": "f", "settings": [
            {"key": "a.kept_key"}, {"key": "gone_key"}, {"key": "old_key", "until": "0.7"},
            {"key": "older_key", "until": "2026-04-19"},
            {"key": "new_key", "since": "0.9"}],
            "calls": [{"call": "critic_infer_batch"}], "classes": [{"name": "Engine::"}]}"#;
        let table: Table = serde_json::from_str(table).expect("a table");
        let words = ["kept_key", "infer_batch", "MyEngine"];
        let words: BTreeSet<String> = words.into_iter().map(str::to_owned).collect();
        let at = |version: &[u32]| missing(&rows(&table), &words, version);
        assert_eq!(at(&[0, 8, 1]), ["gone_key"]);
        assert_eq!(at(&[0, 7, 2]), ["gone_key", "old_key"]);
        assert_eq!(at(&[0, 9]), ["gone_key", "new_key"]);
    }
}
