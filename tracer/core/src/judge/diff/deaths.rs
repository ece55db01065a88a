//! Compares the deaths of both recordings, by killer and class.

use std::collections::BTreeMap;

use super::{DeathChange, WarnedKills};
use crate::{
    event::Role,
    judge::{
        report::{Death, Killer, Report, subprocess},
        state::owners::IDLE,
    },
};

/// Returns the listed deaths of both, by killer in the order of the verdict table.
pub(super) fn changes(a: &Report, b: &Report) -> Vec<DeathChange> {
    let mut deaths: BTreeMap<(Killer, String), [Vec<&Death>; 2]> = BTreeMap::new();
    for (side, report) in [a, b].into_iter().enumerate() {
        for death in listed(report) {
            deaths.entry(killer_and_class(death)).or_default()[side].push(death);
        }
    }
    let count = |deaths: &[&Death]| u32::try_from(deaths.len()).unwrap_or(u32::MAX);
    let change = |((killer, class), [a, b]): ((Killer, String), [Vec<&Death>; 2])| DeathChange {
        killer,
        class,
        a: count(&a),
        b: count(&b),
        a_warned: warned(&a),
        b_warned: warned(&b),
    };
    deaths.into_iter().map(change).collect()
}

/// Returns how many of these were warned of, and how long before.
fn warned(deaths: &[&Death]) -> Option<WarnedKills> {
    let warnings = deaths
        .iter()
        .filter_map(|death| death.memory.warning.as_ref());
    let leads: Vec<u64> = warnings.map(|warning| warning.ms_before).collect();
    Some(WarnedKills {
        kills: u32::try_from(leads.len()).unwrap_or(u32::MAX),
        ms_before: leads.into_iter().min()?,
    })
}

fn listed(report: &Report) -> impl Iterator<Item = &Death> {
    report.deaths.iter().filter(|death| death.listed)
}

/// Returns the killer, and the class under which the death is counted.
pub(super) fn killer_and_class(death: &Death) -> (Killer, String) {
    let work = &death.work;
    let class = work.actor_class.as_ref().or(work.task_name.as_ref());
    let class = match death.process.role {
        // Named as its memory is in the report.
        Role::Driver => "driver".to_owned(),
        Role::Descendant => subprocess(&program(&death.process.comm)),
        _ => class.map_or_else(|| program(&death.process.comm), Clone::clone),
    };
    (death.verdict.killer, class)
}

/// Returns the name of a program. The name of a worker that runs nothing is Ray's title.
fn program(comm: &str) -> String {
    match comm.strip_prefix("ray::") {
        Some("IDLE") => IDLE.to_owned(),
        Some(title) => title.to_owned(),
        None => comm.to_owned(),
    }
}
