//! The killed was not what grew: Ray chooses by lease, the kernel by score; neither asks who ate the memory.

use super::{Run, for_memory};
use crate::judge::{
    oom::size,
    report::{Certainty, Death, Finding, Killer},
};

/// A victim with less than this share of the biggest process is the wrong suspect.
const SMALL_VICTIM: f64 = 0.5;
/// What each consumer is asked to do, by a word of its title.
const BY_CONSUMER: [(&str, &str); 5] = [
    (
        "TaskRunner",
        "In verl's TaskRunner: keep images as paths, lower data.dataloader_num_workers and data.val_batch_size",
    ),
    (
        "gcs_server",
        "The GCS grows with the cluster's age: start the head with --num-cpus=0, restart it between runs",
    ),
    (
        "DashboardAgent",
        "The dashboard agent's growth is a defect of Ray's: report it; ray start --include-dashboard=false",
    ),
    (
        "VLLM::",
        "A vLLM engine: no sleep level 1 (a copy of the weights on the host), kv_offloading_size and swap_space at 0",
    ),
    ("DataLoader", "Fewer DataLoader workers"),
];

/// Victims of memory kills.
pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let kills: Vec<Death> = run
        .report
        .deaths
        .iter()
        .filter(|death| for_memory(death) && biggest_counts(run, death))
        .cloned()
        .collect();
    among(&kills)
}

/// Whether the biggest process counted against the limit: what lies outside a cgroup is no suspect for its OOM kill.
fn biggest_counts(run: Run<'_>, death: &Death) -> bool {
    let Some(biggest) = death.top.first() else {
        return false;
    };
    let everywhere = death.verdict.killer != Killer::KernelOomMemcg;
    everywhere
        || run
            .inside(death)
            .iter()
            .any(|member| member.pid == biggest.pid)
}

/// Victims that held little where it is known who held much.
pub(in crate::judge) fn among(deaths: &[Death]) -> Vec<Finding> {
    let mut found: Vec<(String, Finding)> = Vec::new();
    for death in deaths {
        let Some((consumer, summary)) = wrong_suspect(death) else {
            continue;
        };
        let by_consumer = BY_CONSUMER.iter().find(|(word, _)| consumer.contains(word));
        let remedy = by_consumer.map_or(
            "look at what the biggest process holds; the killed one was chosen by policy",
            |(_, remedy)| remedy,
        );
        found.push((
            summary.clone(),
            Finding {
                rule: "victim-not-biggest".into(),
                certainty: Certainty::Inferred,
                summary,
                evidence: vec![death.verdict.summary.clone()],
                remedy: vec![remedy.into()],
                cost: None,
                deaths: vec![death.id],
            },
        ));
    }
    super::merged(found)
}

/// The biggest process's title, and the sentence.
fn wrong_suspect(death: &Death) -> Option<(String, String)> {
    let biggest = death.top.first().filter(|top| !top.victim)?;
    let own = death.top.iter().find(|top| top.victim)?.private_bytes;
    if own.gib() >= SMALL_VICTIM * biggest.private_bytes.gib() {
        return None;
    }
    let share = death
        .at_death
        .as_ref()
        .and_then(|at| at.ray_used_bytes)
        .filter(|used| used.0 > 0)
        .map_or_else(String::new, |used| {
            format!(
                ", {:.0} % of what Ray counted",
                100.0 * biggest.private_bytes.gib() / used.gib()
            )
        });
    let title = biggest.title.trim_start_matches("ray::");
    let title: String = title.chars().take(60).collect();
    let summary = format!(
        "the killed was not the biggest: {title} (pid {}) held {}{share}",
        biggest.pid,
        size(biggest.private_bytes)
    );
    Some((title, summary))
}
