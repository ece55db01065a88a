//! The same task is killed for memory again and again: Ray retries it without end (`task_oom_retries` is −1).

use std::collections::BTreeMap;

use super::{
    Run, about,
    rules::{Needs, Rule},
};
use crate::{
    ids::{MINUTE_NS, SECOND_NS},
    judge::report::{Certainty, Death, Finding, Killer, Recovery},
};

/// So many kills are a loop.
const LOOP: usize = 3;
/// From one to the next at most.
const GAP_NS: i64 = MINUTE_NS;
/// A retry takes longer.
const MOMENT_NS: i64 = SECOND_NS;

/// The rule.
pub(super) const RULE: Rule = Rule {
    ids: &["retry-loop"],
    is_cause: false,
    needs: Needs::MemoryKill,
    contradicts: &[],
    find,
};

fn find(run: Run<'_>) -> Vec<Finding> {
    let mut by_task: BTreeMap<(Option<u32>, &str), Vec<&Death>> = BTreeMap::new();
    let by_ray = run
        .memory_kills()
        .filter(|death| death.verdict.killer == Killer::RayMemoryMonitor);
    for death in by_ray {
        if let Some(task) = &death.work.task_name
            && matches!(death.then, Some(Recovery::TaskRetried { .. }))
        {
            by_task
                .entry((death.cluster, task))
                .or_default()
                .push(death);
        }
    }
    let loops = by_task.into_iter().filter_map(|((_, task), deaths)| {
        let run = longest(&deaths);
        let (first, last) = (run.first()?, run.last()?);
        if rounds(&run) < LOOP {
            return None;
        }
        let seconds = last.when.act_time.since(first.when.act_time) as f64 / 1e9;
        let summary = format!(
            "{task} was killed for memory {} times in {seconds:.0} s and retried each time: trying again does not make it fit",
            run.len()
        );
        let mut finding = about("retry-loop", Certainty::Proven, first, summary);
        finding.deaths = run.iter().map(|death| death.id).collect();
        finding.remedy = vec![
            format!("memory=BYTES in the @ray.remote of {task}, so that fewer run at once"),
            "RAY_task_oom_retries=3 in the driver's environment ends the loop with an error".into(),
        ];
        finding.cost = Some("fewer of them at once; the job fails instead of trying for ever".into());
        finding.wrong_if = Some("a later try succeeds".into());
        Some(finding)
    });
    loops.collect()
}

/// Kills at one moment are of several tasks, none of which was retried between them.
fn rounds(run: &[&Death]) -> usize {
    let again = |pair: &&[&Death]| pair[1].when.act_time.since(pair[0].when.act_time) > MOMENT_NS;
    run.len().min(1) + run.windows(2).filter(again).count()
}

/// The longest row of kills without a long gap; they are in order of time.
fn longest<'a>(deaths: &[&'a Death]) -> Vec<&'a Death> {
    let mut best: Vec<&Death> = Vec::new();
    let mut row: Vec<&Death> = Vec::new();
    for death in deaths {
        if row
            .last()
            .is_some_and(|last| death.when.act_time.since(last.when.act_time) > GAP_NS)
        {
            row.clear();
        }
        row.push(death);
        if row.len() > best.len() {
            best.clone_from(&row);
        }
    }
    best
}
