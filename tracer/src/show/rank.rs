//! Orders first causes, and chooses which are shown if not all fit.

use crate::show::{
    alike,
    causes::{self, Cause, Entry},
    jobs,
    view::View,
    words,
};

/// The most first causes of which each is compared with those above it.
const MOST_ORDERED: usize = 1000;

/// Returns the entries of a report in their order. Similar first causes are grouped, unless all or
/// one is asked for.
pub fn entries<'a>(view: &View<'_>, causes: Vec<Cause<'a>>) -> Vec<Entry<'a>> {
    let mut entries = if view.shown.all || view.shown.detail {
        causes.into_iter().map(alone).collect()
    } else {
        causes::fold(causes)
    };
    entries.sort_by_key(|entry| rank(view, entry));
    // With so many, nobody reads them in their order.
    if entries.len() > MOST_ORDERED {
        return entries;
    }
    let mut ordered: Vec<Entry<'_>> = Vec::with_capacity(entries.len());
    for entry in entries {
        // What happened again at once stands below the first of its kind.
        let first = ordered
            .iter()
            .rposition(|known| alike::same(known, &entry).is_some());
        ordered.insert(first.map_or(ordered.len(), |at| at + 1), entry);
    }
    ordered
}

/// Ranks an entry. Deaths that ended a job come before others, and memory kills before other deaths
/// among each. Within each rank, the order is that of time.
fn rank(view: &View<'_>, entry: &Entry<'_>) -> (bool, bool, u32) {
    let first = entry.first();
    let ended = || {
        entry
            .causes
            .iter()
            .any(|cause| jobs::ended_by(view, cause).is_some())
    };
    (!ended(), !first.death.is_memory_kill(), first.number)
}

fn alone(cause: Cause<'_>) -> Entry<'_> {
    Entry {
        causes: vec![cause],
    }
}

/// Returns the first `most` entries, and how many first causes are left out.
pub fn most_important(mut entries: Vec<Entry<'_>>, most: usize) -> (Vec<Entry<'_>>, usize) {
    let left = entries.split_off(most.min(entries.len()));
    let left_out = left.iter().map(|entry| entry.causes.len()).sum();
    (entries, left_out)
}

/// Returns the line that stands for the first causes that are left out.
pub fn left_out(count: usize) -> String {
    let what = words::count(count, "more first cause", "more first causes");
    format!("… and {what} (--all lists them)")
}
