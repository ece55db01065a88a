//! Finds the first causes of a report and their cascades, and folds similar causes into groups.
//!
//! A first cause has the same number in every view and under every filter: causes are numbered over
//! the whole report, in the order of their acts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{
    ids::EventId,
    judge::report::{Death, Finding, Killer, Report},
    show::words,
};

/// Minimum number of similar first causes that are shown as one group.
const GROUP: usize = 4;
/// A first cause with a longer cascade is never folded into a group.
const SMALL_CASCADE: usize = 3;

/// A death that no other death caused, with its cascade.
#[derive(Debug, Clone)]
pub struct Cause<'a> {
    /// Its number in the report, from 1.
    pub number: u32,
    /// The death.
    pub death: &'a Death,
    /// Listed deaths that lead back to this one, in the order of their acts. Other victims of its
    /// act are among them.
    pub cascade: Vec<&'a Death>,
}

impl<'a> Cause<'a> {
    /// Returns the deaths that followed from it. Other victims of the same act are left out,
    /// because the headline counts them.
    pub fn followers(&self) -> Vec<&'a Death> {
        let followed = self.cascade.iter().filter(|death| !self.is_of_act(death));
        followed.copied().collect()
    }

    /// Returns how many other processes the same act ended.
    pub fn others_of_act(&self) -> usize {
        let others = self.cascade.iter().filter(|death| self.is_of_act(death));
        others.count()
    }

    /// Returns whether the act that ended this process also ended that of `death`.
    pub fn is_of_act(&self, death: &Death) -> bool {
        let act = death.verdict.act;
        act.is_some_and(|act| act.death_id == self.death.id)
    }

    /// Returns `KILL 2`, or `DEATH 2` if nobody killed. The two words stay on one line.
    pub fn label(&self) -> String {
        label(self.number, self.is_kill())
    }

    /// Returns whether somebody killed.
    pub fn is_kill(&self) -> bool {
        self.death.verdict.killer.is_kill()
    }
}

/// Returns `KILL 1`.
pub(super) fn label(number: u32, is_kill: bool) -> String {
    format!("{}\u{a0}{number}", word(1, is_kill))
}

/// Returns the word before the numbers of first causes.
pub(super) fn word(numbers: usize, kills: bool) -> &'static str {
    match (numbers, kills) {
        (1, true) => "KILL",
        (1, false) => "DEATH",
        (_, true) => "KILLS",
        (_, false) => "DEATHS",
    }
}

/// Returns whether a finding has a remedy for a memory kill in the same job as a memory kill in
/// `deaths`.
pub fn has_remedy_for_same_job(
    report: &Report,
    finding: &Finding,
    deaths: &BTreeSet<EventId>,
) -> bool {
    let kills = || {
        let deaths = report.deaths.iter();
        deaths.filter(|death| death.verdict.killer.is_memory_kill())
    };
    // Each cluster counts its jobs from 1.
    let job = |death: &Death| Some((death.cluster, death.work.job_id.clone()?));
    let jobs: BTreeSet<_> = kills()
        .filter(|death| deaths.contains(&death.id))
        .filter_map(job)
        .collect();
    let beside = |death: &Death| {
        finding.deaths.contains(&death.id) && job(death).is_some_and(|job| jobs.contains(&job))
    };
    !finding.remedy.is_empty() && kills().any(beside)
}

/// Returns all first causes of a report, numbered in the order of their acts.
pub fn all(report: &Report) -> Vec<Cause<'_>> {
    let roots = roots(report);
    let mut found: HashMap<EventId, Cause<'_>> = HashMap::new();
    let by_id = by_id(report);
    for death in in_order(report).into_iter().filter(|death| death.listed) {
        let Some(root) = roots.get(&death.id).and_then(|root| by_id.get(root)) else {
            continue;
        };
        let cause = found.entry(root.id).or_insert_with(|| Cause {
            number: 0,
            death: root,
            cascade: Vec::new(),
        });
        if death.id != root.id {
            cause.cascade.push(death);
        }
    }
    let mut causes: Vec<Cause<'_>> = found.into_values().collect();
    causes.sort_by_key(|cause| (cause.death.when.act_time, cause.death.id));
    for (number, cause) in (1..).zip(&mut causes) {
        cause.number = number;
    }
    causes
}

/// Maps each death to its first cause. A first cause maps to itself.
pub fn roots(report: &Report) -> BTreeMap<EventId, EventId> {
    let by_id = by_id(report);
    report
        .deaths
        .iter()
        .map(|death| (death.id, root(&by_id, death)))
        .collect()
}

/// Follows the chain of causes to its end. A chain with a cycle ends where it would repeat.
pub(super) fn root(by_id: &HashMap<EventId, &Death>, death: &Death) -> EventId {
    let mut seen = vec![death.id];
    let mut current = death;
    while let Some(cause) = current.verdict.cause().and_then(|id| by_id.get(&id)) {
        if seen.contains(&cause.id) {
            break;
        }
        seen.push(cause.id);
        current = cause;
    }
    stands_for(by_id, current)
}

/// Returns the death that stands for the act. An act is one first cause, however many victims it
/// has.
fn stands_for(by_id: &HashMap<EventId, &Death>, death: &Death) -> EventId {
    let act = death.verdict.act.map(|act| act.death_id);
    act.filter(|id| by_id.contains_key(id)).unwrap_or(death.id)
}

/// Indexes the deaths by id.
pub(super) fn by_id(report: &Report) -> HashMap<EventId, &Death> {
    report
        .deaths
        .iter()
        .map(|death| (death.id, death))
        .collect()
}

fn in_order(report: &Report) -> Vec<&Death> {
    let mut deaths: Vec<&Death> = report.deaths.iter().collect();
    deaths.sort_by_key(|death| (death.when.act_time, death.id));
    deaths
}

/// An entry of the report: one first cause, or a group of similar ones.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// One cause, or at least [`GROUP`] similar ones, in order.
    pub causes: Vec<Cause<'a>>,
}

impl<'a> Entry<'a> {
    /// Returns the first of its causes, which decides the order of entries.
    pub fn first(&self) -> &Cause<'a> {
        &self.causes[0]
    }
}

/// Folds first causes that are alike: same killer, same kind of victim, same sender.
pub fn fold(causes: Vec<Cause<'_>>) -> Vec<Entry<'_>> {
    let mut alike: HashMap<Likeness, usize> = HashMap::new();
    for cause in &causes {
        *alike.entry(Likeness::of(cause)).or_default() += 1;
    }
    let mut place: HashMap<Likeness, usize> = HashMap::new();
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for cause in causes {
        let likeness = Likeness::of(&cause);
        let many = alike.get(&likeness).is_some_and(|count| *count >= GROUP)
            && cause.cascade.len() <= SMALL_CASCADE;
        if let Some(at) = place.get(&likeness).filter(|_| many) {
            entries[*at].causes.push(cause);
            continue;
        }
        if many {
            place.insert(likeness, entries.len());
        }
        entries.push(Entry {
            causes: vec![cause],
        });
    }
    entries
}

/// The properties that make two first causes alike.
#[derive(PartialEq, Eq, Hash)]
struct Likeness {
    killer: Killer,
    class: String,
    exit_code: Option<i32>,
    signal: Option<i32>,
    sender: Option<String>,
    cluster: Option<u32>,
    settled: bool,
}

impl Likeness {
    fn of(cause: &Cause<'_>) -> Self {
        let death = cause.death;
        Self {
            killer: death.verdict.killer,
            class: words::class(death),
            exit_code: death.end.exit_code,
            signal: death.end.signal,
            sender: death.sender.as_ref().map(|sender| sender.comm.clone()),
            cluster: death.cluster,
            settled: death.verdict.settled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::sample;

    /// Each cluster counts its jobs from 1.
    #[test]
    fn job_of_another_cluster_is_another_job() {
        let mut report = sample::verl();
        let mut other = report.deaths[0].clone();
        other.id = EventId(1);
        report.deaths.push(other);
        let mut finding = report.findings[0].clone();
        finding.remedy = vec!["num_cpus=4".into()];
        finding.deaths = vec![EventId(4100)];
        let of = |report: &Report| has_remedy_for_same_job(report, &finding, &[EventId(1)].into());
        assert!(of(&report));
        report.deaths.last_mut().expect("a death").cluster = Some(7);
        assert!(!of(&report));
    }
}
