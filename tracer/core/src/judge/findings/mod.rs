//! Finds the causes of memory kills and their remedies. Each rule is in its own file.
//!
//! A rule is a pure function of [`facts::Facts`] and the report, so the same rules serve recordings
//! and texts. A rule reports a finding only with the figures that support it. If no rule explains a
//! memory kill, a finding says so and lists the largest processes.

mod advice;
mod after_effects;
mod allocator;
mod call_growth;
mod children;
mod choice;
mod code;
mod contradictions;
mod controller;
pub(crate) mod facts;
mod files_filled;
mod framework;
mod gpu_orphan;
mod gpus;
mod growing;
mod grows_per_call;
mod head;
mod hidden_limit;
mod high_threshold;
mod idle;
mod leak;
mod left_over;
mod log_warnings;
mod low_threshold;
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
mod part_of;
mod pod;
mod precision;
mod ranks;
mod ray_remote;
mod remedy;
mod resources;
mod retry_loop;
mod rules;
mod second_cluster;
mod set_limit;
mod settings;
mod shared_memory;
mod slurm;
mod spikes;
mod store_filled;
mod teardown;
mod victim_not_biggest;
mod whole_model;

pub(super) use hidden_limit::rounded_down;
pub(super) use of_recording::facts as of_recording;
pub(super) use offload::find_offloads;
pub(super) use settings::all as settings;

use std::collections::{BTreeSet, HashMap};

use crate::{
    ids::{Bytes, EventId, Pid},
    judge::report::{
        About, Certainty, ClusterReport, Death, Finding, Host, Killer, Monitor, Report, Saving,
        Suspect,
    },
    ray::{framework::Framework, start::Start},
};
use facts::{Facts, LimitMembers, Member, Node};
use rules::{Kind, Rule};

/// All rules. Their order decides between findings of equal rank: causes first, then settings, then
/// notes that name no cause.
static ALL: [Rule; 38] = [
    Rule::at_kill(&["controller-grew"], Kind::Growth, controller::find),
    Rule::at_kill(&["leak"], Kind::Growth, leak::find),
    Rule::at_kill(&["call-grew"], Kind::Growth, call_growth::find),
    Rule::at_kill(&["call-held"], Kind::Size, call_growth::find_held),
    Rule::at_kill(&["children-grew"], Kind::Growth, children::find),
    Rule::at_kill(
        &["victim-not-biggest"],
        Kind::Size,
        victim_not_biggest::find,
    ),
    Rule::at_kill(&["allocator-keeps"], Kind::Cause, allocator::find),
    Rule::always(&["idle-workers"], Kind::Cause, idle::find),
    Rule::at_kill(&["save-spike", "load-spike"], Kind::Growth, spikes::find),
    Rule::always(&["grows-per-call"], Kind::Note, grows_per_call::find),
    Rule::at_kill(&["offload-to-host"], Kind::Cause, offload::find),
    Rule::at_kill(
        &["setting-takes-host-memory"],
        Kind::Setting,
        framework::takes_host_memory,
    ),
    Rule::at_kill(&["object-store-filled"], Kind::Cause, store_filled::find),
    Rule::at_kill(&["shared-files-filled"], Kind::Cause, files_filled::find),
    Rule::at_kill(&["many-workers"], Kind::Size, many_workers::find),
    Rule::at_kill(&["one-process"], Kind::Size, one_process::find),
    Rule::at_kill(&["head-component"], Kind::Size, head::find),
    Rule::at_kill(&["outside-ray"], Kind::Cause, outside_ray::find),
    Rule::at_kill(&["hidden-limit"], Kind::Limit, hidden_limit::find),
    Rule::at_kill(&["low-threshold"], Kind::Limit, low_threshold::find),
    Rule::at_kill(&["monitor-off"], Kind::Limit, monitor_off::find),
    Rule::at_kill(&["private-shared-memory"], Kind::Cause, own_shared::find),
    Rule::always(
        &["shared-memory-full", "object-store-on-disk"],
        Kind::Note,
        shared_memory::find,
    ),
    Rule::at_kill(&["retry-loop"], Kind::Note, retry_loop::find),
    Rule::always(&["threshold-high"], Kind::Note, high_threshold::find),
    Rule::always(&["setting-without-effect"], Kind::Note, settings::find),
    Rule::at_kill(&["setting-does-not-help"], Kind::Note, framework::no_help),
    Rule::at_kill(
        &["object-store-not-reserved"],
        Kind::Note,
        object_store::find,
    ),
    Rule::always(
        &[
            "setting-without-effect",
            "kill-by-nvidia-smi-column",
            "setting-does-not-help",
            "not-fragmentation",
        ],
        Kind::Note,
        advice::find,
    ),
    Rule::always(&["set-limit"], Kind::Limit, set_limit::find),
    Rule::always(&["slurm-ended"], Kind::Note, slurm::find),
    Rule::always(&["pod-stopped"], Kind::Note, pod::find),
    Rule::always(&["second-cluster"], Kind::Note, second_cluster::find),
    Rule::always(&["left-over"], Kind::Note, left_over::find),
    Rule::always(&["gpu-orphan"], Kind::Note, gpu_orphan::find),
    Rule::always(
        &[
            "gpu-out-of-memory",
            "kv-cache-small",
            "shared-memory-small",
            "object-store-pressure",
            "disk-full",
            "allocation-refused",
            "node-memory-error",
            "threads-refused",
            "setting-refused",
            "monitor-without-victim",
        ],
        Kind::Note,
        log_warnings::find,
    ),
    Rule::always(&["after-effect"], Kind::Note, after_effects::find),
    Rule::always(&["teardown"], Kind::Note, teardown::find),
];

/// What it costs to change a line of the job's own code.
const OWN_CODE: &str = "a change of that code";
/// How many processes of a finding get a line of evidence.
const LINES: usize = 8;

/// The input of a rule.
#[derive(Clone, Copy)]
struct Run<'a> {
    facts: &'a Facts,
    report: &'a Report,
    /// The framework, if printed settings or a driver's command line identify it. Actor classes do
    /// not, because forks of a framework have the same ones.
    named_framework: Option<Framework>,
    framework: Framework,
}

/// Sets the suspect of each memory kill: the process that held the memory, if that was not the
/// victim.
pub(super) fn name_suspects(facts: &Facts, report: &mut Report) {
    let run = Run::new(facts, &*report);
    let mut killed: HashMap<Pid, Vec<&Death>> = HashMap::new();
    for death in run.memory_kills() {
        killed.entry(death.process.pid).or_default().push(death);
    }
    let suspects: Vec<Option<Suspect>> = report
        .deaths
        .iter()
        .map(|death| victim_not_biggest::suspect(run, death, &killed))
        .collect();
    for (death, suspect) in report.deaths.iter_mut().zip(suspects) {
        death.memory.suspect = suspect;
    }
}

/// Returns all findings, in the order of the report.
pub(super) fn all(facts: &Facts, report: &Report) -> Vec<Finding> {
    let run = Run::new(facts, report);
    let rules = ALL.iter().filter(|rule| rule.applies(run));
    let mut findings: Vec<Finding> = rules.flat_map(|rule| found(rule, run)).collect();
    choice::one_per_cause(run, &mut findings);
    choice::cover_decisions(run, &mut findings);
    let mut left = choice::unexplained(run, &findings);
    // A text that lists only the victim has no table to show.
    left.retain(|death| !report.recordings.is_empty() || death.memory.top.len() > 1);
    left.retain(|death| run.knows_what_counted(death));
    left.retain(|death| !facts.not_kept.contains(&death.id));
    findings.extend(nothing_fits::find(&left));
    for finding in &mut findings {
        if finding.about.own_line && !finding.remedy.is_empty() {
            finding.cost.get_or_insert_with(|| OWN_CODE.to_owned());
        }
    }
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

    /// Returns the deaths by a memory kill, whoever killed.
    fn memory_kills(self) -> impl Iterator<Item = &'a Death> {
        self.report
            .deaths
            .iter()
            .filter(|death| death.verdict.killer.is_memory_kill())
    }

    /// Asks a rule about each memory kill at a known limit, and joins its findings with equal keys.
    fn at_limits<K: PartialEq>(
        self,
        rule: impl Fn(&'a Death, Bytes) -> Option<(K, Finding)>,
    ) -> Vec<Finding> {
        let kills = self.memory_kills();
        merged(kills.filter_map(|death| rule(death, self.limit(death)?)))
    }

    /// Returns whether it is known what counted against the limit that a death hit: not if it was a
    /// cgroup's, and which one is not known. The table of processes in a kernel log has only those
    /// in the cgroup.
    fn knows_what_counted(self, death: &Death) -> bool {
        death.verdict.killer != Killer::KernelOomMemcg
            || death.memory.full_cgroup().is_some()
            || self.report.recordings.is_empty()
    }

    /// Returns the pid that names a kill in the report: of the victims of one decision, that of the
    /// one which stands for it.
    fn pid_of_kill(self, death: &Death) -> Pid {
        let act = death.verdict.act.map(|act| act.death_id);
        let mut deaths = self.report.deaths.iter();
        let head = deaths.find(|one| Some(one.id) == act);
        head.unwrap_or(death).process.pid
    }

    fn limit_members(self, death: &Death) -> Option<&'a LimitMembers> {
        self.facts.limit_members.get(&death.id)
    }

    /// Returns the processes that count against the limit that a death hit: those of its cluster,
    /// inside the cgroup at its limit.
    fn inside(self, death: &Death) -> &'a [Member] {
        self.limit_members(death)
            .map_or(&[], |members| &members.inside)
    }

    /// Returns the shared memory that counts against the limit that a death hit: of the cgroup, else
    /// of the machine.
    fn shared(self, death: &Death) -> Option<Bytes> {
        let members = self.limit_members(death)?;
        let of_machine = || Some(members.sums.as_ref()?.1.shmem);
        members.shared.or_else(of_machine)
    }

    /// Returns the number of a death's cluster. Texts of a single node do not name it; for them it
    /// is 0.
    fn number(self, death: &Death) -> Option<usize> {
        let number = death
            .cluster
            .and_then(|cluster| usize::try_from(cluster).ok());
        let text = self.report.recordings.is_empty() && self.report.clusters.len() == 1;
        number.or(text.then_some(0))
    }

    /// Returns the raylet of a death's node.
    fn node(self, death: &Death) -> Option<&'a Node> {
        self.facts.nodes.get(self.number(death)?)
    }

    /// Returns how a death's node was started.
    fn started(self, death: &Death) -> Start {
        self.node(death)
            .map_or(Start::default(), |node| node.started)
    }

    /// Returns how the first node was started, for findings that concern no death.
    fn start(self) -> Start {
        let node = self.facts.nodes.first();
        node.map_or(Start::default(), |node| node.started)
    }

    /// Returns the name of the machine that was recorded.
    fn host(self, recording: Option<u32>) -> Option<&'a Host> {
        let mut recordings = self.report.recordings.iter();
        let found = recordings.find(|one| Some(one.id) == recording)?;
        Some(&found.host)
    }

    /// Returns a death's cluster in the report.
    fn cluster(self, death: &Death) -> Option<&'a ClusterReport> {
        self.report.clusters.get(self.number(death)?)
    }

    /// Returns what the raylet logged about its memory monitor.
    fn monitor(self, death: &Death) -> Option<&'a Monitor> {
        self.cluster(death)?.monitor.as_ref()
    }

    /// Returns the limit that a death hit: the cgroup's, else Ray's threshold. It is not known if
    /// the kernel killed at a cgroup's limit, and which cgroup's is not known.
    fn limit(self, death: &Death) -> Option<Bytes> {
        let cgroup = death.memory.oom.as_ref().and_then(|oom| oom.limit_bytes);
        if death.verdict.killer == Killer::KernelOomMemcg {
            return cgroup.filter(|limit| limit.0 > 0);
        }
        let ray = || death.memory.at_death.as_ref()?.ray_threshold_bytes;
        let of_cluster = || self.monitor(death)?.threshold_bytes;
        let limit = cgroup.or_else(ray).or_else(of_cluster);
        limit.filter(|limit| limit.0 > 0)
    }
}

/// Returns the framework whose table the user gave for a driver's command line, else the one that
/// printed settings identify, else the one that a driver's command line identifies.
fn named_framework(facts: &Facts) -> Option<Framework> {
    let printed = facts.printed.iter().flat_map(|one| &one.settings);
    let keys = printed.map(|(key, _)| key.as_str());
    let mut drivers = facts.drivers.iter();
    let mut given = drivers.clone();
    given
        .find_map(|one| Framework::given_by_command(&one.argv))
        .or_else(|| Framework::of_keys(keys))
        .or_else(|| drivers.find_map(|one| Framework::of_command_line(&one.argv)))
}

/// Returns what a finding says about a kill; `None` for `nothing-fits`, which belongs to no rule.
fn kind(finding: &Finding) -> Option<Kind> {
    let mut rules = ALL.iter();
    let rule = rules.find(|rule| rule.ids.contains(&finding.rule.as_str()))?;
    // A setting whose processes were not seen is not taken for a cause.
    let unseen = rule.kind == Kind::Setting && finding.about.pids.is_empty();
    Some(if unseen { Kind::Note } else { rule.kind })
}

/// Returns whether a finding names a cause of a kill.
fn is_cause(finding: &Finding) -> bool {
    kind(finding).is_some_and(|kind| kind != Kind::Note)
}

/// Names the victim and its killer, as a line of evidence.
fn victim(death: &Death) -> String {
    let process = &death.process;
    let killer = death.verdict.killer.name();
    format!("{} (pid {}): {killer}", process.comm, process.pid)
}

/// Creates a finding about one death.
fn about(rule: &str, certainty: Certainty, death: &Death, summary: String) -> Finding {
    Finding {
        deaths: vec![death.id],
        ..Finding::new(rule, certainty, summary)
    }
}

/// Adds a task, the processes that run it, and a line of evidence for each to a finding.
fn in_task(
    finding: Finding,
    task: &str,
    workers: &[&Member],
    line: fn(&Member) -> Option<String>,
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

/// Puts a remedy before the others, with its saving and its cost.
fn leads(finding: &mut Finding, remedy: String, saving: Saving, cost: &str) {
    finding.remedy.insert(0, remedy);
    finding.saving = Some(saving);
    finding.cost = Some(cost.to_owned());
}

/// Merges findings that have the same key. The result has the text of the one about the most bytes,
/// the first of several, and the deaths of all.
fn merged<K: PartialEq>(found: impl IntoIterator<Item = (K, Finding)>) -> Vec<Finding> {
    let mut kept: Vec<(K, Finding, BTreeSet<EventId>)> = Vec::new();
    for (key, mut finding) in found {
        if let Some((_, known, ids)) = kept.iter_mut().find(|(known, ..)| *known == key) {
            let new = std::mem::take(&mut finding.deaths).into_iter();
            let mut deaths = std::mem::take(&mut known.deaths);
            deaths.extend(new.filter(|id| ids.insert(*id)));
            if finding.about.bytes > known.about.bytes {
                *known = finding;
            }
            known.deaths = deaths;
        } else {
            let ids = finding.deaths.iter().copied().collect();
            kept.push((key, finding, ids));
        }
    }
    kept.into_iter().map(|(_, finding, _)| finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_known(id: &str) -> bool {
        ALL.iter().any(|rule| rule.ids.contains(&id))
    }

    /// Both findings of a contradiction exist, and no pair is listed twice.
    #[test]
    fn contradictions_name_known_rules_once() {
        for (one, other, _) in contradictions::PAIRS {
            assert!(is_known(one) && is_known(other), "{one}, {other}");
            let same = |pair: &&(&str, &str, &str)| {
                [pair.0, pair.1] == [one, other] || [pair.1, pair.0] == [one, other]
            };
            let count = contradictions::PAIRS.iter().filter(same).count();
            assert_eq!(count, 1, "{one}, {other}");
        }
    }

    #[test]
    fn documentation_names_every_rule() {
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
