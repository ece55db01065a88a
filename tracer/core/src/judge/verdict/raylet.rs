//! Judges a signal from a raylet, by the reason that Ray's logs give.
//!
//! Signals alone cannot tell the memory monitor from a raylet that shuts down.

use super::{
    Case, Draft, ended_before, mechanism,
    reasons::{self, Reason},
};
use crate::{
    event::{Role, Signal},
    ids::ProcessKey,
    judge::{
        cause::Cause,
        missing::Missing,
        report::{Certainty, Killer, Relation},
        state::timestamped::Timestamped,
    },
};

pub(super) fn verdict(
    case: &Case<'_>,
    raylet: ProcessKey,
    signal: &Timestamped<Signal>,
    certainty: Certainty,
) -> Draft {
    let mechanism = mechanism(signal);
    if let Some(reason) = reasons::for_process(case, raylet, signal.time) {
        let draft = reason.draft(case, certainty).confirm_by_samples(case);
        let waits = draft.killer == Killer::RayIntended && may_be_shutdown(case, raylet, signal);
        return draft.sent(signal, Relation::Ray, mechanism).open_if(waits);
    }
    if let Some(draft) = with_its_worker(case, signal, certainty) {
        return draft;
    }
    if let Some(draft) = ended_before::verdict(case, signal.time) {
        return draft;
    }
    unexplained(case, raylet, signal)
}

/// Returns whether the raylet may still log that it ended this worker because it was shutting down.
/// It writes that after it has sent the signal.
fn may_be_shutdown(case: &Case<'_>, raylet: ProcessKey, signal: &Timestamped<Signal>) -> bool {
    let shutdown = || reasons::shutdown(case, raylet, signal.time);
    case.may_still_learn() && matches!(shutdown(), Some(Reason::Collapse { .. }))
}

/// Judges a process that the raylet ended because its worker had ended. The worker's end is the
/// cause.
pub(super) fn with_its_worker(
    case: &Case<'_>,
    signal: &Timestamped<Signal>,
    certainty: Certainty,
) -> Option<Draft> {
    let worker = worker_above(case).filter(|worker| case.is_before(*worker))?;
    let cause = Cause::WorkerEnding {
        worker_pid: worker.pid,
        by_raylet: true,
    };
    let killer = case.killer_after(worker);
    Some(
        Draft::new(killer, certainty, cause)
            .caused_by(Some(worker))
            .by_text()
            .sent(signal, Relation::Ray, mechanism(signal)),
    )
}

/// Returns the verdict on a signal of the raylet's for which no log gives a reason. Ray up to 2.9
/// removes placement groups without a log line.
pub(super) fn unexplained(
    case: &Case<'_>,
    raylet: ProcessKey,
    signal: &Timestamped<Signal>,
) -> Draft {
    Draft::unknown(
        Cause::RayletWithoutReason {
            raylet_pid: raylet.pid,
        },
        Missing::RayletReason,
    )
    .sent(signal, Relation::Ray, mechanism(signal))
    .open(case.may_still_learn())
}

/// Returns the worker that started this descendant, if it has ended.
fn worker_above(case: &Case<'_>) -> Option<ProcessKey> {
    let mut state = case.world.processes.get(case.key())?;
    if state.role != Role::Descendant {
        return None;
    }
    for _ in 0..16 {
        let parent = case.world.processes.parent_of(state)?;
        if parent.role == Role::Worker {
            return case.world.exit(parent.key).map(|_| parent.key);
        }
        state = parent;
    }
    None
}
