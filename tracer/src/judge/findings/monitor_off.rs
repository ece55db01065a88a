//! Ray's monitor is off and the kernel killed: without a retry of its own and without a word of Ray's.

use super::{Run, about, merged};
use crate::{
    judge::report::{Finding, Killer},
    ray::memory_monitor::Config,
};

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let by_kernel = run
        .memory_kills()
        .filter(|death| death.verdict.killer != Killer::RayMemoryMonitor);
    merged(by_kernel.filter_map(|death| {
        let cluster = run.cluster(death)?;
        let report = run.report.clusters.get(usize::try_from(death.cluster?).ok()?)?;
        let logged = report.monitor.as_ref().map(|monitor| !monitor.enabled);
        let set = Config::of(&cluster.settings).refresh_ms == 0;
        if !logged.unwrap_or(set) {
            return None;
        }
        let summary = "Ray's memory monitor is off (RAY_memory_monitor_refresh_ms=0): the kernel kills instead, and Ray cannot say why".to_owned();
        let mut finding = about("monitor-off", death.verdict.certainty, death, summary);
        finding.evidence = vec![match logged {
            Some(_) => "raylet.out: the monitor is disabled".into(),
            None => "environment of the raylet: RAY_memory_monitor_refresh_ms=0".into(),
        }];
        finding.remedy = vec!["RAY_memory_monitor_refresh_ms=250 in the environment of ray start".into()];
        finding.cost = Some("Ray kills workers at its threshold, and retries them".into());
        Some((death.cluster, finding))
    }))
}
