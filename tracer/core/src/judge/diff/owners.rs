//! Memory of each class in both recordings, on all nodes together.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    OwnerChange, OwnerSide,
    machines::{Machine, Machines},
};
use crate::{
    ids::Bytes,
    judge::report::{Owner, Report},
};

/// All classes, the largest change of the peak first.
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
    changes.sort_by_key(|change| std::cmp::Reverse(change.peak_delta().unsigned_abs()));
    changes
}

/// What each class held on all nodes.
fn by_class(report: &Report) -> BTreeMap<String, OwnerSide> {
    let machines = Machines::of(report);
    let mut of_nodes: BTreeMap<(&str, Option<Machine<'_>>), OwnerSide> = BTreeMap::new();
    for owner in &report.owners {
        let known = of_nodes.entry((&owner.class, machines.of_owner(owner)));
        known
            .and_modify(|known| known.later(owner))
            .or_insert_with(|| OwnerSide::of(owner));
    }
    let mut of_classes: BTreeMap<String, OwnerSide> = BTreeMap::new();
    for ((class, _), side) in of_nodes {
        let known = of_classes.entry(class.to_owned());
        known.and_modify(|known| known.add(side)).or_insert(side);
    }
    of_classes
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

    /// Another recording of the same node: the higher peak counts.
    fn later(&mut self, owner: &Owner) {
        if owner.private_peak_bytes > self.private_peak_bytes {
            self.processes = owner.processes;
            self.private_peak_bytes = owner.private_peak_bytes;
        }
        self.per_call_bytes = owner.per_call_bytes.max(self.per_call_bytes);
    }

    /// The same class on another node.
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
    /// By how much the peak of its private memory rose from the first to the second, in bytes.
    #[must_use]
    pub fn peak_delta(&self) -> i128 {
        let peak = |side: Option<OwnerSide>| {
            let bytes = side.and_then(|side| side.private_peak_bytes);
            i128::from(bytes.map_or(0, |bytes| bytes.0))
        };
        peak(self.b) - peak(self.a)
    }
}
