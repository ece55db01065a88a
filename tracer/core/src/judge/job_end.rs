//! Finds the death that made a job fail.
//!
//! What the job's processes say of it decides, else the order of deaths. `ray.get` raises the first
//! failure that reaches it. The owner of a call logs that failure in its core-worker log
//! (`Task … failed … will_retry`, `task_manager.cc`), with the task's id. The id of an actor's task
//! ends with the actor's id (`src/ray/common/id.h`, 2.9 to 2.60). The exception that a driver
//! prints names the actor and its pid. A call also fails if a process was killed that the worker had
//! started: a pool's or a `DataLoader`'s. The exception then says that such a process is gone.

use crate::{
    event::Role,
    ids::{BootTime, HexId, MINUTE_NS, Pid, SECOND_NS},
    judge::{
        report::{Basis, Death},
        state::{processes::ProcessState, timestamped::Timestamped, world::World},
    },
    ray::{facts::RayFact, log::lost_children, words},
};

/// How long before the driver's end the death that ended the job may be. Ray's own time-outs are
/// below a minute, unless a log says more.
pub(super) const BEFORE_DRIVER_NS: i64 = 2 * MINUTE_NS;
/// Failures that are closer together belong together. The others follow from the first of them.
const VOLLEY_NS: i64 = 5 * SECOND_NS;
/// The owner of a call learns of a death within this time.
const HEARD_WITHIN_NS: i64 = 15 * SECOND_NS;
/// The clock of a log is behind by at most this.
const CLOCK_ERROR_NS: i64 = 500_000_000;

/// Returns the death that made a job fail, and the evidence for it. `hits` are the first causes
/// that hit the job.
pub(super) fn death<'a>(
    world: &World,
    deaths: &'a [Death],
    hits: &[&'a Death],
    failed: &FailedJob<'_>,
) -> Option<(&'a Death, Basis)> {
    let named = named_by_driver(world, deaths, failed).map(|death| (death, Basis::Exception));
    let child = || named_child(world, deaths, failed).map(|death| (death, Basis::ChildException));
    let lost = || first_lost_call(world, deaths, failed).map(|death| (death, Basis::LostCall));
    let order = || first_of_the_last(hits, failed.end).map(|death| (death, Basis::Order));
    named.or_else(child).or_else(lost).or_else(order)
}

/// A job whose driver ended with an error.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailedJob<'a> {
    /// The number of its cluster in the report.
    pub(super) cluster: Option<u32>,
    /// Its id.
    pub(super) job_id: &'a HexId,
    /// The driver's worker id, if it is known.
    pub(super) driver: Option<&'a HexId>,
    /// When its driver ended.
    pub(super) end: BootTime,
}

impl FailedJob<'_> {
    fn is_before(&self, time: BootTime) -> bool {
        (-CLOCK_ERROR_NS..BEFORE_DRIVER_NS).contains(&self.end.since(time))
    }

    fn is_of_the_job(&self, death: &Death) -> bool {
        death.cluster == self.cluster
            && death
                .work
                .job_id
                .as_ref()
                .is_none_or(|job| job == self.job_id)
            && self.is_before(death.when.act_time)
    }
}

/// Finds the process that the driver's exception names.
fn named_by_driver<'a>(
    world: &World,
    deaths: &'a [Death],
    failed: &FailedJob<'_>,
) -> Option<&'a Death> {
    let words = world
        .ray_log_records
        .iter()
        .filter(|seen| failed.is_before(seen.time));
    let mut named = words.filter_map(|seen| match &seen.what.fact {
        RayFact::DiedInException {
            actor_id,
            pid,
            worker_id,
        } => {
            let of_driver = worker_id.is_none() || worker_id.as_ref() == failed.driver;
            of_driver.then_some((actor_id.as_ref(), *pid))
        }
        _ => None,
    });
    // A driver may catch an exception and go on. The last one made it fail.
    let (actor_id, pid) = named.next_back()?;
    let is_named = |death: &&Death| match (actor_id, &death.work.actor_id) {
        (Some(named), Some(known)) => named == known && pid.is_none_or(|pid| has_pid(death, pid)),
        _ => pid.is_some_and(|pid| has_pid(death, pid)),
    };
    deaths
        .iter()
        .filter(|death| failed.is_of_the_job(death))
        .rfind(is_named)
}

/// Finds the process whose end an exception of its worker or of the driver reports.
///
/// A worker's output is read when the worker ends, which may be after the driver's end.
fn named_child<'a>(
    world: &World,
    deaths: &'a [Death],
    failed: &FailedJob<'_>,
) -> Option<&'a Death> {
    let said = world.ray_log_records.iter().rev();
    let mut said = said.filter_map(|seen| match &seen.what.fact {
        RayFact::Exception {
            class,
            message,
            worker_id,
        } => Some((worker_id.as_ref(), lost_children::parse(class, message)?)),
        _ => None,
    });
    said.find_map(|(said_by, pids)| {
        let said_by = said_by.filter(|id| Some(*id) != failed.driver);
        let is_named = |death: &&Death| {
            (pids.is_empty() || pids.iter().any(|pid| has_pid(death, *pid)))
                && is_child(world, death, failed, said_by)
        };
        let named: Vec<&Death> = deaths.iter().filter(is_named).collect();
        first_of_the_last(&named, failed.end)
    })
}

/// Returns the processes killed for memory that a worker or the driver of the job had started,
/// unless the worker then ran the same method again: the job had gone on.
pub(super) fn children_killed_for_memory<'a>(
    world: &World,
    deaths: &'a [Death],
    failed: &FailedJob<'_>,
) -> impl Iterator<Item = &'a Death> {
    deaths.iter().filter(|death| {
        death.is_memory_kill() && is_child(world, death, failed, None) && !ran_again(world, death)
    })
}

/// Whether a death without another cause is that of a process that a worker or the driver of the
/// job had started, and whether that was the worker with this id.
fn is_child(world: &World, death: &Death, failed: &FailedJob<'_>, of: Option<&HexId>) -> bool {
    let may_be = death.process.role == Role::Descendant
        && death.listed
        && death.verdict.cause_death_id.is_none()
        && death.cluster == failed.cluster;
    let above = || {
        let above = above(world, death)?;
        let job = above.job().or_else(|| world.ray_job(above.key))?;
        let is_it = of.is_none() || above.worker_id.as_ref() == of;
        (is_it && job == *failed.job_id).then_some(())
    };
    may_be && above().is_some()
}

fn ran_again(world: &World, death: &Death) -> bool {
    let calls = above(world, death).and_then(|above| world.calls.get(&above.key.truncated()));
    calls.is_some_and(|calls| calls.ran_again(death.when.act_time))
}

/// Returns the worker or driver that had started the process that died.
fn above<'a>(world: &'a World, death: &Death) -> Option<&'a ProcessState> {
    let exit = world.exits.get(&death.id)?;
    world.processes.worker_above(exit.exit.process)
}

fn has_pid(death: &Death, pid: Pid) -> bool {
    death.process.ns_pid.unwrap_or(death.process.pid) == pid || death.process.pid == pid
}

/// Finds the death behind the first lost call of the last volley.
fn first_lost_call<'a>(
    world: &World,
    deaths: &'a [Death],
    failed: &FailedJob<'_>,
) -> Option<&'a Death> {
    let mut lost: Vec<LostCall<'_>> = world
        .ray_log_records
        .iter()
        .filter(|seen| failed.is_before(seen.time))
        .filter_map(|seen| LostCall::of(seen, failed.job_id))
        .collect();
    lost.sort_by_key(|call| call.time);
    let times: Vec<BootTime> = lost.iter().map(|call| call.time).collect();
    let mut volley = lost.iter().skip(last_volley(&times));
    let behind = |call: &LostCall<'_>| {
        let here = deaths.iter().filter(|death| failed.is_of_the_job(death));
        let lost_by = here.filter(|death| call.is_lost_by(death));
        // Ray restarts an actor and retries a task: the last death before the loss is the cause.
        lost_by.min_by_key(|death| {
            let heard = call.time.since(death.when.act_time);
            (heard < 0, heard.abs())
        })
    };
    volley.find_map(behind)
}

/// A call that its owner gave up because the process that ran it was gone.
struct LostCall<'a> {
    time: BootTime,
    actor_id: Option<HexId>,
    task_name: Option<&'a str>,
}

impl<'a> LostCall<'a> {
    fn of(seen: &'a Timestamped<crate::event::RayLog>, job: &HexId) -> Option<Self> {
        let RayFact::TaskFailed {
            task_id,
            error,
            will_retry: Some(false),
            task_name,
            job_id,
            ..
        } = &seen.what.fact
        else {
            return None;
        };
        let ours = job_id.as_ref().is_none_or(|of| of == job);
        (ours && words::means_process_died(error)).then(|| Self {
            time: seen.time,
            actor_id: task_id.as_ref().and_then(HexId::actor_of_task),
            task_name: task_name.as_deref(),
        })
    }

    fn is_lost_by(&self, death: &Death) -> bool {
        let heard = self.time.since(death.when.act_time);
        let in_time = (-CLOCK_ERROR_NS..HEARD_WITHIN_NS).contains(&heard);
        // A process that the worker had forked has its title, and runs no call.
        in_time
            && death.process.role != Role::Descendant
            && match (&self.actor_id, &death.work.actor_id) {
                (Some(called), Some(died)) => called == died,
                (Some(_), None) | (None, _) => {
                    self.task_name.is_some() && self.task_name == death.work.task_name.as_deref()
                }
            }
    }
}

/// Returns the first of the deaths that came together last. A memory kill comes before others.
fn first_of_the_last<'a>(hits: &[&'a Death], end: BootTime) -> Option<&'a Death> {
    let mut before: Vec<&Death> = hits
        .iter()
        .filter(|hit| (0..BEFORE_DRIVER_NS).contains(&end.since(hit.when.act_time)))
        .copied()
        .collect();
    before.sort_by_key(|death| (death.when.act_time, death.id));
    let times: Vec<BootTime> = before.iter().map(|death| death.when.act_time).collect();
    let volley = before.into_iter().skip(last_volley(&times));
    volley.min_by_key(|death| {
        (
            !death.verdict.killer.is_memory_kill(),
            death.when.act_time,
            death.id,
        )
    })
}

/// Returns where the last run of `times` without a gap of [`VOLLEY_NS`] begins. `times` are in
/// order.
fn last_volley(times: &[BootTime]) -> usize {
    let gap = |pair: &[BootTime]| pair[1].since(pair[0]) > VOLLEY_NS;
    times.windows(2).rposition(gap).map_or(0, |at| at + 1)
}

/// Whether a death came so long before the one that ended its job that the job had gone on.
pub(super) fn went_on(death: &Death, ended_by: &Death) -> bool {
    ended_by.when.act_time.since(death.when.act_time) > VOLLEY_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volley_begins_after_the_last_gap() {
        let times = |seconds: &[u64]| -> Vec<BootTime> {
            let at = |second: &u64| BootTime(second * 1_000_000_000);
            seconds.iter().map(at).collect()
        };
        assert_eq!(last_volley(&times(&[])), 0);
        assert_eq!(last_volley(&times(&[1, 4, 8])), 0);
        assert_eq!(last_volley(&times(&[1, 10, 14, 15])), 1);
        assert_eq!(last_volley(&times(&[1, 2, 20])), 2);
    }
}
