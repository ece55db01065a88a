//! Causes and remedies: one rule a file, each a pure function of what was recorded and judged.
//!
//! A rule speaks only with its figures. Where a memory kill is explained by none, that is said, with the table.

mod framework;
mod gpu_memory;
mod head;
mod many_workers;
mod monitor_off;
mod nothing_fits;
mod one_process;
mod outside_ray;
mod retry_loop;
mod settings;
mod shared_memory;
mod teardown;
mod unseen_limit;
mod wrong_suspect;

pub(super) use settings::all as settings;
pub(super) use wrong_suspect::among as wrong_suspects;

use crate::{
    event::Cluster,
    ids::{Bytes, EventId},
    judge::{
        crowd::Member,
        memory::Snapshot,
        report::{Certainty, Death, Finding, Killer, Report},
        world::World,
    },
};

/// What rules look at.
#[derive(Clone, Copy)]
struct Run<'a> {
    world: &'a World,
    report: &'a Report,
}

/// The rules, in the order in which their findings are shown: causes first, then settings, then what is no cause.
const RULES: [fn(Run<'_>) -> Vec<Finding>; 13] = [
    unseen_limit::find,
    monitor_off::find,
    wrong_suspect::find,
    many_workers::find,
    one_process::find,
    head::find,
    outside_ray::find,
    shared_memory::find,
    retry_loop::find,
    settings::find,
    framework::find,
    gpu_memory::find,
    teardown::find,
];

/// Rules that name a cause of a kill: where none of these speaks, nothing fits.
const CAUSES: [&str; 7] = [
    "limit-unseen",
    "monitor-off",
    "victim-not-biggest",
    "many-workers",
    "one-process",
    "head-component",
    "outside-ray",
];

/// All findings.
pub(super) fn all(world: &World, report: &Report) -> Vec<Finding> {
    let run = Run { world, report };
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(run)).collect();
    let explained = |death: &Death| {
        let causes = findings
            .iter()
            .filter(|finding| CAUSES.contains(&finding.rule.as_str()));
        causes
            .into_iter()
            .any(|finding| finding.deaths.contains(&death.id))
    };
    let left: Vec<&Death> = run
        .memory_kills()
        .filter(|death| !explained(death))
        .collect();
    findings.extend(nothing_fits::find(&left));
    findings
}

impl<'a> Run<'a> {
    /// Deaths by a memory kill, whoever killed.
    fn memory_kills(self) -> impl Iterator<Item = &'a Death> {
        self.report.deaths.iter().filter(|death| for_memory(death))
    }

    /// Memory around a death.
    fn around(self, death: &Death) -> Option<&'a Snapshot> {
        Some(&self.world.exits.get(&death.id)?.around)
    }

    /// The processes that count against the limit that a death met: those of its cluster, inside the cgroup at its limit.
    fn inside(self, death: &Death) -> Vec<&'a Member> {
        let around = self.around(death);
        let cluster = self.cluster(death).map(|cluster| cluster.raylet);
        let limit = death.oom.as_ref().and_then(|oom| oom.cgroup.as_deref());
        let limit = limit.filter(|_| death.verdict.killer == Killer::KernelOomMemcg);
        let members = around.into_iter().flat_map(|around| &around.crowd.members);
        members
            .filter(|member| match (member.cluster, cluster) {
                (Some(own), Some(cluster)) => own.same(cluster),
                _ => false,
            })
            .filter(|member| limit.is_none_or(|limit| within(member.cgroup.as_deref(), limit)))
            .collect()
    }

    /// The cluster of a death.
    fn cluster(self, death: &Death) -> Option<&'a Cluster> {
        self.world
            .clusters
            .get(usize::try_from(death.cluster?).ok()?)
    }

    /// The limit that a death met: the cgroup's, else Ray's threshold.
    fn limit(self, death: &Death) -> Option<Bytes> {
        let cgroup = death.oom.as_ref().and_then(|oom| oom.limit_bytes);
        let ray = || death.at_death.as_ref()?.ray_threshold_bytes;
        let of_cluster = || {
            let cluster = self
                .report
                .clusters
                .get(usize::try_from(death.cluster?).ok()?)?;
            cluster.monitor.as_ref()?.threshold_bytes
        };
        cgroup.or_else(ray).or_else(of_cluster)
    }
}

/// Whether a cgroup is `limit` or below it.
fn within(cgroup: Option<&str>, limit: &str) -> bool {
    cgroup.is_some_and(|cgroup| std::path::Path::new(cgroup).starts_with(limit))
}

/// Whether memory was the reason.
fn for_memory(death: &Death) -> bool {
    matches!(
        death.verdict.killer,
        Killer::KernelOomMemcg | Killer::KernelOomGlobal | Killer::RayMemoryMonitor
    )
}

/// A finding about one death.
fn about(rule: &str, certainty: Certainty, death: &Death, summary: String) -> Finding {
    Finding {
        rule: rule.into(),
        certainty,
        summary,
        evidence: Vec::new(),
        remedy: Vec::new(),
        cost: None,
        deaths: vec![death.id],
    }
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
