//! Finds kills by the kernel while Ray's memory monitor was off.
//!
//! Such a kill has no retries of its own in Ray, and Ray logs no reason for it.

use super::{Run, about, merged};
use crate::{
    judge::report::{Finding, Killer},
    ray::{memory_monitor::Config, start::Change},
};

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let by_kernel = run
        .memory_kills()
        .filter(|death| death.verdict.killer != Killer::RayMemoryMonitor);
    merged(by_kernel.filter_map(|death| {
        let node = run.node(death)?;
        let logged = run.monitor(death).map(|monitor| !monitor.enabled);
        let set = Config::of(&node.settings).refresh_ms == 0;
        if !logged.unwrap_or(set) {
            return None;
        }
        let summary = "Ray's memory monitor is off (RAY_memory_monitor_refresh_ms=0): the kernel kills instead, and Ray cannot say why".to_owned();
        let mut finding = about("monitor-off", death.verdict.certainty, death, summary);
        finding.evidence = vec![match logged {
            Some(_) => "raylet.out: the monitor is disabled".into(),
            None => "environment of the raylet: RAY_memory_monitor_refresh_ms=0".into(),
        }];
        // `services.py` of Ray 2.60 passes this option.
        if node.argv.iter().any(|word| word == "--enable-resource-isolation") {
            finding.evidence.push("the raylet has --enable-resource-isolation: at the limit of its user cgroup it still kills".into());
        }
        let on = Change::environment("RAY_memory_monitor_refresh_ms", "250");
        finding.remedy = vec![on.at(run.started(death))];
        finding.cost = Some(if death.is_retried() {
            "Ray kills workers at its threshold, and retries them".into()
        } else {
            "Ray kills workers at its threshold: a call that it does not retry fails as now, but its message names the reason".to_owned()
        });
        finding.not_if = Some("the kernel's limit is below Ray's threshold (then the monitor would not have acted either)".into());
        Some((death.cluster, finding))
    }))
}
