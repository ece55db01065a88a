//! Finds idle workers that keep the memory of their last task.
//!
//! Ray keeps as many idle workers as CPUs are free, whatever they hold. Calls shorter than 50 ms
//! that move no memory have no row, so "idle" means that no other call ran. Actors are not
//! reported, because Ray does not end an idle actor.

use std::collections::BTreeMap;

use super::{Run, merged, part_of::part_of, ray_remote::is_user_code};
use crate::{
    ids::{Bytes, Pid},
    judge::{
        report::{Certainty, Finding},
        state::calls::IdleWorker,
    },
    phrase::{self, when},
    ray::start::{Change, Start},
};

/// Between two bursts of tasks, workers are idle for less than this.
const LONG_S: i64 = 60;
/// Less than this in a worker is taken for its modules and caches.
const LEAST: Bytes = Bytes(256 << 20);
/// A worker that grew by more than this meanwhile was not idle.
const GREW: u64 = 64 << 20;
/// The workers together hold at least this share of the limit.
const SHARE: f64 = 0.1;
/// How many workers get a line of evidence.
const MOST: usize = 8;

/// A worker, its private memory, and its idle time.
type One<'a> = (Pid, Bytes, &'a IdleWorker);

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let at_kills = run.memory_kills().filter_map(|death| {
        let inside = run.inside(death).iter();
        let idle = inside.filter_map(|held| Some((held.pid, held.private, held.idle.as_deref()?)));
        let limit = run.limit(death)?;
        let what = ("the limit", "");
        let mut finding = of(run, idle.collect(), what, limit, run.started(death))?;
        finding.deaths = vec![death.id];
        Some((run.number(death), finding))
    });
    let mut found: Vec<(Option<usize>, Finding)> = at_kills.collect();
    let told: Vec<Option<usize>> = found.iter().map(|(number, _)| *number).collect();
    let clusters = run.facts.idle.iter().enumerate();
    let other_clusters = clusters.filter(|(number, _)| !told.contains(&Some(*number)));
    found.extend(other_clusters.filter_map(|(number, cluster)| {
        let workers = cluster.workers.iter();
        let idle = workers.map(|(pid, private, idle)| (*pid, *private, idle));
        let headroom = cluster.headroom.as_ref()?;
        let what = (headroom.limit.as_str(), ", at the end");
        let started = run.facts.nodes.get(number).map(|node| node.started);
        let finding = of(
            run,
            idle.collect(),
            what,
            headroom.at,
            started.unwrap_or_default(),
        )?;
        Some((Some(number), finding))
    }));
    merged(found)
}

/// Returns the finding about those of `idle` that are idle for long and still hold everything, if
/// that is much of the limit. `what` has the name of the limit, and what stands behind its size.
fn of(
    run: Run<'_>,
    mut idle: Vec<One<'_>>,
    what: (&str, &str),
    limit: Bytes,
    started: Start,
) -> Option<Finding> {
    idle.retain(|(_, private, idle)| {
        idle.seconds >= LONG_S && *private >= LEAST && private.0 <= idle.left.0 + GREW
    });
    let sum = Bytes(idle.iter().map(|(_, private, _)| private.0).sum());
    if limit.0 == 0 || sum.gib() < SHARE * limit.gib() {
        return None;
    }
    let mut tasks: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, private, idle) in &idle {
        *tasks.entry(&idle.task).or_default() += private.0;
    }
    let others = when(tasks.len() > 1, "(most) and others ");
    let (task, _) = tasks.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    let shortest = idle.iter().map(|(_, _, idle)| idle.seconds).min()?;
    let ([part, percent, whole], (name, when)) = (part_of(sum, limit), what);
    let summary = format!(
        "{} without a task for {shortest} s or more held {part}, {percent} of {name} of {whole}{when}: memory that {task} {others}left there",
        phrase::count(idle.len(), "worker", "workers")
    );
    idle.sort_by_key(|(pid, private, _)| (std::cmp::Reverse(*private), *pid));
    Some(Finding {
        evidence: idle.iter().take(MOST).map(line).collect(),
        remedy: remedy(run, task, started),
        cost: Some(
            "Ray starts a new worker, with its imports, instead of reusing an idle one".into(),
        ),
        not_if: Some(
            "they run tasks shorter than 50 ms all the time, or the next tasks reuse that memory"
                .into(),
        ),
        ..Finding::new("idle-workers", Certainty::Inferred, summary)
    })
}

fn line((pid, private, idle): &One<'_>) -> String {
    format!(
        "pid {pid}: {} private, {} when its last task ended {} s before, of which {} came with {}; since then no task of 50 ms or more",
        private.finer_size(),
        idle.left.finer_size(),
        idle.seconds,
        idle.grew.finer_size(),
        idle.task
    )
}

fn remedy(run: Run<'_>, task: &str, started: Start) -> Vec<String> {
    let limit = Change::environment("RAY_num_workers_soft_limit", "0").at(started);
    let own = format!("max_calls=1 in the @ray.remote of {task}: its worker exits after the task");
    let own = is_user_code(run, task).then_some(own);
    let soft = format!(
        "{limit}: Ray then stops workers that idle for RAY_idle_worker_killing_time_threshold_ms (1000); unset, it keeps as many as there are free CPUs"
    );
    own.into_iter().chain([soft]).collect()
}
