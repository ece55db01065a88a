//! Causes and remedies: one rule a file, each a pure function of what was recorded (or read) and judged.
//!
//! A rule speaks only with its figures. Where a memory kill is explained by none, that is said, with the table. Rules see
//! [`facts::Facts`] and the report, so that a recording and texts have the same ones.

mod advice;
mod after_effects;
mod allocator;
mod call_growth;
mod children;
mod choice;
mod code;
mod contradictions;
mod controller;
mod decorated;
pub(in crate::judge) mod facts;
mod framework;
mod gpu_count;
mod gpu_orphan;
mod gpus;
mod growing;
mod grows_per_call;
mod head;
mod high_threshold;
mod idle;
mod leak;
mod left_over;
mod log_warnings;
mod many_workers;
mod monitor_off;
mod more_memory;
mod nothing_fits;
mod object_store;
mod of_recording;
mod offload;
mod one_process;
mod outside_ray;
mod own_shared;
mod pinned;
mod precision;
mod ranks;
mod remedy;
mod resources;
mod retry_loop;
mod rules;
mod second_cluster;
mod settings;
mod shared_memory;
mod spikes;
mod store_filled;
mod teardown;
mod unseen_limit;
mod whole_model;
mod wrong_suspect;

pub(super) use of_recording::facts as of_recording;
pub(super) use offload::paired;
pub(super) use settings::all as settings;
pub(super) use unseen_limit::rounded_down;

use crate::{
    ids::{Bytes, EventId},
    judge::report::{
        About, Certainty, ClusterReport, Death, Finding, Monitor, Report, Saving, Suspect,
    },
    ray::{framework::Framework, start::Start},
};
use facts::{Facts, Held, LimitMembers, Node};
use rules::{Kind, Rule};

/// The rules, in the order in which their findings are shown: causes first, then settings, then what is no cause.
static ALL: [Rule; 34] = [
    controller::RULE,
    leak::RULE,
    call_growth::RULE,
    children::RULE,
    wrong_suspect::RULE,
    allocator::RULE,
    idle::RULE,
    spikes::RULE,
    grows_per_call::RULE,
    offload::RULE,
    framework::HOST_MEMORY,
    store_filled::RULE,
    many_workers::RULE,
    one_process::RULE,
    head::RULE,
    outside_ray::RULE,
    unseen_limit::RULE,
    monitor_off::RULE,
    own_shared::RULE,
    pinned::RULE,
    shared_memory::RULE,
    retry_loop::RULE,
    high_threshold::RULE,
    settings::RULE,
    framework::NO_HELP,
    object_store::RULE,
    advice::RULE,
    second_cluster::RULE,
    left_over::RULE,
    gpu_orphan::RULE,
    gpu_count::RULE,
    log_warnings::RULE,
    after_effects::RULE,
    teardown::RULE,
];

/// Processes that have a line of evidence in a finding.
const LINES: usize = 8;

/// What rules look at.
#[derive(Clone, Copy)]
struct Run<'a> {
    facts: &'a Facts,
    report: &'a Report,
    /// The framework by what only that one prints or is started by: forks have the same actors.
    named_framework: Option<Framework>,
    framework: Framework,
}

/// Names at each memory kill who held the memory, where that was not the victim.
pub(super) fn name_suspects(facts: &Facts, report: &mut Report) {
    let run = Run::new(facts, &*report);
    let suspects: Vec<Option<Suspect>> = report
        .deaths
        .iter()
        .map(|death| wrong_suspect::suspect(run, death))
        .collect();
    for (death, suspect) in report.deaths.iter_mut().zip(suspects) {
        death.memory.suspect = suspect;
    }
}

/// All findings.
pub(super) fn all(facts: &Facts, report: &Report) -> Vec<Finding> {
    let run = Run::new(facts, report);
    let rules = ALL.iter().filter(|rule| rule.applies(run));
    let mut findings: Vec<Finding> = rules.flat_map(|rule| found(rule, run)).collect();
    choice::one_per_cause(run, &mut findings);
    choice::cover_decisions(run, &mut findings);
    let mut left = choice::unexplained(run, &findings);
    // A text that lists nobody beside the victim has no table to show.
    left.retain(|death| !report.recordings.is_empty() || death.memory.top.len() > 1);
    findings.extend(nothing_fits::find(&left));
    choice::order(run, &mut findings);
    contradictions::mark(&mut findings);
    findings
}

fn found(rule: &Rule, run: Run<'_>) -> Vec<Finding> {
    let found = (rule.find)(run);
    let known = |finding: &Finding| rule.ids.contains(&finding.rule.as_str());
    debug_assert!(found.iter().all(known), "{:?} found {found:?}", rule.ids);
    found
}

impl<'a> Run<'a> {
    fn new(facts: &'a Facts, report: &'a Report) -> Self {
        let named_framework = named_framework(facts);
        let held = facts.limit_members.values().flat_map(|one| &one.inside);
        let classes = held.filter_map(|held| held.class.as_deref());
        let framework = named_framework.or_else(|| Framework::of_classes(&classes));
        Self {
            facts,
            report,
            named_framework,
            framework: framework.unwrap_or(Framework::Ray),
        }
    }

    /// Deaths by a memory kill, whoever killed.
    fn memory_kills(self) -> impl Iterator<Item = &'a Death> {
        self.report.deaths.iter().filter(|death| for_memory(death))
    }

    fn limit_members(self, death: &Death) -> Option<&'a LimitMembers> {
        self.facts.limit_members.get(&death.id)
    }

    /// The processes that count against the limit that a death met: those of its cluster, inside the cgroup at its limit.
    fn inside(self, death: &Death) -> &'a [Held] {
        self.limit_members(death)
            .map_or(&[], |members| &members.inside)
    }

    /// The number of a death's cluster; texts of one node name none.
    fn number(self, death: &Death) -> Option<usize> {
        let number = death
            .cluster
            .and_then(|cluster| usize::try_from(cluster).ok());
        let text = self.report.recordings.is_empty() && self.report.clusters.len() == 1;
        number.or(text.then_some(0))
    }

    /// The raylet of a death.
    fn node(self, death: &Death) -> Option<&'a Node> {
        self.facts.nodes.get(self.number(death)?)
    }

    /// How a death's node was started.
    fn started(self, death: &Death) -> Start {
        self.node(death)
            .map_or(Start::default(), |node| node.started)
    }

    /// How the first node was started: for what concerns no death.
    fn start(self) -> Start {
        let node = self.facts.nodes.first();
        node.map_or(Start::default(), |node| node.started)
    }

    /// A death's cluster as the report has it.
    fn cluster(self, death: &Death) -> Option<&'a ClusterReport> {
        self.report.clusters.get(self.number(death)?)
    }

    /// What the raylet logged of its monitor.
    fn monitor(self, death: &Death) -> Option<&'a Monitor> {
        self.cluster(death)?.monitor.as_ref()
    }

    /// The limit that a death met: the cgroup's, else Ray's threshold.
    fn limit(self, death: &Death) -> Option<Bytes> {
        let cgroup = death.memory.oom.as_ref().and_then(|oom| oom.limit_bytes);
        let ray = || death.memory.at_death.as_ref()?.ray_threshold_bytes;
        let of_cluster = || self.monitor(death)?.threshold_bytes;
        let limit = cgroup.or_else(ray).or_else(of_cluster);
        limit.filter(|limit| limit.0 > 0)
    }
}

/// The framework by what was printed, or by its driver's command line.
fn named_framework(facts: &Facts) -> Option<Framework> {
    let printed = facts.printed.iter().flat_map(|one| &one.settings);
    let keys = printed.map(|(key, _)| key.as_str());
    let mut drivers = facts.drivers.iter();
    Framework::of_keys(keys)
        .or_else(|| drivers.find_map(|one| Framework::of_command_line(&one.argv)))
}

/// Whether a cgroup is `limit` or below it.
pub(super) fn within(cgroup: Option<&str>, limit: &str) -> bool {
    cgroup.is_some_and(|cgroup| std::path::Path::new(cgroup).starts_with(limit))
}

/// Whether memory was the reason.
fn for_memory(death: &Death) -> bool {
    death.verdict.killer.is_memory_kill()
}

/// What a finding says of a kill; `None` for `nothing-fits`, which no rule has.
fn kind(finding: &Finding) -> Option<Kind> {
    let mut rules = ALL.iter();
    let rule = rules.find(|rule| rule.ids.contains(&finding.rule.as_str()))?;
    // Nothing is known of settings whose processes were not seen.
    let unseen = rule.kind == Kind::Setting && finding.about.pids.is_empty();
    Some(if unseen { Kind::Note } else { rule.kind })
}

/// Whether a finding names a cause of a kill.
fn is_cause(finding: &Finding) -> bool {
    kind(finding).is_some_and(|kind| kind != Kind::Note)
}

/// Who died and of what, as evidence.
fn victim(death: &Death) -> String {
    let process = &death.process;
    let killer = death.verdict.killer.name();
    format!("{} (pid {}): {killer}", process.comm, process.pid)
}

/// A finding about one death.
fn about(rule: &str, certainty: Certainty, death: &Death, summary: String) -> Finding {
    Finding {
        deaths: vec![death.id],
        ..Finding::new(rule, certainty, summary)
    }
}

/// The finding of these processes in one task, each with its line.
fn in_task(
    finding: Finding,
    task: &str,
    workers: &[&Held],
    line: fn(&Held) -> Option<String>,
) -> Finding {
    let lines = workers.iter().take(LINES);
    Finding {
        evidence: lines.filter_map(|held| line(held)).collect(),
        about: About {
            pids: workers.iter().map(|held| held.pid).collect(),
            task: Some(task.to_owned()),
            ..finding.about
        },
        ..finding
    }
}

/// Puts a remedy before the others.
fn leads(finding: &mut Finding, remedy: String, saving: Saving, cost: &str) {
    finding.remedy.insert(0, remedy);
    finding.saving = Some(saving);
    finding.cost = Some(cost.to_owned());
}

/// Findings of one rule with the same key become one, which keeps the words of the first and the deaths of all.
fn merged<K: PartialEq>(found: impl IntoIterator<Item = (K, Finding)>) -> Vec<Finding> {
    let mut kept: Vec<(K, Finding)> = Vec::new();
    for (key, finding) in found {
        match kept.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => {
                let new: Vec<EventId> = finding
                    .deaths
                    .into_iter()
                    .filter(|id| !known.deaths.contains(id))
                    .collect();
                known.deaths.extend(new);
            }
            None => kept.push((key, finding)),
        }
    }
    kept.into_iter().map(|(_, finding)| finding).collect()
}

#[cfg(test)]
mod tests {
    use super::{rules::Contradiction, *};

    fn is_known(id: &str) -> bool {
        ALL.iter().any(|rule| rule.ids.contains(&id))
    }

    #[test]
    fn every_contradiction_is_between_findings_that_exist_and_stands_once() {
        let pairs: Vec<&Contradiction> = ALL.iter().flat_map(|rule| rule.contradicts).collect();
        for pair in &pairs {
            assert!(is_known(pair.rule) && is_known(pair.other), "{pair:?}");
            let same = |one: &&&Contradiction| {
                [one.rule, one.other] == [pair.rule, pair.other]
                    || [one.other, one.rule] == [pair.rule, pair.other]
            };
            assert_eq!(pairs.iter().filter(same).count(), 1, "{pair:?}");
        }
        for rule in &ALL {
            let own = |pair: &Contradiction| rule.ids.contains(&pair.rule);
            assert!(rule.contradicts.iter().all(own), "{:?}", rule.ids);
        }
    }

    #[test]
    fn the_documentation_names_every_rule() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/findings.md"
        );
        let text = std::fs::read_to_string(path).expect("docs/reference/findings.md");
        for id in ALL.iter().flat_map(|rule| rule.ids) {
            assert!(text.contains(&format!("`{id}`")), "{id}");
        }
    }
}
