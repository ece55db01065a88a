//! Which findings are told and in which order: one for each cause, the one that explains most kills first.

use std::cmp::Reverse;

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
    findings.retain(|finding| {
        let said = match finding.rule.as_str() {
            rule if SIZES.contains(&rule) => told(run, &telling, finding),
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
fn told(run: Run<'_>, telling: &[Finding], finding: &Finding) -> bool {
    let pids = &finding.about.pids;
    let crowd = finding.rule == "many-workers";
    let same = |one: &&Finding| {
        let more = !crowd || one.rule != "call-grew" || has_key(one);
        more && pids.iter().any(|pid| one.about.pids.contains(pid))
    };
    let said: Vec<&Finding> = telling.iter().filter(same).collect();
    let by_any = |death: &EventId| said.iter().any(|one| explains(run, one, *death));
    !pids.is_empty() && finding.deaths.iter().all(by_any)
}

/// Whether a finding is about a death, or about another victim of the same decision.
fn explains(run: Run<'_>, finding: &Finding, death: EventId) -> bool {
    if finding.deaths.contains(&death) {
        return true;
    }
    let act = |id: EventId| {
        let found = run.report.deaths.iter().find(|one| one.id == id);
        Some(found?.verdict.act?.death_id)
    };
    let own = act(death);
    own.is_some() && finding.deaths.iter().any(|other| act(*other) == own)
}

/// Whether a cause of a memory kill is known.
pub(super) fn is_explained(run: Run<'_>, findings: &[Finding], death: &Death) -> bool {
    let mut causes = findings.iter().filter(|finding| rules::is_cause(finding));
    causes.any(|finding| explains(run, finding, death.id))
}

/// Causes by the kills that they explain, other limits after them; then what is no cause, as it stood.
pub(super) fn order(run: Run<'_>, findings: &mut [Finding]) {
    let kills: Vec<EventId> = run.memory_kills().map(|death| death.id).collect();
    let place = |finding: &Finding| {
        let limit = LIMITS.contains(&finding.rule.as_str());
        let explained = kills.iter().filter(|death| explains(run, finding, **death));
        let rank = match finding.rule.as_str() {
            "nothing-fits" => 2,
            _ if !rules::is_cause(finding) => 3,
            _ if limit => 1,
            _ => 0,
        };
        let without_remedy = rank == 0 && finding.remedy.is_empty();
        (
            rank,
            Reverse(if rank == 0 { explained.count() } else { 0 }),
            without_remedy,
        )
    };
    findings.sort_by_key(place);
}
