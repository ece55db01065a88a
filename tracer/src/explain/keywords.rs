//! Searches lines for the keywords of all recognisers at once.
//!
//! Lines without keywords are skipped, and a recogniser sees only lines with its own keywords.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::ray::log::{after_effects, gpu_moved, kill};

use super::{
    configured, daemons, kernel,
    line::{Found, Groups},
    ray_actor, ray_component, ray_words, ray_worker, warnings,
};

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
    add(Groups::MONITOR, &kill::ANCHORS);
    add(Groups::ACTOR, &ray_actor::ANCHORS);
    add(Groups::COMPONENT, &ray_component::ANCHORS);
    add(Groups::WORKER, &ray_worker::ANCHORS);
    add(Groups::KERNEL, &kernel::ANCHORS);
    add(Groups::DAEMON, &daemons::ANCHORS);
    add(Groups::WORDS, &ray_words::ANCHORS);
    let configured: Vec<&'static str> = configured::anchors().collect();
    add(Groups::CONFIGURED, &configured);
    add(Groups::CONFIGURED, &gpu_moved::ANCHORS);
    let warnings: Vec<&'static str> = warnings::anchors().collect();
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

/// Finds all keywords in a line.
pub(super) fn look(text: &str) -> Found {
    let mut found = Found::default();
    for word in INDEX.words.find_overlapping_iter(text) {
        let number = word.pattern().as_usize();
        found.groups.0 |= INDEX.groups[number];
        let Some(number) = number.checked_sub(INDEX.first_warning) else {
            continue;
        };
        let effects = warnings::RULES.len()..warnings::RULES.len() + after_effects::WORDS.len();
        let first = if number < effects.start {
            &mut found.rule
        } else if effects.contains(&number) {
            &mut found.after_effect
        } else {
            continue;
        };
        *first = Some(first.map_or(number, |known| known.min(number)));
    }
    found
}
