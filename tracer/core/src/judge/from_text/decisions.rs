//! Groups the victims of one decision of Ray's memory monitor, of the kernel, or of systemd, into
//! one first cause.
//!
//! All lines about one decision have one figure of the memory in use, to the byte in later
//! versions, and nearly one time. Where a text has no times, the lines that name the victims follow
//! each other.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use libc::SIGTERM;

use super::{Made, claim::Place};
use crate::{
    ids::{Bytes, SECOND_NS},
    judge::report::{Death, GroupKill, Killer},
};

/// The size of a page.
const PAGE: u64 = 4096;
/// Of decisions with the same figure, so many are compared, the latest ones.
const OPEN: usize = 64;

/// Notes which death stands for each decision that killed several processes: the largest victim.
pub(super) fn group(made: &mut [Made]) {
    group_of_kernel(made);
    group_of_units(made);
    let mut decisions: Vec<Vec<usize>> = Vec::new();
    // The decisions with each figure, the latest last.
    let mut by_figure: HashMap<Bytes, Vec<usize>> = HashMap::new();
    for (at, victim) in made.iter().enumerate() {
        let Some(used) = counted(victim) else {
            continue;
        };
        // What Ray counts is whole pages. A figure that it rounded to 0.01 GiB hardly ever is.
        let is_exact = used.0.is_multiple_of(PAGE);
        let known = by_figure.entry(used).or_default();
        let latest = known.iter().rev().take(OPEN).copied();
        let same = latest.into_iter().find(|decision| {
            let last = decisions[*decision].last().and_then(|last| made.get(*last));
            last.is_some_and(|last| are_of_one(last, victim, is_exact))
        });
        if let Some(decision) = same {
            decisions[decision].push(at);
        } else {
            known.push(decisions.len());
            decisions.push(vec![at]);
        }
    }
    for members in decisions.into_iter().filter(|members| members.len() > 1) {
        note(made, &members);
    }
}

/// Groups the victims of one kill of a whole cgroup (`memory.oom.group`).
fn group_of_kernel(made: &mut [Made]) {
    let mut decisions: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
    for (at, victim) in made.iter().enumerate() {
        let by_kernel = victim.death.verdict.killer.is_kernel_oom();
        let decision = victim.decision.filter(|_| by_kernel && victim.death.listed);
        if let Some(decision) = decision {
            decisions.entry(decision).or_default().push(at);
        }
    }
    for members in decisions.into_values().filter(|members| members.len() > 1) {
        note(made, &members);
    }
}

/// Groups what systemd ended of one unit at once, and what a launcher ended of its children.
fn group_of_units(made: &mut [Made]) {
    let mut acts: Vec<Vec<usize>> = Vec::new();
    let mut by_unit: HashMap<(&str, &str), usize> = HashMap::new();
    for (at, victim) in made.iter().enumerate() {
        let death = &victim.death;
        let first = death.verdict.cause_death_id.is_none() && death.listed;
        let of_unit = victim.of.as_deref().filter(|of| of.starts_with("unit "));
        // It kills one after another what does not end at its SIGTERM.
        let asked = death.sender.as_ref().and_then(|sender| sender.signal) == Some(SIGTERM);
        let is_child = victim.of.is_none() && victim.closed && asked;
        let unit = of_unit.or(is_child.then_some(""));
        let Some((unit, sender)) = unit.zip(death.sender.as_ref()).filter(|_| first) else {
            continue;
        };
        let known = by_unit.get(&(unit, sender.comm.as_str())).copied();
        let last = |act: usize| acts[act].last().map(|last| &made[*last]);
        let of_one = |act: &usize| last(*act).is_some_and(|last| are_of_one(last, victim, true));
        if let Some(act) = known.filter(of_one) {
            acts[act].push(at);
        } else {
            by_unit.insert((unit, sender.comm.as_str()), acts.len());
            acts.push(vec![at]);
        }
    }
    for members in acts.into_iter().filter(|members| members.len() > 1) {
        note(made, &members);
    }
}

/// Notes that one decision killed these.
fn note(made: &mut [Made], members: &[usize]) {
    let deaths = members.iter().map(|at| &made[*at].death);
    let size = |death: &&Death| (death.memory.own_private(), Reverse(death.id));
    let Some(largest) = deaths.max_by_key(size).map(|death| death.id) else {
        return;
    };
    let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
    for at in members {
        made[*at].death.verdict.act = Some(GroupKill {
            death_id: largest,
            victims: count,
            signalled: count,
        });
    }
}

/// Returns what the monitor counted when it decided to kill this process; `None` for another death,
/// or for one that such a kill brought about.
fn counted(made: &Made) -> Option<Bytes> {
    let death = &made.death;
    let by_monitor = death.verdict.killer == Killer::RayMemoryMonitor;
    let first = death.verdict.cause_death_id.is_none() && death.listed;
    let at = death.memory.at_death.as_ref()?;
    at.ray_used_bytes.filter(|_| by_monitor && first)
}

fn are_of_one(before: &Made, after: &Made, is_exact: bool) -> bool {
    let lines = after.place.line.abs_diff(before.place.line);
    let adjacent = before.place.text == after.place.text && lines <= 1;
    // Another decision may have the same figure where that is rounded.
    let apart = if is_exact { SECOND_NS } else { 0 };
    let at_once = match (before.time, after.time) {
        (Some(before), Some(after)) => (after - before).abs() <= apart,
        (None, None) => adjacent,
        _ => false,
    };
    before.node == after.node && before.host == after.host && at_once
}
