//! Recognizes what Ray logs and does *because* a worker is gone: it is not why the worker ended.
//!
//! Once a worker has ended, its raylet drops it ("Disconnecting worker"). The GCS notes its exit
//! and the end of its actor, and has that actor killed ("Received `KillLocalActor` RPC") wherever
//! it may be. The raylet ends its process group.
//!
//! With eBPF, the exit has the kernel's time, and these records come after it. Without eBPF, an
//! exit is noticed some time later, on a busy machine a second, and these records come before it.
//! Three things tell them from reasons in both modes: the order among Ray's own records, the exit
//! code, and what the worker itself logged.
//!
//! Mirrors `src/ray/raylet/node_manager.cc` (`DisconnectClient`, `HandleKillLocalActor`),
//! `gcs_actor_manager.cc` (`OnWorkerDead`, `DestroyActor`) and `src/ray/core_worker/core_worker.cc`
//! (`ForceExit`, `HandleKillActor`) of Ray 2.9 to 2.60.

use libc::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};

use super::Case;
use crate::{
    event::{RayLog, Role},
    ids::BootTime,
    judge::state::timestamped::Timestamped,
    ray::facts::{ExitType, RayFact},
    signals::EXIT_AT_SIGTERM,
};

/// Returns by when the process was gone or ending by itself: at `act`, or when Ray noted its end,
/// if that was earlier.
pub(super) fn gone_by(case: &Case<'_>, act: BootTime) -> BootTime {
    let about = case.world.ray_about(case.key());
    let noted = about.iter().filter(|record| notes_an_error(record));
    noted.map(|record| record.time).fold(act, BootTime::min)
}

/// Returns whether Ray took the end of this worker for an error. A worker that Ray had asked to end
/// leaves with an intended exit.
pub(super) fn was_an_error(case: &Case<'_>) -> bool {
    let about = case.world.ray_about(case.key());
    about.iter().any(|record| notes_an_error(record))
}

/// Returns whether Ray wrote this record about a worker that it had lost. If it ends a worker on
/// purpose, it writes that itself.
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

/// Returns whether Ray was asked to kill the actor when it could no longer reach it. The raylet
/// then gets no answer, and drops the worker as if it had ended it. A worker that it does end that
/// way, by a signal, does not exit by itself.
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

/// Returns whether a worker has ended with a code with which Ray does not end its workers. Those
/// exit with 0 or 1 (`QuickExit`, `sys.exit` in the handler of SIGTERM). Another code is the
/// program's own, unless the worker logged before that Ray had asked it to end. `EXIT_AT_SIGTERM`
/// is not such a code: with it, a handler of the program's reports the SIGTERM that it caught.
pub(super) fn has_own_code(case: &Case<'_>) -> bool {
    let code = case.exit.exit.code();
    case.role() == Role::Worker && code.is_some_and(|code| !matches!(code, 0 | 1 | EXIT_AT_SIGTERM))
}

/// Returns whether the worker wrote this itself, and so was alive.
pub(super) fn is_its_own(record: &Timestamped<RayLog>) -> bool {
    matches!(
        record.what.fact,
        RayFact::SelfDisconnect { .. }
            | RayFact::ForceKillActor { .. }
            | RayFact::RayletLost { .. }
    )
}

/// Returns whether a signal stands for a fault in the process itself (or is SIGABRT or SIGSYS). Ray
/// sends none of them.
pub(super) fn is_fault(signal: i32) -> bool {
    matches!(
        signal,
        SIGILL | SIGTRAP | SIGABRT | SIGBUS | SIGFPE | SIGSEGV | SIGSYS
    )
}
