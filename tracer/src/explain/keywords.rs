//! Searches lines for the keywords of all recognisers at once.
//!
//! Lines without keywords are skipped, and a recogniser sees only lines with its own keywords.

use std::sync::LazyLock;

use aho_corasick::{
    Anchored, Input,
    automaton::{Automaton, OverlappingState, StateID},
    dfa::DFA,
};

use crate::{
    catalogue,
    judge::warning,
    ray::log::{gpu_moved, monitor_kill, words::WORDS},
};

use super::{
    configurations, headings, kernel,
    line::{FoundKeywords, Groups},
    ray_actor, ray_remarks, warnings,
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
    words: DFA,
    start: StateID,
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
    add(Groups::MONITOR, &monitor_kill::KEYWORDS);
    add(Groups::ACTOR, &ray_actor::KEYWORDS);
    let records: Vec<&'static str> = WORDS.records.iter().map(String::as_str).collect();
    add(Groups::COMPONENT, &records);
    add(Groups::MARKERS, &MARKERS);
    add(Groups::CATALOGUE, catalogue::keywords());
    add(Groups::CATALOGUE, &FATAL);
    add(Groups::HEADINGS, &headings::KEYWORDS);
    add(Groups::KERNEL, &kernel::KEYWORDS);
    add(Groups::RAY_REMARKS, &ray_remarks::KEYWORDS);
    let configurations: Vec<&'static str> = configurations::keywords().collect();
    add(Groups::CONFIGURATIONS, &configurations);
    add(Groups::CONFIGURATIONS, &gpu_moved::KEYWORDS);
    let warnings: Vec<&'static str> = warnings::keywords().collect();
    add(Groups::WARNING, &warnings);
    // With a prefilter, the automaton would stop at each begin of a keyword.
    let words = DFA::builder().prefilter(false).build(words);
    let words = words.expect("a valid set of words");
    let start = words.start_state(Anchored::No).expect("a start");
    let first_warning = groups.len() - warnings.len();
    Index {
        words,
        start,
        groups,
        first_warning,
    }
}

/// A search in a part of a chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'a> {
    rest: &'a [u8],
    state: StateID,
}

impl<'a> Search<'a> {
    /// Begins to search.
    pub(super) fn new(rest: &'a [u8]) -> Self {
        let state = INDEX.start;
        Self { rest, state }
    }

    /// Returns how many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Returns the length of the keyword that ends before the rest, if one does.
    fn found(&self) -> Option<usize> {
        let words = &INDEX.words;
        let found = words.is_special(self.state) && words.is_match(self.state);
        found.then(|| words.pattern_len(words.match_pattern(self.state, 0)))
    }

    /// Goes on behind the next keyword, and returns its length.
    pub(super) fn next(&mut self) -> Option<usize> {
        let words = &INDEX.words;
        while let [byte, rest @ ..] = self.rest {
            self.state = words.next_state(Anchored::No, self.state, *byte);
            self.rest = rest;
            if words.is_special(self.state) {
                return self.found();
            }
        }
        None
    }
}

/// Searches several parts in turn, byte by byte, until a keyword ends in one of them or one is at
/// its end. A processor does the look-ups of several parts at the same time. Returns for each part
/// the length of the keyword that was found.
pub(super) fn side_by_side<const N: usize>(parts: &mut [Search<'_>; N]) -> [Option<usize>; N] {
    let words = &INDEX.words;
    let length = parts.iter().map(Search::left).min().unwrap_or(0);
    let bytes = parts.map(|part| &part.rest[..length]);
    let mut states = parts.map(|part| part.state);
    let mut read = length;
    for at in 0..length {
        let mut special = false;
        for (state, bytes) in states.iter_mut().zip(&bytes) {
            *state = words.next_state(Anchored::No, *state, bytes[at]);
            special |= words.is_special(*state);
        }
        if special {
            read = at + 1;
            break;
        }
    }
    for (part, state) in parts.iter_mut().zip(states) {
        *part = Search {
            rest: &part.rest[read..],
            state,
        };
    }
    parts.map(|part| part.found())
}

/// Returns all keywords in a text, each with where it begins and ends.
fn all(text: &str) -> impl Iterator<Item = (usize, usize, usize)> {
    let mut state = OverlappingState::start();
    let input = Input::new(text);
    std::iter::from_fn(move || {
        // Only an anchored search could be refused.
        let _never = INDEX.words.try_find_overlapping(&input, &mut state);
        let found = state.get_match()?;
        Some((found.pattern().as_usize(), found.start(), found.end()))
    })
}

/// Returns whether keywords begin before `from` and end behind `to`.
pub(super) fn any_over(text: &str, from: usize, to: usize) -> bool {
    all(text).any(|(_, begin, end)| begin < from && end > to)
}

/// Returns whether a text begins with keywords.
pub(super) fn begins(text: &str) -> bool {
    all(text).any(|(_, begin, _)| begin == 0)
}

/// Finds all keywords in a line.
pub(super) fn find_all(text: &str) -> FoundKeywords {
    let mut found = FoundKeywords::default();
    for (number, ..) in all(text) {
        found.groups.0 |= INDEX.groups[number];
        let Some(number) = number.checked_sub(INDEX.first_warning) else {
            continue;
        };
        let effects = warning::WORDS.len()..warning::WORDS.len() + WORDS.after_effects.len();
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
