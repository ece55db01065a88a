//! Compares the memory of each class in both recordings, on all nodes together.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    OwnerChange, OwnerSide,
    machines::{Machine, Machines},
};
use crate::{
    ids::Bytes,
    judge::report::{Growth, Owner, Report, subprocess},
};

/// Returns all classes, the largest change of the peak first. Subprocesses come last: what a child
/// made by fork holds may be its parent's.
pub(super) fn changes(a: &Report, b: &Report) -> Vec<OwnerChange> {
    let (mut first, mut second) = (by_class(a), by_class(b));
    let classes: BTreeSet<String> = first.keys().chain(second.keys()).cloned().collect();
    let mut changes: Vec<OwnerChange> = classes
        .into_iter()
        .map(|class| OwnerChange {
            a: first.remove(&class),
            b: second.remove(&class),
            class,
        })
        .collect();
    changes.sort_by_key(|change| {
        let delta = change.peak_delta().unsigned_abs();
        (change.is_of_children(), std::cmp::Reverse(delta))
    });
    changes
}

/// Returns what each class held on all nodes.
fn by_class(report: &Report) -> BTreeMap<String, OwnerSide> {
    let machines = Machines::of(report);
    let mut of_nodes: BTreeMap<(String, Option<Machine<'_>>), OwnerSide> = BTreeMap::new();
    for owner in &report.owners {
        let known = of_nodes.entry((owner.shown_class(), machines.of_owner(owner)));
        let mut side = OwnerSide::of(owner);
        side.per_call_bytes = side.per_call_bytes.filter(|_| !was_freed(report, owner));
        known.and_modify(|known| known.later(side)).or_insert(side);
    }
    let mut of_classes: BTreeMap<String, OwnerSide> = BTreeMap::new();
    for ((class, _), side) in of_nodes {
        let known = of_classes.entry(class);
        known.and_modify(|known| known.add(side)).or_insert(side);
    }
    of_classes
}

/// If calls keep memory, at least one part in this many of what lines took was still held in the
/// end.
const KEPT_PART: u64 = 10;

/// Returns whether the lines of a class held next to nothing in the end. What its calls had added
/// was then freed later.
fn was_freed(report: &Report, owner: &Owner) -> bool {
    let of_class = |growth: &&Growth| growth.class == owner.class;
    let lines = report.growth.iter().filter(of_class);
    let known: Vec<(u64, u64)> = lines
        .flat_map(|growth| &growth.lines)
        .filter_map(|line| Some((line.grown_bytes.0, line.held_bytes?.0)))
        .collect();
    let grown: u64 = known.iter().map(|(grown, _)| grown).sum();
    let held: u64 = known.iter().map(|(_, held)| held).sum();
    grown > 0 && held < grown / KEPT_PART
}

impl OwnerSide {
    fn of(owner: &Owner) -> Self {
        Self {
            nodes: 1,
            processes: owner.processes,
            private_peak_bytes: owner.private_peak_bytes,
            per_call_bytes: owner.per_call_bytes,
        }
    }

    /// Joins another recording of the same node. The higher peak counts.
    fn later(&mut self, later: Self) {
        if later.private_peak_bytes > self.private_peak_bytes {
            self.processes = later.processes;
            self.private_peak_bytes = later.private_peak_bytes;
        }
        self.per_call_bytes = later.per_call_bytes.max(self.per_call_bytes);
    }

    /// Adds the same class on another node.
    fn add(&mut self, other: Self) {
        self.nodes += other.nodes;
        self.processes += other.processes;
        let peaks = [self.private_peak_bytes, other.private_peak_bytes];
        let known = peaks.into_iter().flatten().map(|bytes| bytes.0);
        self.private_peak_bytes = known.reduce(|one, other| one + other).map(Bytes);
        self.per_call_bytes = other.per_call_bytes.max(self.per_call_bytes);
    }
}

impl OwnerChange {
    /// Returns whether it is of subprocesses. One made by fork has its parent's memory.
    pub(super) fn is_of_children(&self) -> bool {
        self.class.ends_with(&subprocess(""))
    }

    /// Returns by how many bytes the peak of its private memory rose from the first to the second.
    pub fn peak_delta(&self) -> i128 {
        let peak = |side: Option<OwnerSide>| {
            let bytes = side.and_then(|side| side.private_peak_bytes);
            i128::from(bytes.map_or(0, |bytes| bytes.0))
        };
        peak(self.b) - peak(self.a)
    }
}
