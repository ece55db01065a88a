//! Chooses the findings to report: one for each cause, the one that explains most kills first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{Run, kind, rules::Kind};
use crate::{
    ids::{Bytes, EventId},
    judge::report::{Death, Finding},
};

/// Rules about memory that a job keeps and does not need.
const KEEP: [&str; 5] = [
    "leak",
    "grows-per-call",
    "controller-grew",
    "children-grew",
    "victim-not-biggest",
];

/// Removes findings about processes that another finding explains better, and growth that a leak
/// explains.
pub(super) fn one_per_cause(run: Run<'_>, findings: &mut Vec<Finding>) {
    let telling: Vec<Finding> = findings
        .iter()
        .filter(|finding| kind(finding) == Some(Kind::Growth))
        .cloned()
        .collect();
    let worker_groups: Vec<Finding> = findings
        .iter()
        .filter(|finding| finding.rule == "many-workers")
        .cloned()
        .collect();
    let acts = acts(run);
    findings.retain(|finding| {
        let said = match finding.rule.as_str() {
            _ if kind(finding) == Some(Kind::Size) => is_explained(&acts, &telling, finding),
            "call-grew" => !finding.about.turns && is_in_worker_group(&worker_groups, finding),
            "grows-per-call" => telling
                .iter()
                .any(|one| one.rule == "leak" && one.about.task == finding.about.task),
            _ => false,
        };
        !said
    });
}

/// Returns whether a process of the finding belongs to a group of many workers alike. Fewer workers
/// help then, not smaller calls.
fn is_in_worker_group(worker_groups: &[Finding], finding: &Finding) -> bool {
    let mut pids = finding.about.pids.iter();
    pids.any(|pid| {
        worker_groups
            .iter()
            .any(|group| group.about.pids.contains(pid))
    })
}

/// Returns whether each kill of `finding` is explained by findings of `telling` that share a
/// process with it.
fn is_explained(acts: &Acts, telling: &[Finding], finding: &Finding) -> bool {
    let pids = &finding.about.pids;
    let is_many_workers = finding.rule == "many-workers";
    let same = |one: &&Finding| {
        let more = !is_many_workers || one.rule != "call-grew" || one.about.turns;
        more && pids.iter().any(|pid| one.about.pids.contains(pid))
    };
    let said: Vec<&Finding> = telling.iter().filter(same).collect();
    let said = ExplainedDeaths::by(said, acts);
    !pids.is_empty() && finding.deaths.iter().all(|death| said.has(*death))
}

/// Maps each death to the decision that ended the process, if known.
type Acts = BTreeMap<EventId, EventId>;

fn acts(run: Run<'_>) -> Acts {
    let deaths = run.report.deaths.iter();
    let acts = deaths.filter_map(|death| Some((death.id, death.verdict.act?.death_id)));
    acts.collect()
}

/// The deaths that some findings explain, with the other victims of the same decisions.
struct ExplainedDeaths<'a> {
    acts: &'a Acts,
    deaths: BTreeSet<EventId>,
    decisions: BTreeSet<EventId>,
}

impl<'a> ExplainedDeaths<'a> {
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

/// Extends each cause of one victim to the other victims of the same decision.
pub(super) fn cover_decisions(run: Run<'_>, findings: &mut [Finding]) {
    let acts = acts(run);
    for finding in findings.iter_mut().filter(|one| super::is_cause(one)) {
        let explained = ExplainedDeaths::by([&*finding], &acts);
        let others = run.memory_kills().map(|death| death.id);
        let others = others.filter(|id| explained.has(*id) && !finding.deaths.contains(id));
        let others: Vec<EventId> = others.collect();
        finding.deaths.extend(others);
    }
}

/// Returns the memory kills that no finding explains. Processes that were killed together with
/// another one (`memory.oom.group`, or because they shared its memory) are left out: that one's
/// cause is theirs.
pub(super) fn unexplained<'a>(run: Run<'a>, findings: &[Finding]) -> Vec<&'a Death> {
    let acts = acts(run);
    let causes = findings.iter().filter(|finding| super::is_cause(finding));
    let explained = ExplainedDeaths::by(causes, &acts);
    let killed: BTreeSet<EventId> = run.memory_kills().map(|death| death.id).collect();
    let with_another = |death: &Death| {
        let cause = death.verdict.cause_death_id;
        cause.is_some_and(|cause| killed.contains(&cause))
    };
    let kills = run.memory_kills();
    let left = kills.filter(|death| !explained.has(death.id) && !with_another(death));
    left.collect()
}

/// Sorts findings for the report.
///
/// Causes come first: those with a remedy, then by the kills and the memory that they explain.
/// Causes that only another limit can fix come next, then findings without a cause, which keep
/// their order. A limit for which the machine has room comes before settings, because it costs
/// neither time nor results, and after what keeps memory that it does not need.
pub(super) fn order(run: Run<'_>, findings: &mut [Finding]) {
    let acts = acts(run);
    let kills: Vec<EventId> = run.memory_kills().map(|death| death.id).collect();
    let count = |finding: &Finding| {
        let explained = ExplainedDeaths::by([finding], &acts);
        kills.iter().filter(|death| explained.has(**death)).count()
    };
    let sizes: Vec<Finding> = findings
        .iter()
        .filter(|finding| kind(finding) == Some(Kind::Size))
        .cloned()
        .collect();
    let place = |finding: &Finding| {
        let kind = kind(finding);
        let rank = match kind {
            Some(Kind::Growth | Kind::Size | Kind::Cause | Kind::Setting) => 0,
            Some(Kind::Limit) => 1,
            None => 2,
            Some(Kind::Note) => 3,
        };
        if rank > 0 {
            return (rank, false, Reverse(0), Reverse(Bytes(0)));
        }
        // A setting ranks no lower than a finding that says only that the same processes are big.
        let beside = sizes.iter().filter(|size| {
            let mut pids = finding.about.pids.iter();
            kind == Some(Kind::Setting) && pids.any(|pid| size.about.pids.contains(pid))
        });
        let all: Vec<&Finding> = beside.chain([finding]).collect();
        let bytes = all.iter().map(|one| one.about.bytes).max();
        let kills = all.iter().map(|one| count(one)).max();
        let without_remedy = finding.remedy.is_empty();
        (
            rank,
            without_remedy,
            Reverse(kills.unwrap_or_default()),
            Reverse(bytes.unwrap_or_default()),
        )
    };
    findings.sort_by_cached_key(place);
    let mut at = 0;
    while at < findings.len() {
        let limit = &findings[at];
        let above = &findings[..at];
        let stays = above.iter().rposition(|one| stays_before(one, limit));
        let from = stays.map_or(0, |stays| stays + 1);
        let first = above[from..].iter().position(|one| costs_more(one, limit));
        if let Some(first) = first {
            findings[from + first..=at].rotate_right(1);
        }
        at += 1;
    }
}

/// Returns whether a finding comes before a higher limit although that costs less: too many workers
/// of the user's. The limit is computed from those that had begun, and more may be to start. The
/// ranks of a framework, for which no saving is expected, have all begun.
fn stays_before(finding: &Finding, limit: &Finding) -> bool {
    let mut deaths = finding.deaths.iter();
    finding.rule == "many-workers"
        && finding.saving.is_some()
        && deaths.any(|death| limit.deaths.contains(death))
}

/// Returns whether the remedy of a finding costs more than a limit for which the machine has room:
/// it changes a setting, where nothing is kept that is not needed.
fn costs_more(finding: &Finding, limit: &Finding) -> bool {
    let keeps = KEEP.contains(&finding.rule.as_str()) || finding.about.own_line;
    let mut deaths = finding.deaths.iter();
    limit.about.has_room
        && !stays_before(finding, limit)
        && (!keeps || finding.remedy.is_empty())
        && !finding.about.has_room
        && deaths.any(|death| limit.deaths.contains(death))
}

#[cfg(test)]
mod tests {
    use super::{costs_more, stays_before};
    use crate::{
        ids::{Bytes, EventId},
        judge::report::{Certainty, Finding, Saving},
    };

    /// A limit is computed from the workers that had begun, and more of them may be to start.
    #[test]
    fn fewer_workers_come_before_a_higher_limit() {
        let finding = |rule| Finding {
            deaths: vec![EventId(1)],
            remedy: vec!["a=1".into()],
            ..Finding::new(rule, Certainty::Inferred, "")
        };
        let mut limit = finding("hidden-limit");
        limit.about.has_room = true;
        assert!(costs_more(&finding("call-grew"), &limit));
        // All ranks of a framework have begun, and fewer of them cost time.
        let mut many = finding("many-workers");
        assert!(costs_more(&many, &limit));
        many.saving = Some(Saving::of(None, Bytes(1)));
        assert!(stays_before(&many, &limit) && !costs_more(&many, &limit));
    }
}
