//! Judges ends by `ray start --block`.
//!
//! It ends all that it started when one of these processes has failed, or when it ends itself.

use libc::SIGTERM;

use super::{
    Case, Draft,
    senders::{self, Tool, is_child, relation},
};
use crate::{
    event::{Exit, Signal},
    ids::{ProcessKey, SECOND_NS},
    judge::{
        cause::{Cause, ProcessRef},
        report::{Certainty, Killer, Relation},
        state::timestamped::{ExitSeen, Timestamped},
    },
    signals::EXIT_AT_SIGTERM,
};

/// How long ago another process that it started may have ended: `ray start --block` checks once a
/// second.
const LOOKS_NS: i64 = 5 * SECOND_NS;

/// Returns the verdict on an end by `ray start --block`. It ends what it started when one of these
/// processes has failed, or when it is told to end itself (`python/ray/scripts/scripts.py`, 2.9 to
/// 2.60).
pub(super) fn ended(case: &Case<'_>, signal: &Timestamped<Signal>, certainty: Certainty) -> Draft {
    let starter = signal.what.sender.process.pid;
    let Some(first) = failed_beside(case, signal) else {
        let cause = Tool::leaving(starter).cause(false);
        let draft = Draft::new(Killer::RayIntended, certainty, cause).by_text();
        return draft.caused_by(stopped_with_its_container(case, signal));
    };
    let cause = Cause::SiblingDied {
        starter_pid: starter,
        sibling: ProcessRef {
            pid: first.exit.process.pid,
            comm: first.exit.comm.clone(),
            uid: first.exit.uid,
        },
    };
    Draft::new(Killer::RayCollapse, certainty, cause)
        .caused_by(Some(first.exit.process))
        .by_text()
}

/// Returns the `ray start --block` if it was ending because its container was stopped. That is its own
/// end's cause, so it is this one's.
fn stopped_with_its_container(case: &Case<'_>, signal: &Timestamped<Signal>) -> Option<ProcessKey> {
    let starter = signal.what.sender.process;
    let asked = |seen: &Timestamped<Signal>| {
        let by_runtime = || relation(case, &seen.what.sender) == Relation::ContainerRuntime;
        seen.what.signal == SIGTERM && seen.time <= signal.time && by_runtime()
    };
    let stopped = case.world.signals_to(starter).iter().any(asked);
    let has_an_end = case.world.exit(starter).is_some() || case.may_still_end(starter);
    (stopped && has_an_end).then_some(starter)
}

/// Returns the first process of the same `ray start --block` that had failed shortly before this
/// signal.
fn failed_beside<'a>(case: &Case<'a>, signal: &Timestamped<Signal>) -> Option<&'a ExitSeen> {
    // Code 0, SIGTERM, and the codes with which Ray's Python programs exit at a SIGTERM are no
    // failures.
    let failed = |exit: &Exit| {
        exit.signal() != Some(SIGTERM)
            && !matches!(exit.code(), Some(0 | SIGTERM | EXIT_AT_SIGTERM))
    };
    case.world
        .exits
        .values()
        .filter(|seen| (0..LOOKS_NS).contains(&signal.time.since(seen.time)))
        .filter(|seen| {
            failed(&seen.exit) && is_child(case, seen.exit.process, signal.what.sender.process)
        })
        .min_by_key(|seen| seen.time)
        .map(|seen| &**seen)
}

/// Returns the tool if `ray start --block` sent this signal as it ended itself.
pub(super) fn leaving(case: &Case<'_>, signal: &Timestamped<Signal>) -> Option<Tool> {
    let sender = &signal.what.sender;
    let leaves =
        senders::ray_start_block(case, sender).is_some() && failed_beside(case, signal).is_none();
    leaves.then(|| Tool::leaving(sender.process.pid))
}
