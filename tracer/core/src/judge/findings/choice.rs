//! Which findings are told and in which order: one for each cause, the one that explains most kills first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{Run, rules};
use crate::{
    ids::EventId,
    judge::report::{Death, Finding},
};

/// Findings that say how and by what a process grew.
const TELLING: [&str; 6] = [
    "controller-grew",
    "children-grew",
    "call-grew",
    "leak",
    "save-spike",
    "load-spike",
];
/// Findings that only say who held much: one of the former about the same process says more.
const SIZES: [&str; 4] = [
    "victim-not-biggest",
    "one-process",
    "head-component",
    "many-workers",
];
/// Findings whose remedy is another limit: what a setting of the workload can mend comes before.
const LIMITS: [&str; 2] = ["limit-unseen", "monitor-off"];

/// Leaves out what another finding says better of the same processes, and growth that a leak explains.
pub(super) fn one_per_cause(run: Run<'_>, findings: &mut Vec<Finding>) {
    let telling: Vec<Finding> = findings
        .iter()
        .filter(|finding| TELLING.contains(&finding.rule.as_str()))
        .cloned()
        .collect();
    let crowds: Vec<Finding> = findings
        .iter()
        .filter(|finding| finding.rule == "many-workers")
        .cloned()
        .collect();
    let acts = acts(run);
    findings.retain(|finding| {
        let said = match finding.rule.as_str() {
            rule if SIZES.contains(&rule) => told(&acts, &telling, finding),
            "call-grew" => !has_key(finding) && crowded(&crowds, finding),
            "grows-per-call" => telling
                .iter()
                .any(|one| one.rule == "leak" && one.about.task == finding.about.task),
            _ => false,
        };
        !said
    });
}

/// Whether a finding turns a setting.
fn has_key(finding: &Finding) -> bool {
    finding
        .remedy
        .iter()
        .any(|remedy| remedy.contains(" (now "))
}

/// Whether its processes are many alike: then fewer of them help, and no smaller call.
fn crowded(crowds: &[Finding], finding: &Finding) -> bool {
    let mut pids = finding.about.pids.iter();
    pids.any(|pid| crowds.iter().any(|crowd| crowd.about.pids.contains(pid)))
}

/// Whether each kill of `finding` is explained by what a telling one says of one of the same processes.
fn told(acts: &Acts, telling: &[Finding], finding: &Finding) -> bool {
    let pids = &finding.about.pids;
    let crowd = finding.rule == "many-workers";
    let same = |one: &&Finding| {
        let more = !crowd || one.rule != "call-grew" || has_key(one);
        more && pids.iter().any(|pid| one.about.pids.contains(pid))
    };
    let said: Vec<&Finding> = telling.iter().filter(same).collect();
    let said = Explained::by(said, acts);
    !pids.is_empty() && finding.deaths.iter().all(|death| said.has(*death))
}

/// The decision by which each process died, where that is known.
type Acts = BTreeMap<EventId, EventId>;

fn acts(run: Run<'_>) -> Acts {
    let deaths = run.report.deaths.iter();
    let acts = deaths.filter_map(|death| Some((death.id, death.verdict.act?.death_id)));
    acts.collect()
}

/// The deaths that some findings are about, with the other victims of the same decisions.
struct Explained<'a> {
    acts: &'a Acts,
    deaths: BTreeSet<EventId>,
    decisions: BTreeSet<EventId>,
}

impl<'a> Explained<'a> {
    fn by<'f>(findings: impl IntoIterator<Item = &'f Finding>, acts: &'a Acts) -> Self {
        let deaths = findings.into_iter().flat_map(|finding| &finding.deaths);
        let deaths: BTreeSet<EventId> = deaths.copied().collect();
        let decisions = deaths.iter().filter_map(|death| acts.get(death));
        Self {
            acts,
            decisions: decisions.copied().collect(),
            deaths,
        }
    }

    fn has(&self, death: EventId) -> bool {
        let act = self.acts.get(&death);
        self.deaths.contains(&death) || act.is_some_and(|act| self.decisions.contains(act))
    }
}

/// The memory kills of which no cause is known.
pub(super) fn unexplained<'a>(run: Run<'a>, findings: &[Finding]) -> Vec<&'a Death> {
    let acts = acts(run);
    let causes = findings.iter().filter(|finding| rules::is_cause(finding));
    let explained = Explained::by(causes, &acts);
    let kills = run.memory_kills();
    kills.filter(|death| !explained.has(death.id)).collect()
}

/// Causes by the kills that they explain, other limits after them; then what is no cause, as it stood.
pub(super) fn order(run: Run<'_>, findings: &mut [Finding]) {
    let acts = acts(run);
    let kills: Vec<EventId> = run.memory_kills().map(|death| death.id).collect();
    let count = |finding: &Finding| {
        let explained = Explained::by([finding], &acts);
        kills.iter().filter(|death| explained.has(**death)).count()
    };
    let place = |finding: &Finding| {
        let limit = LIMITS.contains(&finding.rule.as_str());
        let rank = match finding.rule.as_str() {
            "nothing-fits" => 2,
            _ if !rules::is_cause(finding) => 3,
            _ if limit => 1,
            _ => 0,
        };
        let without_remedy = rank == 0 && finding.remedy.is_empty();
        let explained = if rank == 0 { count(finding) } else { 0 };
        (rank, Reverse(explained), without_remedy)
    };
    findings.sort_by_cached_key(place);
}
