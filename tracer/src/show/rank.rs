//! Which first causes are shown where not all fit.

use crate::show::{
    causes::{self, Cause, Entry},
    jobs,
    view::View,
    words,
};

/// The places of a report: alike first causes are folded, unless all or one is asked for.
#[must_use]
pub fn entries<'a>(view: &View<'_>, causes: Vec<Cause<'a>>) -> Vec<Entry<'a>> {
    if view.shown.all || view.shown.detail {
        causes.into_iter().map(alone).collect()
    } else {
        causes::fold(causes)
    }
}

fn alone(cause: Cause<'_>) -> Entry<'_> {
    Entry {
        causes: vec![cause],
    }
}

/// At most `most` places in their order, and how many first causes are left out: those that ended a job stay, then
/// memory kills, then the earliest.
#[must_use]
pub fn most_important<'a>(
    view: &View<'_>,
    entries: Vec<Entry<'a>>,
    most: usize,
) -> (Vec<Entry<'a>>, usize) {
    if entries.len() <= most {
        return (entries, 0);
    }
    let mut ranked = entries;
    ranked.sort_by_key(|entry| {
        let first = entry.first();
        let ended = entry
            .causes
            .iter()
            .any(|cause| jobs::ended_by(view, cause).is_some());
        let memory = words::is_memory_kill(first.death.verdict.killer);
        (!(ended && memory), !ended, !memory, first.number)
    });
    let left = ranked.split_off(most);
    ranked.sort_by_key(|entry| entry.first().number);
    let left_out = left.iter().map(|entry| entry.causes.len()).sum();
    (ranked, left_out)
}

/// The line that stands for first causes that are left out.
#[must_use]
pub fn left_out(count: usize) -> String {
    let what = words::count(count, "more first cause", "more first causes");
    format!("… and {what} (--all lists them)")
}
