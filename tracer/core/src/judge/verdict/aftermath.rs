//! Recognizes what Ray writes and does about a worker *because* it is gone: that is no reason of its end.
//!
//! Once a worker has ended, its raylet drops it ("Disconnecting worker"), the GCS notes its exit and the end of its actor, has that
//! actor killed ("Received `KillLocalActor` RPC") wherever it may be, and the raylet ends its process group. With eBPF the exit has the
//! kernel's time, and these records come after it. Without, an exit is told some time after it, on a busy machine a second, and they
//! come before. Three things tell them from reasons, in both modes: the order among Ray's own records, the exit code, and what the
//! worker itself said.
//!
//! Mirrors `src/ray/raylet/node_manager.cc` (`DisconnectClient`, `HandleKillLocalActor`), `gcs_actor_manager.cc` (`OnWorkerDead`,
//! `DestroyActor`) and `src/ray/core_worker/core_worker.cc` (`ForceExit`, `HandleKillActor`) of Ray 2.9 to 2.60.

use libc::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};

use super::Case;
use crate::{
    event::{RayLog, Role},
    ids::BootTime,
    judge::state::timestamped::Timestamped,
    ray::facts::{ExitType, RayFact},
    signals::EXIT_AT_SIGTERM,
};

/// By when the process was gone or ending by itself: at `act`, or when Ray noted its end, if that was before.
pub(super) fn gone_by(case: &Case<'_>, act: BootTime) -> BootTime {
    let about = case.world.ray_about(case.key());
    let noted = about.iter().filter(|record| notes_an_error(record));
    noted.map(|record| record.time).fold(act, BootTime::min)
}

/// Whether Ray took the end of this worker for an error: one that it had asked to end leaves with an intended exit.
pub(super) fn was_an_error(case: &Case<'_>) -> bool {
    let about = case.world.ray_about(case.key());
    about.iter().any(|record| notes_an_error(record))
}

/// Where Ray ends a worker on purpose it writes so itself: these two are what it writes of one that it has lost.
fn notes_an_error(record: &Timestamped<RayLog>) -> bool {
    let lost = |kind: ExitType| matches!(kind, ExitType::SystemError | ExitType::UserError);
    match &record.what.fact {
        RayFact::Disconnected {
            exit_type,
            graceful,
            driver: false,
            ..
        } => lost(*exit_type) && *graceful != Some(true),
        RayFact::GcsWorkerExit { exit_type, .. } => lost(*exit_type),
        _ => false,
    }
}

/// Whether Ray was asked to kill the actor when it could no longer reach it: the raylet then drops the worker as if it had ended it,
/// without an answer. One that it ends so with a signal does not exit by itself.
pub(super) fn was_out_of_reach(case: &Case<'_>) -> bool {
    if case.exit.exit.code().is_none() {
        return false;
    }
    let about = case.world.ray_about(case.key());
    if about.iter().any(|record| is_its_own(record)) {
        return false;
    }
    let mut after = about
        .iter()
        .skip_while(|record| !matches!(record.what.fact, RayFact::KillActorRequested { .. }));
    after.any(|record| {
        matches!(
            record.what.fact,
            RayFact::Disconnected {
                exit_type: ExitType::IntendedSystemExit,
                graceful: Some(false),
                ..
            }
        )
    })
}

/// Whether a worker has ended with a code that Ray does not end its workers with: those exit with 0 or 1 (`QuickExit`, `sys.exit` in
/// the handler of SIGTERM). Then it is the program's own, unless the worker said before that Ray had asked it to end. A handler of
/// the program's may tell the SIGTERM that it caught.
pub(super) fn has_own_code(case: &Case<'_>) -> bool {
    let code = case.exit.exit.code();
    case.role() == Role::Worker && code.is_some_and(|code| !matches!(code, 0 | 1 | EXIT_AT_SIGTERM))
}

/// Whether the worker wrote this itself, and so was alive.
pub(super) fn is_its_own(record: &Timestamped<RayLog>) -> bool {
    matches!(
        record.what.fact,
        RayFact::SelfDisconnect { .. }
            | RayFact::ForceKillActor { .. }
            | RayFact::RayletLost { .. }
    )
}

/// Signals of a fault in the process itself (and SIGABRT, SIGSYS): Ray sends none of them.
pub(super) fn is_fault(signal: i32) -> bool {
    matches!(
        signal,
        SIGILL | SIGTRAP | SIGABRT | SIGBUS | SIGFPE | SIGSEGV | SIGSYS
    )
}
