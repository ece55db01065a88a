//! A cgroup's limit below what Ray takes for all memory: the kernel kills before Ray's monitor acts.

use super::{
    Run, about,
    facts::Held,
    merged,
    rules::{Contradiction, Needs, Rule},
    within,
};
use crate::{
    ids::{Bytes, size},
    judge::report::{Certainty, Death, Finding, Killer},
    ray::start::Change,
};

/// The share of the limit at which Ray should act.
const BEFORE_THE_KERNEL: f64 = 0.9;

/// The rule.
pub(super) const RULE: Rule = Rule {
    ids: &["limit-unseen"],
    is_cause: true,
    needs: Needs::MemoryKill,
    contradicts: &[Contradiction {
        rule: "limit-unseen",
        other: "threshold-high",
        why: "one variable, two values: the lower one keeps Ray below both limits",
    }],
    find,
};

fn find(run: Run<'_>) -> Vec<Finding> {
    let kills = run
        .memory_kills()
        .filter(|death| death.verdict.killer == Killer::KernelOomMemcg);
    merged(kills.filter_map(|death| {
        let oom = death.memory.oom.as_ref()?;
        let (cgroup, limit) = (oom.cgroup.clone()?, oom.limit_bytes?);
        let monitor = run.monitor(death).filter(|monitor| monitor.enabled)?;
        let (threshold, total) = (monitor.threshold_bytes?, monitor.total_bytes?);
        if limit > threshold || total.0 == 0 {
            return None;
        }
        let summary = format!(
            "Ray cannot see the limit of {cgroup}: it takes {} for all memory and acts above {}; the kernel killed at {}",
            size(total),
            size(threshold),
            size(limit)
        );
        let certainty = match death.verdict.certainty {
            Certainty::Proven => Certainty::Proven,
            _ => Certainty::Inferred,
        };
        let mut finding = about("limit-unseen", certainty, death, summary);
        finding.evidence = vec![
            format!("limit {} B in {cgroup}", limit.0),
            format!("raylet.out: threshold {} B of {} B", threshold.0, total.0),
        ];
        let start = run.started(death);
        let raise = Change::MemoryLimit(raised(limit, run.inside(death))).at(start);
        finding.remedy = vec![format!("raise the limit of {cgroup}: {raise}")];
        // A threshold is a remedy only where all of Ray lives below that limit.
        // With resource isolation Ray does not read it.
        let below = run
            .node(death)
            .is_some_and(|node| !node.isolated && within(node.cgroup.as_deref(), &cgroup));
        if let Some(fraction) = fraction(run, death, limit, total).filter(|_| below) {
            let threshold =
                Change::environment("RAY_memory_usage_threshold", &rounded_down(fraction));
            finding.remedy.push(format!(
                "or {} (cost: Ray kills earlier, and retries)",
                threshold.at(start)
            ));
        }
        finding.wrong_if = Some("the limit was changed while Ray ran".into());
        Some(((cgroup, death.cluster), finding))
    }))
}

/// A limit that holds what the running calls had taken once more, at least a quarter more than now: `10G`, `512M`.
fn raised(limit: Bytes, inside: &[Held]) -> String {
    let took = inside
        .iter()
        .filter_map(|held| Some(held.private.0.saturating_sub(held.before?.0)));
    let wanted = limit.0 + took.sum::<u64>().max(limit.0 / 4);
    if wanted >= 1 << 32 {
        format!("{}G", wanted.div_ceil(1 << 30))
    } else {
        format!("{}M", wanted.div_ceil(1 << 20))
    }
}

/// The threshold at which Ray acts before the kernel does. Ray counts the whole machine, or the cgroup whose limit it takes for all
/// memory: what is in use there outside of the smaller cgroup is added where that is known. Below what was in use before any job
/// there is none, for Ray would kill at once.
fn fraction(run: Run<'_>, death: &Death, limit: Bytes, total: Bytes) -> Option<f64> {
    let at_death = death.memory.at_death.iter();
    let of_cgroup = at_death
        .flat_map(|node| &node.limits)
        .find(|one| one.limit_bytes == Some(total))
        .map(|one| one.usage_bytes);
    let sums = run.around(death)?.sums.as_ref();
    let used = of_cgroup.or_else(|| Some(sums?.1.used()));
    let outside = used.map_or(0.0, |used| (used.gib() - limit.gib()).max(0.0));
    let at = outside + BEFORE_THE_KERNEL * limit.gib();
    let before = run.facts.used_before.filter(|_| of_cgroup.is_none());
    let before = before.map_or(0.0, Bytes::gib);
    (at > before && at < total.gib()).then(|| at / total.gib())
}

/// With two digits that are not zeros before it: no small limit becomes none at all.
pub(in crate::judge) fn rounded_down(fraction: f64) -> String {
    let mut digits = 2;
    let mut scale = 100.0;
    while fraction * scale < 10.0 && digits < 9 {
        digits += 1;
        scale *= 10.0;
    }
    format!("{:.digits$}", (fraction * scale).floor() / scale)
}
