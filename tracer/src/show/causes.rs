//! First causes and what hangs on them: a report leads with the deaths that nothing else caused.
//!
//! A first cause keeps its number in every view and under every filter: it counts the first causes of the whole report
//! in the order of their acts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{
    ids::EventId,
    judge::report::{Death, Finding, Killer, Report},
    show::words,
};

/// From so many alike on, first causes are shown as one group.
const GROUP: usize = 4;
/// A first cause with a longer cascade is never folded into a group.
const SMALL_CASCADE: usize = 3;

/// A death that no other death caused, with the listed deaths that hang on it.
#[derive(Debug, Clone)]
pub struct Cause<'a> {
    /// Its number in the report, from 1.
    pub number: u32,
    /// The death.
    pub death: &'a Death,
    /// Listed deaths whose chain of causes ends here, in order of their acts; the other victims of its act are among them.
    pub cascade: Vec<&'a Death>,
}

impl<'a> Cause<'a> {
    /// The deaths that followed from it: the other victims of one act did not, and the headline counts them.
    #[must_use]
    pub fn followers(&self) -> Vec<&'a Death> {
        let followed = self.cascade.iter().filter(|death| !self.is_of_act(death));
        followed.copied().collect()
    }

    /// Whether the act that this death stands for ended that one too.
    #[must_use]
    pub fn is_of_act(&self, death: &Death) -> bool {
        let act = death.verdict.act;
        act.is_some_and(|act| act.death_id == self.death.id)
    }

    /// `KILL 2`, or `DEATH 2` where nobody killed; the two words stay on one line.
    #[must_use]
    pub fn label(&self) -> String {
        let word = if words::is_kill(self.death.verdict.killer) {
            "KILL"
        } else {
            "DEATH"
        };
        format!("{word}\u{a0}{}", self.number)
    }
}

/// Whether a finding has a remedy for another memory kill of these deaths' jobs.
#[must_use]
pub fn mends_a_kill_beside(report: &Report, finding: &Finding, deaths: &BTreeSet<EventId>) -> bool {
    let kills = || {
        let deaths = report.deaths.iter();
        deaths.filter(|death| words::is_memory_kill(death.verdict.killer))
    };
    let jobs: BTreeSet<_> = kills()
        .filter(|death| deaths.contains(&death.id))
        .filter_map(|death| death.work.job_id.as_ref())
        .collect();
    let beside = |death: &Death| {
        let job = death.work.job_id.as_ref();
        finding.deaths.contains(&death.id) && job.is_some_and(|job| jobs.contains(job))
    };
    !finding.remedy.is_empty() && kills().any(beside)
}

/// All first causes of a report, numbered in the order of their acts.
#[must_use]
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

/// For each death the one at the end of its chain of causes; its own id where nothing caused it.
#[must_use]
pub fn roots(report: &Report) -> BTreeMap<EventId, EventId> {
    let by_id = by_id(report);
    report
        .deaths
        .iter()
        .map(|death| (death.id, root(&by_id, death)))
        .collect()
}

/// A chain that bites its own tail ends where it would repeat.
fn root(by_id: &HashMap<EventId, &Death>, death: &Death) -> EventId {
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

/// One act is one first cause: the death that stands for it is that of all its victims.
fn stands_for(by_id: &HashMap<EventId, &Death>, death: &Death) -> EventId {
    let act = death.verdict.act.map(|act| act.death_id);
    act.filter(|id| by_id.contains_key(id)).unwrap_or(death.id)
}

/// The deaths by their ids.
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

/// What one place of the report shows: a first cause, or several that are alike.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// One, or at least [`GROUP`] alike, in order.
    pub causes: Vec<Cause<'a>>,
}

impl<'a> Entry<'a> {
    /// The first of its causes, after which the place is ordered.
    #[must_use]
    pub fn first(&self) -> &Cause<'a> {
        &self.causes[0]
    }
}

/// Folds first causes that are alike: same killer, same kind of victim, same sender.
#[must_use]
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

/// What makes two first causes alike.
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
