//! Finds what Ray itself recorded about an end that it is said to have asked for.
//!
//! A worker's own log is written by the worker, so its user can write anything there. The raylet and
//! the GCS note each end too: as one that they asked for, or as an error. Up to Ray 2.35 the raylet
//! does not say of which worker (`NodeManager::DisconnectClient, disconnect_type=1`), and a request
//! of `ray.kill` is only in the worker's own log.

use libc::SIGTERM;

use super::{Case, Draft, LEARN_NS, aftermath, draft::Basis, reasons::LOG_STAMP_NS};
use crate::{
    event::{RayLog, Role},
    ids::SECOND_NS,
    judge::{
        report::{Certainty, Killer, Relation},
        state::timestamped::Timestamped,
    },
    ray::facts::RayFact,
    signals::EXIT_AT_SIGTERM,
};

/// Returns whether the raylet or the GCS recorded by a given time that Ray was ending this worker.
/// A process that ended by itself is noted too, but as an error.
fn is_recorded_by(case: &Case<'_>, most_after_ns: i64) -> bool {
    let about = case.world.ray_about(case.key()).into_iter();
    let mut before = about.filter(|record| record.time.since(case.exit.time) <= most_after_ns);
    before.any(|record| record.what.fact.shows_an_end_by_ray())
        && !aftermath::was_out_of_reach(case)
}

/// Returns whether Ray recorded a request before the process ended. What it records later follows
/// from the end.
pub(super) fn was_asked(case: &Case<'_>) -> bool {
    is_recorded_by(case, LOG_STAMP_NS)
}

/// Returns whether Ray recorded the end as its own. What comes later than two seconds does not
/// count, so that a verdict that was given then stays.
pub(super) fn is_rays(case: &Case<'_>) -> bool {
    is_recorded_by(case, LEARN_NS) && !aftermath::was_an_error(case)
}

/// Returns whether the end is a normal one, and so not listed: proven, or more than a guess.
pub(super) fn is_normal(case: &Case<'_>, draft: &Draft) -> bool {
    draft.killer == Killer::RayIntended
        && (draft.certainty == Certainty::Proven
            || case.exit.exit.code() == Some(0)
            || draft.basis == Basis::KnownTool && ended_at_sigterm(case)
            // What follows from another death is shown with that one.
            || draft.cause.is_some()
            || is_rays(case)
            || is_confirmed(case)
            || ended_at_rays_sigterm(case, draft))
}

/// Returns whether Ray wrote why it ends this worker, and it ended at the SIGTERM that Ray then sent.
/// Ray's handler raises `SystemExit`. If the worker gets to record that before it leaves, Ray notes
/// an error: `Worker exits unexpectedly by a signal. SystemExit is raised` (2.60).
fn ended_at_rays_sigterm(case: &Case<'_>, draft: &Draft) -> bool {
    let by_ray = draft
        .sender
        .as_ref()
        .is_some_and(|sender| sender.relation == Relation::Ray && sender.signal == Some(SIGTERM));
    by_ray && was_asked(case) && ended_at_sigterm(case)
}

/// Returns whether it ended as a signal of a tool lets it end: by the signal, or by a handler with the
/// code of a shell, of Python's `sys.exit(signum)`, or of Ray's worker, which is 1
/// (`python/ray/_private/worker.py`, `sigterm_handler`; 2.9 to 2.60).
fn ended_at_sigterm(case: &Case<'_>) -> bool {
    match case.exit.exit.code() {
        None | Some(EXIT_AT_SIGTERM | SIGTERM) => true,
        Some(1) => case.role() == Role::Worker,
        Some(_) => false,
    }
}

/// Returns whether the worker's own log names the request, and the raylet noted an intended end at
/// that moment.
fn is_confirmed(case: &Case<'_>) -> bool {
    let about = case.world.ray_about(case.key());
    let says_so = |record: &&Timestamped<RayLog>| match &record.what.fact {
        RayFact::SelfDisconnect { exit_type, .. } => exit_type.is_intended(),
        RayFact::ForceKillActor { .. } => true,
        _ => false,
    };
    let worker = case.world.processes.get(case.key());
    let worker = worker.and_then(|state| state.worker_id.as_ref());
    let notes_it = |record: &Timestamped<RayLog>| {
        let near = -SECOND_NS..LEARN_NS;
        near.contains(&record.time.since(case.exit.time))
            && matches!(
                &record.what.fact,
                RayFact::Disconnected { worker_id, exit_type, .. }
                    if exit_type.is_intended() && (worker_id.is_none() || worker_id.as_ref() == worker)
            )
    };
    about.into_iter().any(|record| says_so(&record))
        && !aftermath::was_an_error(case)
        && case
            .cluster()
            .is_some_and(|raylet| case.world.ray_of_cluster(raylet).any(notes_it))
}
