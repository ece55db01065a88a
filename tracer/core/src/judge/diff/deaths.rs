//! Deaths in both recordings, by killer and class.

use std::collections::BTreeMap;

use super::DeathChange;
use crate::judge::report::{Death, Killer, Report};

/// Listed deaths, by killer in the order of the verdict table.
pub(super) fn changes(a: &Report, b: &Report) -> Vec<DeathChange> {
    let mut counts: BTreeMap<(Killer, String), (u32, u32)> = BTreeMap::new();
    for death in listed(a) {
        counts.entry(key(death)).or_default().0 += 1;
    }
    for death in listed(b) {
        counts.entry(key(death)).or_default().1 += 1;
    }
    let change = |((killer, class), (a, b))| DeathChange {
        killer,
        class,
        a,
        b,
    };
    counts.into_iter().map(change).collect()
}

fn listed(report: &Report) -> impl Iterator<Item = &Death> {
    report.deaths.iter().filter(|death| death.listed)
}

fn key(death: &Death) -> (Killer, String) {
    let class = death
        .work
        .actor_class
        .clone()
        .or_else(|| death.work.task_name.clone());
    (
        death.verdict.killer,
        class.unwrap_or_else(|| death.process.comm.clone()),
    )
}
