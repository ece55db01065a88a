//! The victim was not what grew: Ray chooses by lease, the kernel by score; neither asks who ate the memory.

use super::{
    Run, about, merged, remedy,
    rules::{Needs, Rule},
};
use crate::{
    ids::size,
    judge::report::{Certainty, Death, Finding, Killer, Suspect},
    ray::{framework::Aim, version::Version},
};

/// A victim with less than this share of the biggest process is the wrong suspect.
const SMALL_VICTIM: f64 = 0.5;
/// What each consumer is asked to do, by a word of its title.
const BY_CONSUMER: [(&str, &str); 4] = [
    (
        "gcs_server",
        "The GCS grows with the cluster's age: start the head with --num-cpus=0, restart it between runs",
    ),
    (
        "DashboardAgent",
        "The dashboard agent's growth is a defect of Ray's: report it, and restart the node between runs",
    ),
    (
        "VLLM::",
        "A vLLM engine: no sleep level 1 (a copy of the weights on the host), kv_offloading_size and swap_space at 0",
    ),
    ("DataLoader", "Fewer DataLoader workers"),
];
/// Classes of the process that holds the data and drives the training.
const CONTROLLERS: [&str; 3] = ["TaskRunner", "Runner.run", "main_task"];
/// From this version on Ray frees its excess and a buffer, the newest leases first.
const NEWEST_FIRST: Version = Version(2, 56);

/// The rule.
pub(super) const RULE: Rule = Rule {
    ids: &["victim-not-biggest"],
    is_cause: true,
    needs: Needs::MemoryKill,
    contradicts: &[],
    find,
};

/// Victims of memory kills.
fn find(run: Run<'_>) -> Vec<Finding> {
    let found = run.memory_kills().filter_map(|death| {
        let (consumer, summary) = told(death, death.memory.suspect.as_ref()?);
        let mut finding = about(
            "victim-not-biggest",
            Certainty::Inferred,
            death,
            summary.clone(),
        );
        finding.about.pids = death.memory.suspect.iter().map(|one| one.pid).collect();
        finding.evidence = vec![super::victim(death)];
        finding.evidence.extend(policy(run, death));
        finding.remedy = remedy(run, &consumer);
        finding.wrong_if =
            Some("the killed one grew faster than the biggest in its last minute".into());
        Some((summary, finding))
    });
    merged(found)
}

/// How Ray chose, which depends on its version.
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

fn remedy(run: Run<'_>, consumer: &str) -> Vec<String> {
    if CONTROLLERS.iter().any(|class| consumer.contains(class)) {
        let keys = remedy::keys(run, Aim::LessInController);
        if !keys.is_empty() {
            return keys;
        }
    }
    let known = BY_CONSUMER.iter().find(|(word, _)| consumer.contains(word));
    let text = known.map_or(
        "look at what the biggest process holds; the killed one was chosen by policy",
        |(_, remedy)| remedy,
    );
    vec![text.to_owned()]
}

/// Whether the biggest process counted against the limit: what lies outside a cgroup is no suspect for its OOM kill.
fn biggest_counts(run: Run<'_>, death: &Death) -> bool {
    let Some(biggest) = death.memory.top.first() else {
        return false;
    };
    let everywhere = !matches!(
        death.verdict.killer,
        Killer::KernelOomMemcg | Killer::KernelOom
    );
    everywhere
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

/// The biggest process, where a victim of a memory kill held little beside it.
pub(super) fn suspect(run: Run<'_>, death: &Death) -> Option<Suspect> {
    if !super::for_memory(death) || !biggest_counts(run, death) {
        return None;
    }
    let top = &death.memory.top;
    let biggest = top.first().filter(|top| !top.victim)?;
    let own = top.iter().find(|top| top.victim)?.private_bytes;
    (own.gib() < SMALL_VICTIM * biggest.private_bytes.gib()).then(|| Suspect {
        pid: biggest.pid,
        title: biggest.title.clone(),
        private_bytes: biggest.private_bytes,
        victim_private_bytes: own,
    })
}

/// Its title, and the sentence.
fn told(death: &Death, suspect: &Suspect) -> (String, String) {
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
        "the victim was not the biggest process: {title} (pid {}) held {}{share}",
        suspect.pid,
        size(suspect.private_bytes)
    );
    (title, summary)
}
