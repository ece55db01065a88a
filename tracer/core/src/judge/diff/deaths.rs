//! Deaths in both recordings, by killer and class.

use std::collections::BTreeMap;

use super::DeathChange;
use crate::judge::{
    report::{Death, Killer, Report},
    state::owners::IDLE,
};

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
    let work = &death.work;
    let class = work.actor_class.as_ref().or(work.task_name.as_ref());
    (
        death.verdict.killer,
        class.map_or_else(|| program(&death.process.comm), Clone::clone),
    )
}

/// A worker that runs nothing has Ray's title for a name.
fn program(comm: &str) -> String {
    match comm.strip_prefix("ray::") {
        Some("IDLE") => IDLE.to_owned(),
        Some(title) => title.to_owned(),
        None => comm.to_owned(),
    }
}
