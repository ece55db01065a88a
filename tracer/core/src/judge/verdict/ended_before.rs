//! Judges, by its own log, a worker that was already ending before its raylet acted.

use super::{Case, Draft, external_signal, senders};
use crate::{
    ids::BootTime,
    judge::{
        cause::Cause,
        fatal_act,
        missing::Missing,
        report::{Certainty, Killer},
    },
    ray::{facts::RayFact, words},
};

/// Returns the verdict on a worker that was already ending when its raylet killed what was left of
/// it. Ray's record then has the worker's exit code or the signal that it caught
/// (`Worker exits with an exit code 7.`, `The process receives a SIGTERM.`).
pub(super) fn verdict(case: &Case<'_>, act: BootTime) -> Option<Draft> {
    let code = case
        .world
        .ray_about(case.key())
        .into_iter()
        .filter(|record| record.time <= act)
        .find_map(|record| match &record.what.fact {
            RayFact::SelfDisconnect { detail, .. } | RayFact::GcsWorkerExit { detail, .. } => {
                words::exit_code(detail)
            }
            _ => None,
        })?;
    if let Some(signal) = fatal_act::caught_before(case.world, case.key(), act)
        && senders::raylet_of(case, &signal.what.sender).is_none()
    {
        let draft = external_signal::verdict(case, signal, Certainty::Inferred);
        return Some(draft.wrap_cause(|cause| Cause::CaughtSignalThenRaylet { cause }));
    }
    if says_signal(case, BootTime(0)) {
        // Somebody sent the signal, but was not seen.
        return None;
    }
    if code == 1 && !case.saw_signals() {
        let cause = Cause::ExitOrSigterm {
            code: Some(code),
            exception: None,
            raylet_ended_rest: true,
        };
        return Some(Draft::unknown(cause, Missing::Sigterm));
    }
    let cause = Cause::ExitThenRaylet { code };
    Some(Draft::new(Killer::Exit, Certainty::Inferred, cause))
}

/// Returns whether the worker's own log says, from `time` on, that a signal made it end.
pub(super) fn says_signal(case: &Case<'_>, time: BootTime) -> bool {
    // Log lines have a time in whole milliseconds.
    let about = case.world.ray_about(case.key());
    about.iter().any(|record| {
        record.time.since(time) > -2_000_000
            && matches!(&record.what.fact, RayFact::SelfDisconnect { detail, .. } if words::names_sigterm(detail))
    })
}
