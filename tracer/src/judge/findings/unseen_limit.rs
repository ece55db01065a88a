//! A cgroup's limit below what Ray takes for all memory: the kernel kills before Ray's monitor acts.

use super::{Run, about, merged, within};
use crate::{
    judge::{
        oom::size,
        report::{Certainty, Finding, Killer},
    },
    ray::start::Change,
};

/// The share of the limit at which Ray should act.
const BEFORE_THE_KERNEL: f64 = 0.9;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let kills = run
        .memory_kills()
        .filter(|death| death.verdict.killer == Killer::KernelOomMemcg);
    merged(kills.filter_map(|death| {
        let oom = death.oom.as_ref()?;
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
        let fraction = BEFORE_THE_KERNEL * limit.gib() / total.gib();
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
        let raise = Change::MemoryLimit("MORE".into()).at(start);
        finding.remedy = vec![format!("Raise the limit of {cgroup}: {raise}")];
        // A threshold is a remedy only where all of Ray lives below that limit.
        // With resource isolation Ray does not read it.
        let below = run
            .node(death)
            .is_some_and(|node| !node.isolated && within(node.cgroup.as_deref(), &cgroup));
        if below {
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
