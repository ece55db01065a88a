//! Finds GPU memory of processes without a parent: engines that outlived their job.
//!
//! The finding says what to type. raytrace kills nothing.

use std::collections::BTreeSet;

use super::Run;
use crate::{
    ids::{Pid, size},
    judge::report::{Certainty, Finding},
};

/// How many orphans get a line of evidence.
const MOST: usize = 8;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let orphans = &run.facts.gpu_orphans;
    let Some(first) = orphans.first() else {
        return Vec::new();
    };
    // A process that holds memory of several GPUs counts once.
    let pids: BTreeSet<Pid> = orphans.iter().map(|one| one.pid).collect();
    let pids: Vec<String> = pids.iter().map(Pid::to_string).collect();
    let more = match pids.len() {
        1 => String::new(),
        many => format!(", and {} more do so", many - 1),
    };
    let summary = format!(
        "{} (pid {}) has no parent, belongs to no cluster and holds {} of GPU {}{more}",
        first.name,
        first.pid,
        size(first.used),
        first.device
    );
    let line = |one: &super::facts::GpuOrphan| {
        format!(
            "GPU {}: {} by {} (pid {})",
            one.device,
            size(one.used),
            one.name,
            one.pid
        )
    };
    vec![Finding {
        evidence: orphans.iter().take(MOST).map(line).collect(),
        remedy: super::remedy::end(&pids),
        not_if: Some("it is a separate service".into()),
        ..Finding::new("gpu-orphan", Certainty::Inferred, summary)
    }]
}
