//! Finds kills with a victim that did not hold the memory.
//!
//! Ray chooses the victim by lease, the kernel by score. Neither asks who took the memory.

use std::collections::HashMap;

use super::{Run, about, code, merged, remedy};
use crate::{
    event::Role,
    ids::{Pid, size},
    judge::report::{Certainty, Death, Finding, Killer, PROGRAM, Suspect, class_of_title},
    ray::{framework::RemedyGoal, version::Version},
};

/// A victim that held less than this share of the biggest process's memory is not the suspect.
const SMALL_VICTIM: f64 = 0.5;
/// Advice for each consumer, by a word of its title.
const BY_CONSUMER: [(&str, &str); 2] = [
    (
        "gcs_server",
        "The GCS grows with the age of the cluster: start the head with --num-cpus=0, and restart it between runs",
    ),
    (
        "DashboardAgent",
        "The dashboard agent's growth is a bug in Ray: report it, and restart the node between runs",
    ),
];
/// Settings to change for each consumer, by a word of its title.
const KEYS: [(&str, RemedyGoal); 5] = [
    ("TaskRunner", RemedyGoal::LessInController),
    ("Runner.run", RemedyGoal::LessInController),
    ("main_task", RemedyGoal::LessInController),
    ("VLLM::", RemedyGoal::LessOnHost),
    ("DataLoader", RemedyGoal::FewerLoaders),
];
/// From this version on, Ray kills the newest leases first, until its excess and a buffer are free.
const NEWEST_FIRST: Version = Version(2, 56);

/// Returns a finding for each victim of a memory kill that has a suspect.
pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let found = run.memory_kills().filter_map(|death| {
        let (consumer, summary) = title_and_summary(death, death.memory.suspect.as_ref()?);
        let mut finding = about(
            "victim-not-biggest",
            Certainty::Inferred,
            death,
            summary.clone(),
        );
        let suspect = death.memory.suspect.iter();
        finding.about.pids = suspect.clone().map(|one| one.pid).collect();
        finding.about.bytes = suspect
            .map(|one| one.private_bytes)
            .max()
            .unwrap_or_default();
        finding.evidence = vec![super::victim(death)];
        finding.evidence.extend(policy(run, death));
        finding.remedy = remedy(run, &consumer, death.memory.suspect.as_ref());
        finding.not_if =
            Some("the victim grew faster than the biggest process in its last minute".into());
        Some((summary, finding))
    });
    merged(found)
}

/// Says how Ray chose the victim, which depends on its version.
fn policy(run: Run<'_>, death: &Death) -> Option<String> {
    let version = run.node(death)?.version?;
    let by_ray = death.verdict.killer == Killer::RayMemoryMonitor;
    (by_ray && version >= NEWEST_FIRST).then(|| {
        format!(
            "Ray {}.{} kills the newest leases first, several at once, until its excess and a buffer of 5 % (at most 3 GiB) are free",
            version.0, version.1
        )
    })
}

/// Returns the advice that is known for a consumer. Without a fixed advice, that is its settings,
/// and the user's own line that keeps most of what its class grew by.
fn remedy(run: Run<'_>, consumer: &str, suspect: Option<&Suspect>) -> Vec<String> {
    let is_its = |word: &str| consumer.contains(word);
    if let Some((_, text)) = BY_CONSUMER.iter().find(|(word, _)| is_its(word)) {
        return vec![(*text).to_owned()];
    }
    let title = suspect.map_or("", |suspect| suspect.title.as_str());
    let is_program = suspect.is_some_and(|suspect| suspect.role == Some(Role::Descendant))
        && !title.starts_with("ray::");
    let class = if is_program {
        Some(PROGRAM.to_owned()).filter(|_| run.report.grew_alone(PROGRAM))
    } else {
        class_of_title(&format!("ray::{consumer}"))
    };
    let goal = KEYS.iter().find(|(word, _)| is_its(word));
    let mut found = goal.map_or_else(Vec::new, |(_, goal)| {
        let class = class.as_deref().unwrap_or(consumer);
        remedy::keys(run, *goal, Some(class))
    });
    let line = class.and_then(|class| code::line_of_calls(run, &class));
    found.extend(line.map(|line| line.free_what_is_used_up(line.bytes)));
    found
}

/// Returns whether the biggest process counted against the limit. A process outside a cgroup is no
/// suspect for an OOM kill of that cgroup.
fn biggest_counts(run: Run<'_>, death: &Death) -> bool {
    let Some(biggest) = death.memory.top.first() else {
        return false;
    };
    death.verdict.killer != Killer::KernelOomMemcg
        || death
            .memory
            .oom
            .as_ref()
            .is_some_and(|oom| oom.counts(biggest))
        || run
            .inside(death)
            .iter()
            .any(|member| member.pid == biggest.pid)
}

/// Returns the biggest process, if a victim of a memory kill held little compared with it. A
/// process that was killed together with the victim is no suspect, and at a limit that was not seen
/// it is not known what counted against it. `killed` has the memory kills by pid.
pub(super) fn suspect(
    run: Run<'_>,
    death: &Death,
    killed: &HashMap<Pid, Vec<&Death>>,
) -> Option<Suspect> {
    let killer = death.verdict.killer;
    let limit_was_seen = killer.is_memory_kill() && killer != Killer::KernelOom;
    if !limit_was_seen || !biggest_counts(run, death) {
        return None;
    }
    let top = &death.memory.top;
    let biggest = top.first().filter(|top| !top.victim)?;
    let same = killed.get(&biggest.pid).map_or(&[][..], Vec::as_slice);
    let mut others = same.iter().filter(|other| other.id != death.id);
    if others.any(|other| are_of_one_kill(death, other)) {
        return None;
    }
    let own = top.iter().find(|top| top.victim)?.private_bytes;
    (own.gib() < SMALL_VICTIM * biggest.private_bytes.gib()).then(|| Suspect {
        pid: biggest.pid,
        title: biggest.title.clone(),
        role: biggest.role,
        private_bytes: biggest.private_bytes,
        victim_private_bytes: own,
    })
}

/// Returns whether both processes were killed together: by one decision of Ray's, or with their
/// whole cgroup (`memory.oom.group`).
fn are_of_one_kill(one: &Death, other: &Death) -> bool {
    let act = |death: &Death| death.verdict.act.map(|act| act.death_id);
    let first = |death: &Death| death.verdict.cause_death_id.unwrap_or(death.id);
    first(one) == first(other) || act(one).is_some_and(|one| act(other) == Some(one))
}

/// Returns the suspect's title and the sentence about it.
fn title_and_summary(death: &Death, suspect: &Suspect) -> (String, String) {
    let at_death = death.memory.at_death.as_ref();
    let used = at_death.and_then(|at| at.ray_used_bytes);
    let share = used
        .filter(|used| used.0 > 0)
        .map_or_else(String::new, |used| {
            format!(
                ", {:.0} % of what Ray counted",
                100.0 * suspect.private_bytes.gib() / used.gib()
            )
        });
    let title = suspect.title.trim_start_matches("ray::");
    let title: String = title.chars().take(60).collect();
    let summary = format!(
        "The victim was not the biggest process: {title} (pid {}) held {}{share}",
        suspect.pid,
        size(suspect.private_bytes)
    );
    (title, summary)
}
