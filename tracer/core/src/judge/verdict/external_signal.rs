//! Judges a signal that another process sent and that killed.

use super::{
    Case, Draft, LATE_NS, mechanism, reasons,
    senders::{self, is_supervisor, own_driver, relation},
    slurm, starter,
};
use crate::{
    event::{Role, Signal},
    ids::{BootTime, ProcessKey, SECOND_NS},
    judge::{
        cause::{Cause, ProcessRef},
        report::{Certainty, Killer, Relation},
        state::timestamped::Timestamped,
    },
    ray::facts::RayFact,
};

/// Returns the verdict on a signal from a sender other than a raylet: a tool of Ray's, a relative,
/// or a stranger. Also serves a signal that was caught, with `inferred` as its certainty.
pub(super) fn verdict(
    case: &Case<'_>,
    signal: &Timestamped<Signal>,
    certainty: Certainty,
) -> Draft {
    let relation = relation(case, &signal.what.sender);
    let mechanism = mechanism(signal);
    let most = senders::ray_start_block(case, &signal.what.sender);
    if let Some(most) = most.filter(|_| case.is_of_ray()) {
        let draft = starter::ended(case, signal, certainty).by_tool(most);
        return draft.sent(signal, Relation::Ray, mechanism);
    }
    if let Some(draft) = by_tool(case, signal, certainty) {
        return draft.sent(signal, Relation::Ray, mechanism);
    }
    if let Some(draft) = with_its_worker(case, signal, relation, certainty) {
        return draft;
    }
    if let Some(draft) = by_jobs_watcher(case, signal, certainty) {
        return draft.sent(signal, Relation::Ray, mechanism);
    }
    if relation == Relation::WorkloadManager
        && let Some(judged) = slurm::judge(case, signal)
    {
        return Draft::new(Killer::Signal, certainty, Cause::Slurm(judged.end))
            .caused_by(judged.cause)
            .by_text()
            .sent(signal, relation, mechanism);
    }
    let cause = Cause::Signal {
        signal: signal.what.signal,
        sender: Some(ProcessRef::of(&signal.what.sender)),
    };
    Draft::new(Killer::Signal, certainty, cause)
        .sent(signal, relation, mechanism)
        .open_if(waits_for_its_worker(case, signal, relation))
}

/// Judges a tool of Ray's that ended a part of Ray. The reason is what the tool is for. That is no
/// more than inferred, because the tool's user may have changed it.
fn by_tool(case: &Case<'_>, signal: &Timestamped<Signal>, certainty: Certainty) -> Option<Draft> {
    if !case.is_of_ray() {
        return None;
    }
    if let Some(tool) = senders::tool(case, &signal.what) {
        let (most, known) = (tool.certainty, tool.is_job_stop());
        let draft = Draft::new(Killer::RayIntended, certainty, tool.cause(false));
        return Some(draft.by_tool(most).by_text().known(known));
    }
    let of_the_job = matches!(case.role(), Role::Worker | Role::Driver | Role::Descendant);
    let tool = own_driver(case, signal, case.key()).filter(|_| !of_the_job)?;
    let known = senders::ends_the_rest(case, signal, case.key());
    let identity = tool.certainty;
    let draft = Draft::new(Killer::RayIntended, certainty, tool.cause(false));
    let draft = draft.by_tool(identity).by_text();
    Some(draft.open_if(!known && case.is_within(LATE_NS)))
}

/// Judges a child of a worker that had to end and took its children along. The worker's end is the
/// cause.
///
/// Ray does that in a thread of its own when it ends a worker (`CoreWorker::ForceExit`). The job's
/// own code may kill a child too, from any thread, and exit a moment later. So it is Ray's act only
/// if Ray recorded that it was ending the worker, and no more than inferred.
fn with_its_worker(
    case: &Case<'_>,
    signal: &Timestamped<Signal>,
    relation: Relation,
    certainty: Certainty,
) -> Option<Draft> {
    let sender = signal.what.sender.process;
    if !by_its_worker(case, signal, relation) || signal.what.sender.tid == sender.pid {
        return None;
    }
    let end = case.world.exit(sender)?;
    if !(0..2 * SECOND_NS).contains(&end.time.since(signal.time)) {
        return None;
    }
    let draft = case.verdict_on(sender)?;
    let lost = draft.cause.and_then(|cause| case.act_time(cause));
    let was_ending = lost.is_some_and(|lost| lost <= signal.time)
        || is_recorded_before(case, sender, signal.time);
    let killer = match draft.killer {
        _ if !was_ending => return None,
        Killer::RayIntended => Killer::RayIntended,
        Killer::RayCollapse | Killer::RayMemoryMonitor => Killer::RayCollapse,
        _ => return None,
    };
    let cause = Cause::WorkerEnding {
        worker_pid: sender.pid,
        by_raylet: false,
    };
    Some(
        Draft::new(killer, certainty, cause)
            .at_most(Certainty::Inferred)
            .caused_by(Some(sender))
            .sent(signal, relation, mechanism(signal)),
    )
}

/// Returns whether the raylet or the GCS had recorded by `time` that Ray was ending the worker. For
/// an actor that is to be killed, the GCS may ask the worker itself, whose log has that alone.
fn is_recorded_before(case: &Case<'_>, worker: ProcessKey, time: BootTime) -> bool {
    let about = case.world.ray_about(worker).into_iter();
    let mut before = about.filter(|record| record.time.since(time) <= reasons::LOG_STAMP_NS);
    before.any(|record| {
        let fact = &record.what.fact;
        fact.shows_an_end_by_ray() || matches!(fact, RayFact::ForceKillActor { .. })
    })
}

/// Returns whether the worker that started this descendant sent the signal.
fn by_its_worker(case: &Case<'_>, signal: &Timestamped<Signal>, relation: Relation) -> bool {
    let sender = signal.what.sender.process;
    let state = case.world.processes.get(sender);
    case.role() == Role::Descendant
        && matches!(relation, Relation::Parent | Relation::SameJob)
        && state.is_some_and(|state| state.role == Role::Worker)
        && senders::descends(case, case.key(), sender)
}

/// Returns whether that worker may be ending. Its own end comes after those of its children.
fn waits_for_its_worker(case: &Case<'_>, signal: &Timestamped<Signal>, relation: Relation) -> bool {
    let sender = &signal.what.sender;
    case.may_still_learn()
        && sender.tid != sender.process.pid
        && case.world.exit(sender.process).is_none()
        && by_its_worker(case, signal, relation)
}

/// Judges the shell that each submitted job has. It waits until the job's supervisor is gone, and
/// then kills the driver's process group (`_exec_entrypoint`,
/// `python/ray/dashboard/modules/job/job_supervisor.py`).
fn by_jobs_watcher(
    case: &Case<'_>,
    signal: &Timestamped<Signal>,
    certainty: Certainty,
) -> Option<Draft> {
    // By then the shell has another parent. Its fork says who started it.
    let processes = &case.world.processes;
    let parent = processes.get(signal.what.sender.process)?.parent_key?;
    let supervisor = processes.get(parent).filter(|state| is_supervisor(state))?;
    let before = case.act_time(parent).is_some_and(|died| died < signal.time);
    let own = senders::descends(case, case.key(), parent);
    let argv = &signal.what.sender.argv;
    // A shell that was recorded without its command line is believed to be the watcher.
    let is_watcher = argv.is_empty() || senders::is_watcher(argv, supervisor.pid_for_ray());
    if !before || !own || !case.is_of_ray() || !is_watcher {
        return None;
    }
    let killer = case.killer_after(parent);
    let cause = Cause::JobSupervisorEnded {
        supervisor_pid: supervisor.key.pid,
        died: killer == Killer::RayCollapse,
    };
    Some(
        Draft::new(killer, certainty, cause)
            .caused_by(Some(parent))
            // Its user may call an actor that, and give a shell that text.
            .at_most(Certainty::Inferred),
    )
}
