//! Judges a signal of slurmstepd: why Slurm ended a step, as far as its node shows.
//!
//! Only the controller knows whether it was `scancel`, a time limit, preemption or a failed node.
//! The node shows what the tasks of the job did before, and whether they were asked to end. With
//! `proctrack/cgroup` Slurm asks only the first process of each task.

use libc::{SIGKILL, SIGTERM};

use super::Case;
use crate::{
    cgroup_path::{self, STEPD},
    event::{Signal, SlurmJob},
    ids::{BootTime, Bytes, MINUTE_NS, ProcessKey, SECOND_NS},
    judge::{
        cause::{ProcessRef, SlurmEnd, SlurmReason},
        fatal_act::{self, FatalAct},
        query::place,
        state::{processes::ProcessState, timestamped::Timestamped},
    },
};

/// The kills of one decision of Slurm's are within this time.
const VOLLEY_NS: i64 = 2 * SECOND_NS;
/// SIGKILL follows SIGTERM within this time: `KillWait` and a partition's `GraceTime` are seconds
/// to minutes.
const ASKS_NS: i64 = 60 * MINUTE_NS;
/// Slurm acts on the end of a task within this time.
const ACTS_ON_END_NS: i64 = 5 * SECOND_NS;
/// Slurm acts within this time after a time limit (it looks once in 30 s, and then waits for
/// `KillWait`).
const AFTER_LIMIT_S: u64 = 180;

/// What Slurm did, and which process's end was its reason.
pub(super) struct Judged {
    pub(super) end: SlurmEnd,
    pub(super) cause: Option<ProcessKey>,
}

/// Judges a signal, if slurmstepd sent it as a part of Slurm.
pub(super) fn judge(case: &Case<'_>, signal: &Timestamped<Signal>) -> Option<Judged> {
    let sender = &signal.what.sender;
    if sender.comm != STEPD {
        return None;
    }
    let job = job(case, signal);
    let began = began(case, signal);
    let asked = asked(case, signal, began);
    let (reason, cause) = match signal.what.signal {
        SIGTERM | SIGKILL => reason(case, signal, (asked.unwrap_or(began), began), job.as_ref()),
        _ => (SlurmReason::Requested, None),
    };
    let (job_id, step_id) = job.map_or((None, None), |job| (Some(job.job), job.step));
    Some(Judged {
        end: SlurmEnd {
            signal: signal.what.signal,
            stepd: ProcessRef::of(sender),
            job_id,
            step_id,
            asked_ms: asked.and_then(|asked| began.ms_since(asked)),
            reason,
        },
        cause,
    })
}

/// Returns the job: as slurmstepd's title names it, else as the process's cgroup or environment
/// does.
fn job(case: &Case<'_>, signal: &Timestamped<Signal>) -> Option<SlurmJob> {
    let state = case.world.processes.get(case.key());
    let own = state.and_then(|state| place::slurm_job(case.world, state));
    let titled = cgroup_path::job_of_stepd(&signal.what.sender.argv);
    match (titled, own) {
        (Some(found), own) => Some(SlurmJob {
            job: found.job,
            step: found.step,
            ..own.unwrap_or_default()
        }),
        (None, own) => own,
    }
}

/// Returns when the sender began to send this signal to the processes of the step.
fn began(case: &Case<'_>, signal: &Timestamped<Signal>) -> BootTime {
    let mut at = signal.time;
    for time in case
        .world
        .stepd_signals
        .times(signal.what.sender.process, signal.what.signal)
        .iter()
        .rev()
    {
        if *time <= at && at.since(*time) <= VOLLEY_NS {
            at = *time;
        }
    }
    at
}

/// Returns when the sender had asked tasks to end, before a SIGKILL.
fn asked(case: &Case<'_>, signal: &Timestamped<Signal>, began: BootTime) -> Option<BootTime> {
    if signal.what.signal != SIGKILL {
        return None;
    }
    let asks = case
        .world
        .stepd_signals
        .times(signal.what.sender.process, SIGTERM);
    let mut before = asks
        .iter()
        .filter(|asked| (0..=ASKS_NS).contains(&began.since(**asked)));
    before.next().copied()
}

/// Returns why Slurm acted, and the process whose end was the reason. `began` is when it first
/// signalled the step, and `first` when it first sent this signal.
fn reason(
    case: &Case<'_>,
    signal: &Timestamped<Signal>,
    (began, first): (BootTime, BootTime),
    job: Option<&SlurmJob>,
) -> (SlurmReason, Option<ProcessKey>) {
    let stepd = signal.what.sender.process;
    let tasks = case.world.processes.started_by_stranger(stepd);
    if let Some(found) = task_failed(case, &tasks, began, stepd) {
        return found;
    }
    if let Some(found) = tasks_ended(case, &tasks, began, stepd, job) {
        return found;
    }
    let batch = batch_script(case, job);
    if let Some(found) = tasks_ended(case, &batch, began, stepd, job) {
        return found;
    }
    // OverMemoryKill is one SIGKILL at once.
    if began == first
        && signal.what.signal == SIGKILL
        && let Some(found) = over_memory(case, began, job)
    {
        return (found, None);
    }
    let reason = if is_at_time_limit(case, began, job) {
        SlurmReason::TimeLimit
    } else {
        SlurmReason::NotShown
    };
    (reason, None)
}

/// Returns the batch script of a job, if this node runs it.
fn batch_script<'a>(case: &Case<'a>, job: Option<&SlurmJob>) -> Vec<&'a ProcessState> {
    let Some(job) = job else {
        return Vec::new();
    };
    let is_script = |state: &&ProcessState| {
        state
            .slurm()
            .is_some_and(|own| own.job == job.job && own.step.as_deref() == Some("batch"))
    };
    case.world.processes.roots().filter(is_script).collect()
}

/// Finds a task that failed a moment before while others lived on.
fn task_failed(
    case: &Case<'_>,
    tasks: &[&ProcessState],
    began: BootTime,
    stepd: ProcessKey,
) -> Option<(SlurmReason, Option<ProcessKey>)> {
    if tasks.len() < 2
        || tasks
            .iter()
            .all(|task| ended_before(case, task.key, began).is_some())
    {
        return None;
    }
    tasks.iter().find_map(|task| {
        let end = ended_before(case, task.key, began)?;
        let code = case
            .world
            .exit(task.key)?
            .exit
            .code()
            .filter(|code| *code != 0)?;
        let near = began.since(end) <= ACTS_ON_END_NS;
        (near && !was_asked(case, task.key, end, stepd)).then(|| {
            let failed = SlurmReason::OtherTaskFailed {
                pid: task.key.pid,
                task: task.cgroup.as_deref().and_then(cgroup_path::slurm_task),
                code,
            };
            (failed, Some(task.key))
        })
    })
}

/// Finds the last task that ended by itself, if all had ended.
fn tasks_ended(
    case: &Case<'_>,
    tasks: &[&ProcessState],
    began: BootTime,
    stepd: ProcessKey,
    job: Option<&SlurmJob>,
) -> Option<(SlurmReason, Option<ProcessKey>)> {
    let ends: Option<Vec<_>> = tasks
        .iter()
        .map(|task| Some((ended_before(case, task.key, began)?, *task)))
        .collect();
    let (end, task) = ends?.into_iter().max_by_key(|(end, _)| *end)?;
    if task.key.same(case.key()) || was_asked(case, task.key, end, stepd) {
        return None;
    }
    let step = task.slurm().and_then(|own| own.step);
    let step = step.or_else(|| job?.step.clone());
    let ended = SlurmReason::TaskEnded {
        pid: task.key.pid,
        batch: step.as_deref() == Some("batch"),
        code: case.world.exit(task.key)?.exit.code(),
    };
    Some((ended, Some(task.key)))
}

/// Returns when a process ended, if that was before a time.
fn ended_before(case: &Case<'_>, process: ProcessKey, time: BootTime) -> Option<BootTime> {
    let exit = case.world.exit(process)?;
    Some(exit.time).filter(|end| *end <= time)
}

/// Whether Slurm had asked a process to end, or killed it, before it did. A signal that somebody
/// requested is no such request: what Slurm then ends follows from it.
fn was_asked(case: &Case<'_>, process: ProcessKey, end: BootTime, stepd: ProcessKey) -> bool {
    let by_slurm = |seen: &Timestamped<Signal>| {
        let sender = &seen.what.sender;
        let own = sender.process.same(stepd) || sender.comm == STEPD;
        own && seen.time <= end && matches!(seen.what.signal, SIGTERM | SIGKILL)
    };
    let mut signals = case.world.signals_to(process).iter();
    let asked = signals.any(by_slurm);
    let killed = case.world.exit(process).is_some_and(
        |exit| matches!(fatal_act::of(case.world, exit), FatalAct::Killed(seen) if by_slurm(seen)),
    );
    asked || killed
}

/// Compares what the processes of a job hold with what it requested. Where a cgroup limits memory,
/// the kernel kills, not Slurm.
fn over_memory(case: &Case<'_>, began: BootTime, job: Option<&SlurmJob>) -> Option<SlurmReason> {
    let job = job?;
    let requested = job.memory.filter(|memory| memory.0 > 0)?;
    let own = case.world.processes.get(case.key())?;
    if own.cgroup.as_deref().and_then(cgroup_path::slurm).is_some() {
        return None;
    }
    let alive = |state: &&ProcessState| {
        let end = case.world.exit(state.key);
        end.is_none_or(|end| end.time >= began)
    };
    let of_job = |state: &&ProcessState| {
        let its = place::slurm_job(case.world, state);
        its.is_some_and(|its| its.job == job.job)
    };
    let all = case.world.processes.iter().filter(alive).filter(of_job);
    let held = all.filter_map(|state| state.memory?.1.resident());
    let used = Bytes(held.map(|bytes| bytes.0).sum());
    (used > requested).then_some(SlurmReason::OverMemory {
        used_bytes: used,
        requested_bytes: requested,
    })
}

/// Whether the time limit that the job's environment names was reached.
fn is_at_time_limit(case: &Case<'_>, began: BootTime, job: Option<&SlurmJob>) -> bool {
    let at = case.world.clock.wall(began);
    let seconds = at.and_then(|at| u64::try_from(at.0.0 / SECOND_NS).ok());
    let ends = job.and_then(|job| job.ends);
    seconds
        .zip(ends)
        .is_some_and(|(at, ends)| (ends..=ends.saturating_add(AFTER_LIMIT_S)).contains(&at))
}
