//! Searches lines for the keywords of all recognisers at once.
//!
//! Lines without keywords are skipped, and a recogniser sees only lines with its own keywords.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::{
    catalogue,
    ray::log::{after_effects, gpu_moved, kill},
};

use super::{
    configurations, kernel, kube,
    line::{FoundKeywords, Groups},
    ray_actor, ray_component, ray_remarks, warnings,
};

/// What a worker prints into its own file when it begins to run an actor or task.
const MARKERS: [&str; 2] = [":actor_name:", ":task_name:"];
/// How a record of level C begins, `[2026-11-21 00:23:48,555 C 374 374]`, and in JSON. Such a record
/// ends its process, whatever it says.
const FATAL: [&str; 13] = [
    "0 C ",
    "1 C ",
    "2 C ",
    "3 C ",
    "4 C ",
    "5 C ",
    "6 C ",
    "7 C ",
    "8 C ",
    "9 C ",
    "\"FATAL\"",
    "\"C\"",
    "CRITICAL\"",
];

/// All keywords, and the group of each.
struct Index {
    words: AhoCorasick,
    groups: Vec<u16>,
    /// The number of the first warning keyword. The warnings come last.
    first_warning: usize,
}

static INDEX: LazyLock<Index> = LazyLock::new(index);

#[expect(
    clippy::expect_used,
    reason = "the words are literals: whether they compile is seen in every test"
)]
fn index() -> Index {
    let mut words: Vec<&'static str> = Vec::new();
    let mut groups = Vec::new();
    let mut add = |group: Groups, more: &[&'static str]| {
        words.extend(more);
        groups.extend(more.iter().map(|_| group.0));
    };
    add(Groups::MONITOR, &kill::KEYWORDS);
    add(Groups::ACTOR, &ray_actor::KEYWORDS);
    add(Groups::COMPONENT, &ray_component::KEYWORDS);
    add(Groups::MARKERS, &MARKERS);
    add(Groups::CATALOGUE, catalogue::keywords());
    add(Groups::CATALOGUE, &FATAL);
    add(Groups::KUBE, &kube::KEYWORDS);
    add(Groups::KERNEL, &kernel::KEYWORDS);
    add(Groups::RAY_REMARKS, &ray_remarks::KEYWORDS);
    let configurations: Vec<&'static str> = configurations::keywords().collect();
    add(Groups::CONFIGURATIONS, &configurations);
    add(Groups::CONFIGURATIONS, &gpu_moved::KEYWORDS);
    let warnings: Vec<&'static str> = warnings::keywords().collect();
    add(Groups::WARNING, &warnings);
    let words = AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .build(words)
        .expect("a valid set of words");
    let first_warning = groups.len() - warnings.len();
    Index {
        words,
        groups,
        first_warning,
    }
}

/// Returns where the first keyword in `bytes` begins and ends.
pub(super) fn find(bytes: &[u8]) -> Option<(usize, usize)> {
    let found = INDEX.words.find(bytes)?;
    Some((found.start(), found.end()))
}

/// Returns whether keywords begin before `from` and end behind `to`.
pub(super) fn any_over(text: &str, from: usize, to: usize) -> bool {
    let mut words = INDEX.words.find_overlapping_iter(text);
    words.any(|word| word.start() < from && word.end() > to)
}

/// Returns whether a text begins with keywords.
pub(super) fn begins(text: &str) -> bool {
    let mut words = INDEX.words.find_overlapping_iter(text);
    words.any(|word| word.start() == 0)
}

/// Finds all keywords in a line.
pub(super) fn find_all(text: &str) -> FoundKeywords {
    let mut found = FoundKeywords::default();
    for word in INDEX.words.find_overlapping_iter(text) {
        let number = word.pattern().as_usize();
        found.groups.0 |= INDEX.groups[number];
        let Some(number) = number.checked_sub(INDEX.first_warning) else {
            continue;
        };
        let effects =
            warnings::KEYWORDS.len()..warnings::KEYWORDS.len() + after_effects::WORDS.len();
        let first = if number < effects.start {
            &mut found.warning
        } else if effects.contains(&number) {
            &mut found.after_effect
        } else {
            continue;
        };
        *first = Some(first.map_or(number, |known| known.min(number)));
    }
    found
}
