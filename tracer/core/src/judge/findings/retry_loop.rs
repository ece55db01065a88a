//! Finds a task or actor that is killed for memory again and again.
//!
//! Ray retries a task without end (`task_oom_retries` is −1).

use std::collections::BTreeMap;

use super::{
    Run, about, many_workers,
    ray_remote::{is_user_code, options_of},
};
use crate::{
    ids::{HexId, SECOND_NS},
    judge::report::{Certainty, Death, Finding, Job, Killer, Outcome, Recovery},
};

/// This many kills are a loop.
const LOOP: usize = 3;
/// So many restarts are advised at most, and fewer than there were.
const MOST_RESTARTS: usize = 3;
/// Two kills with a retry between them are further apart than this.
const MOMENT_NS: i64 = SECOND_NS;

/// What was tried again: its cluster, its name, and its id if it is an actor.
type RetriedWork<'a> = (Option<u32>, &'a str, Option<&'a HexId>);

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let mut by_task: BTreeMap<RetriedWork<'_>, Vec<&Death>> = BTreeMap::new();
    for death in run.memory_kills() {
        let again = match &death.then {
            Some(Recovery::TaskRetried { .. }) => {
                let task = death.work.task_name.as_deref();
                task.map(|task| (task, None))
            }
            Some(Recovery::ActorRestarted { actor_id }) => {
                let class = death.work.actor_class.as_deref();
                class.map(|class| (class, Some(actor_id)))
            }
            _ => None,
        };
        if let Some((name, actor)) = again {
            let same = by_task.entry((death.cluster, name, actor));
            same.or_default().push(death);
        }
    }
    let loops = by_task.into_iter().filter_map(|((_, name, actor), deaths)| {
        let (first, last) = (deaths.first()?, deaths.last()?);
        // If the log counts the attempts, several tasks of one name are no loop.
        let tries = deaths.iter().filter_map(|death| death.work.attempt).max();
        let few = tries.is_some_and(|tries| u64::from(tries) + 1 < LOOP as u64);
        if few || rounds(&deaths) < LOOP {
            return None;
        }
        let seconds = last.when.act_time.since(first.when.act_time) as f64 / 1e9;
        let retried = if actor.is_some() {
            "started again"
        } else {
            "retried"
        };
        let succeeded = job_succeeded(run, first);
        let then = if succeeded {
            "the job succeeded in the end"
        } else {
            "a retry needs the same memory"
        };
        let summary = format!(
            "{name} was killed for memory {} times in {seconds:.0} s and {retried} each time: {then}",
            deaths.len()
        );
        let mut finding = about("retry-loop", Certainty::Proven, first, summary);
        finding.deaths = deaths.iter().map(|death| death.id).collect();
        let own = is_user_code(run, name);
        let mut remedy = Vec::new();
        // A limit on retries would have ended a job that succeeded.
        let endless = !succeeded && !actor.is_some_and(|actor| gave_up(run, actor));
        let fewer = many_workers::memory_of(run, name).filter(|_| actor.is_none());
        let cost = match &fewer {
            Some(_) => "fewer of them at once",
            None => "the job fails instead of retrying for ever",
        };
        remedy.extend(fewer);
        let by_ray = |one: &&Death| one.verdict.killer == Killer::RayMemoryMonitor;
        if actor.is_some() && own && endless {
            let restarts = MOST_RESTARTS.min(deaths.len() - 1);
            remedy.push(format!(
                "max_restarts={restarts} {} ends the loop with an error",
                options_of(name)
            ));
        } else if actor.is_none() && endless && deaths.iter().all(by_ray) {
            remedy.push("RAY_task_oom_retries=3 in the driver's environment ends the loop with an error".into());
        }
        finding.cost = (!remedy.is_empty()).then(|| cost.to_owned());
        finding.remedy = remedy;
        finding.not_if = (!succeeded).then(|| "a later attempt succeeds".into());
        Some(finding)
    });
    loops.collect()
}

/// Whether a kill was the end of an actor: Ray did not start it again.
fn gave_up(run: Run<'_>, actor: &HexId) -> bool {
    let restarted = |death: &Death| matches!(death.then, Some(Recovery::ActorRestarted { .. }));
    let mut kills = run.memory_kills();
    kills.any(|death| death.work.actor_id.as_ref() == Some(actor) && !restarted(death))
}

/// Whether the job of the process that died ended well.
fn job_succeeded(run: Run<'_>, death: &Death) -> bool {
    let its = |job: &&Job| {
        job.cluster == death.cluster && Some(&job.job_id) == death.work.job_id.as_ref()
    };
    let job = run.report.jobs.iter().find(its);
    job.is_some_and(|job| job.outcome == Outcome::Succeeded)
}

/// Counts the rounds of kills. Kills at one moment are of several tasks, without a retry between
/// them.
fn rounds(deaths: &[&Death]) -> usize {
    let again = |pair: &&[&Death]| pair[1].when.act_time.since(pair[0].when.act_time) > MOMENT_NS;
    deaths.len().min(1) + deaths.windows(2).filter(again).count()
}
