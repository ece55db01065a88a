//! Judges a process that ended itself: by a fault, by a signal of its own, or by an exit.
//!
//! If it exited because Ray had asked it to, Ray's reason is given.

use libc::{SIGKILL, SIGTERM};

use super::{
    Case, Draft, aftermath, ended_before, external_signal, kernel, limits, mechanism, raylet,
    reasons::{self, Reason},
    recorded, senders, watched,
};
use crate::{
    event::{RayLog, Role, Signal, Source},
    ids::{BootTime, MINUTE_NS, ProcessKey, SECOND_NS},
    judge::{
        cause::Cause,
        fatal_act::{self, Fate},
        missing::Missing,
        report::{Certainty, Killer, Relation},
        signal_origin::{self, Origin, SignalOrigin},
        state::timestamped::Timestamped,
    },
    ray::{
        facts::{ExitType, RayFact},
        words,
    },
    signals::{self, ENDING},
};

/// How long after an outside signal a process may still re-raise it on itself.
const RERAISE_NS: i64 = MINUTE_NS;

/// Judges a signal that the process sent to itself: a crash, unless it passes on a signal that came
/// from outside.
pub(super) fn own_signal(case: &Case<'_>, signal: &Timestamped<Signal>) -> Draft {
    let earlier = |seen: &&Timestamped<Signal>| {
        seen.what.signal == signal.what.signal
            && matches!(seen.what.result, 0 | 4)
            && (0..RERAISE_NS).contains(&signal.time.since(seen.time))
            && fatal_act::fate(case.world, case.key(), seen) != Fate::Pending
    };
    let signals = case.world.signals_to(case.key()).iter();
    let mut earlier = signals.filter(earlier);
    // A failure handler (abseil's in Ray's workers, Python's faulthandler) raises a fault again
    // without its code. Only that code tells a memory error of the machine from a crash.
    let is_fault = |seen: &&Timestamped<Signal>| {
        matches!(
            origin(seen).kind,
            Origin::Fault | Origin::Hwpoison | Origin::Seccomp
        )
    };
    let from_outside_it = |seen: &&Timestamped<Signal>| {
        !is_fault(seen)
            && (origin(seen).is_from_kernel() || !seen.what.sender.process.same(case.key()))
    };
    let fault = earlier.clone().rfind(is_fault);
    // Runtimes recover from faults. What came after one is nearer.
    let mut later = earlier.clone();
    let later = later
        .find(|seen| from_outside_it(seen) && fault.is_none_or(|fault| fault.time < seen.time));
    if let (Some(fault), None) = (fault, later) {
        let draft = limits::by_signal(fault, origin(fault));
        let draft = draft.unwrap_or_else(|| faulted(case, fault));
        // A handler raises a fault again at once, if it is the last that came.
        let at_once = signal.time.since(fault.time) < SECOND_NS || draft.killer == Killer::Crash;
        let alone = at_once && !earlier.any(|seen| from_outside_it(&seen));
        // A handler of any other signal may have sent this one.
        let has_caught = fatal_act::has_caught(case.world, case.key(), fault.time, signal.time);
        let alone = alone && !has_caught;
        let most = if alone {
            Certainty::Proven
        } else {
            Certainty::Inferred
        };
        return draft.at_most(most);
    }
    let Some(outside) = later else {
        return at_signal(case, signal).unwrap_or_else(|| raised(case, signal));
    };
    if !origin(outside).is_from_kernel()
        && let Some(raylet) = senders::raylet_of(case, &outside.what.sender)
    {
        return raylet::verdict(case, raylet, outside, Certainty::Inferred);
    }
    let after_s = seconds_between(outside, signal.time);
    from_outside(case, outside)
        .wrap_cause(|cause| Cause::CaughtSignalThenReraise { cause, after_s })
}

/// Judges a signal that the process sent to itself for a reason of its own, as far as was seen. That
/// is proven where a handler that sends it again is ruled out: the hooks report signals that are
/// caught only where they tell processes to end, and one may have come at any time before.
fn raised(case: &Case<'_>, signal: &Timestamped<Signal>) -> Draft {
    let number = signal.what.signal;
    let is_seen = signals::is_fault(number) || number == SIGKILL || ENDING.contains(&number);
    let mut earlier = case.world.signals_to(case.key()).iter();
    let came_before = earlier.any(|seen| {
        seen.what.signal == number
            && seen.time < signal.time
            && !seen.what.sender.process.same(case.key())
    });
    let draft = kernel::fault(case, signal);
    // Its handler of another signal may have sent this one.
    let has_caught = fatal_act::has_caught(case.world, case.key(), BootTime(0), signal.time);
    if is_seen && !came_before && !has_caught && !may_be_caught_unseen(case, number) {
        draft
    } else {
        draft.at_most(Certainty::Inferred)
    }
}

/// Returns whether the process may have caught this signal before the recorder watched it: its start
/// was not seen, and signals of this number tell processes to end. A handler may save for as long as
/// it likes.
fn may_be_caught_unseen(case: &Case<'_>, number: i32) -> bool {
    let state = case.world.processes.get(case.key());
    ENDING.contains(&number) && state.is_none_or(|state| state.parent_key.is_none())
}

/// Judges a fault of the process. What its handler does at a signal from outside may fail, and does
/// so soon.
pub(super) fn faulted(case: &Case<'_>, fault: &Timestamped<Signal>) -> Draft {
    let caught = fatal_act::caught_before(case.world, case.key(), fault.time);
    let soon = caught.filter(|caught| fault.time.since(caught.time) <= fatal_act::GOES_ON_NS);
    soon.and_then(|_| at_signal(case, fault))
        .unwrap_or_else(|| kernel::fault(case, fault))
}

/// Judges a signal of the process's own, or a fault, after a signal from outside that told the
/// process to end. A handler may end it by another signal: Python raises SIGINT at a
/// `KeyboardInterrupt`, and programs kill their whole tree. It may also fail: `CoreWorker` aborts
/// without its raylet, which the same sender ended.
///
/// A raylet's SIGTERM also follows an end that had already begun, so it explains no such end.
fn at_signal(case: &Case<'_>, last: &Timestamped<Signal>) -> Option<Draft> {
    if case.role() == Role::Raylet {
        return None;
    }
    let caught = fatal_act::caught_before(case.world, case.key(), last.time)?;
    if senders::raylet_of(case, &caught.what.sender).is_some() {
        return None;
    }
    let after_s = seconds_between(caught, last.time);
    let signal = last.what.signal;
    let draft = from_outside(case, caught);
    Some(draft.wrap_cause(|cause| match signal {
        SIGABRT => Cause::CaughtSignalThenAbort { cause, after_s },
        _ => Cause::CaughtSignalThenSignal {
            cause,
            signal,
            after_s,
        },
    }))
}

/// Returns the whole seconds from a signal that was caught to an end, if there are any.
fn seconds_between(caught: &Timestamped<Signal>, end: BootTime) -> Option<u64> {
    let seconds = end.since(caught.time) / SECOND_NS;
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)
}

/// The signal that `abort` sends.
const SIGABRT: i32 = 6;

/// Judges an exit without a fatal signal.
pub(super) fn exited(case: &Case<'_>, caught: Option<&Timestamped<Signal>>) -> Draft {
    if let Some(signal) = caught
        && let Some(draft) = after_caught(case, signal)
    {
        return draft;
    }
    // The reason for the raylet's signal may be read after the process's own log.
    let raylet = caught.and_then(|signal| senders::raylet_of(case, &signal.what.sender));
    let waits = raylet.is_some() && case.may_still_learn();
    not_at_signal(case, caught).open_if(waits)
}

/// Judges an exit that no earlier signal explains.
fn not_at_signal(case: &Case<'_>, caught: Option<&Timestamped<Signal>>) -> Draft {
    if case.exit.exit.status.is_none()
        && let Some(draft) = kernel::by_kernel_log(case)
    {
        return draft;
    }
    // A process that a dashboard started watches only the dashboard. Ray's words on the node's end
    // are not about it.
    if let Some(draft) = watched::after_parent(case) {
        return draft;
    }
    // A driver disconnects from Ray however it ends, so its exit code says more.
    let words = if case.role() == Role::Driver {
        None
    } else {
        by_rays_words(case)
    };
    words
        .or_else(|| watched::after_raylet(case))
        .or_else(|| unread_after(case, caught?))
        .unwrap_or_else(|| by_code(case))
}

/// Judges an exit at or before the SIGTERM of the raylet, if nothing that Ray logged about the
/// worker is known: its id could not be read, or no log line about it was.
fn unread_after(case: &Case<'_>, signal: &Timestamped<Signal>) -> Option<Draft> {
    let nameless = case.world.processes.get(case.key())?.worker_id.is_none();
    let unread = || case.world.ray_about(case.key()).is_empty();
    // Ray's own exits have code 0 or 1.
    let code = case.exit.exit.code().filter(|code| *code <= 1)?;
    if case.role() != Role::Worker || !(nameless || unread()) {
        return None;
    }
    senders::raylet_of(case, &signal.what.sender)?;
    let exception = last_exception(case, case.key());
    let missing = if nameless {
        Missing::WorkerId
    } else {
        Missing::RayletReason
    };
    let draft = Draft::unknown(exit_or_sigterm(code, exception), missing);
    Some(draft.open(case.may_still_learn()))
}

/// Returns who sent a signal that the process caught. For signals that did not come from a raylet.
fn from_outside(case: &Case<'_>, signal: &Timestamped<Signal>) -> Draft {
    let draft = if origin(signal).is_from_kernel() {
        kernel::verdict(case, signal, origin(signal))
    } else {
        external_signal::verdict(case, signal, Certainty::Inferred)
    };
    // The handler may have done nothing, and the process may have ended for another reason.
    draft.at_most(Certainty::Inferred)
}

/// Returns the origin of a signal.
fn origin(signal: &Timestamped<Signal>) -> SignalOrigin {
    signal_origin::of(&signal.what)
}

/// Like [`from_outside`], for a process that then exited: its cause says so.
fn exited_after(case: &Case<'_>, signal: &Timestamped<Signal>) -> Draft {
    from_outside(case, signal).wrap_cause(|cause| then_exited(case, signal, cause))
}

/// Judges an exit after a signal from outside that the process had caught.
fn after_caught(case: &Case<'_>, signal: &Timestamped<Signal>) -> Option<Draft> {
    if origin(signal).is_from_kernel() {
        return Some(exited_after(case, signal));
    }
    if let Some(raylet) = senders::raylet_of(case, &signal.what.sender) {
        // The raylet's SIGTERM also follows a worker's own exit. It was the cause only if there is
        // a reason for it.
        let Some(reason) = reasons::for_process(case, raylet, signal.time) else {
            if ended_before::says_signal(case, signal.time) {
                return Some(raylet::unexplained(case, raylet, signal));
            }
            // It follows an end that had already begun: at an earlier signal of another sender,
            // with a handler that ran late.
            let earlier = BootTime(signal.time.0.saturating_sub(1));
            let earlier = fatal_act::caught_before(case.world, case.key(), earlier);
            return earlier
                .and_then(|earlier| after_caught(case, earlier))
                .or_else(|| after_worker(case, signal));
        };
        let mechanism = mechanism(signal);
        return Some(reason.draft(case, Certainty::Inferred).sent(
            signal,
            Relation::Ray,
            mechanism,
        ));
    }
    if case.role() == Role::Raylet
        && signal.what.signal == SIGTERM
        && senders::tool(case, &signal.what).is_none()
    {
        // A raylet also gets signals at its end if something else (an agent, the GCS) had already
        // ended it.
        if let Some(draft) = by_rays_words(case) {
            return Some(draft);
        }
    }
    if case.role() == Role::Worker
        && let Some(reason) = own_reason_after(case, signal.time)
    {
        // It outlived the signal, and logged later why it ended.
        let only = !recorded::was_asked(case) && !recorded::is_rays(case);
        let draft = reason.draft(case, Certainty::Inferred);
        return Some(draft.only_by_own_log(only));
    }
    Some(exited_after(case, signal))
}

/// Judges an exit at the SIGTERM that the raylet sends to the process group of a worker that has
/// ended.
fn after_worker(case: &Case<'_>, signal: &Timestamped<Signal>) -> Option<Draft> {
    let draft = raylet::with_its_worker(case, signal, Certainty::Inferred)?;
    Some(draft.wrap_cause(|cause| then_exited(case, signal, cause)))
}

/// Adds to the cause of a signal that the process caught it and exited.
fn then_exited(case: &Case<'_>, signal: &Timestamped<Signal>, cause: Box<Cause>) -> Cause {
    Cause::CaughtSignalThenExit {
        cause,
        exit_code: case.exit.exit.code(),
        after_s: seconds_between(signal, case.exit.time),
    }
}

/// Returns the intended reason that a worker's own log gives after `time`. A line that names a
/// signal is no reason.
fn own_reason_after(case: &Case<'_>, time: BootTime) -> Option<Reason> {
    let about = case.world.ray_about(case.key());
    let own = about.iter().rev().find(|record| {
        record.time >= time
            && match &record.what.fact {
                RayFact::SelfDisconnect { detail, .. } => !words::names_signal(detail),
                RayFact::ForceKillActor { .. } => true,
                _ => false,
            }
    })?;
    last_words(case, own)
}

/// Returns the verdict by the worker's own last words, or by the raylet's record of it.
///
/// Its user can write anything into its log. An exit with a code of its own is its own, unless Ray
/// recorded that it had asked for it. What Ray took for an error is no end that it had asked for.
fn by_rays_words(case: &Case<'_>) -> Option<Draft> {
    let own_code = aftermath::has_own_code(case);
    if own_code && !recorded::was_asked(case) {
        return None;
    }
    let about = case.world.ray_about(case.key());
    let lost =
        |record: &&Timestamped<RayLog>| matches!(record.what.fact, RayFact::RayletLost { .. });
    if about.iter().copied().any(|record| lost(&record)) {
        let cause = case.cluster().filter(|raylet| !raylet.same(case.key()));
        let killer = cause.map_or(Killer::RayCollapse, |raylet| case.killer_after(raylet));
        let gone = Cause::RayletDied {
            raylet_pid: cause.map(|raylet| raylet.pid),
            by_own_log: true,
        };
        let draft = Draft::new(killer, Certainty::Inferred, gone);
        let is_gone = cause.is_some_and(|raylet| case.world.exit(raylet).is_some());
        return Some(draft.caused_by(cause).only_by_own_log(!is_gone));
    }
    let contradicted = aftermath::was_an_error(case);
    let found = about
        .iter()
        .rev()
        .filter(|record| !own_code || aftermath::is_its_own(record))
        .filter(|record| !contradicted || !aftermath::is_its_own(record))
        .find_map(|record| Some((last_words(case, record)?, aftermath::is_its_own(record))));
    let raylet = case.cluster();
    let by_raylet = || {
        let reason = reasons::for_process(case, raylet?, case.exit.time)?;
        Some((reason, false))
    };
    let (reason, by_own_log) = found.or_else(by_raylet)?;
    if matches!(reason, Reason::Memory(_)) {
        return None;
    }
    let only = by_own_log && case.role() == Role::Worker && !recorded::is_rays(case);
    let draft = reason.draft(case, Certainty::Inferred);
    Some(draft.only_by_own_log(only))
}

/// Returns the reason that a worker logs before it exits, if Ray asked it to end.
fn last_words(case: &Case<'_>, record: &Timestamped<RayLog>) -> Option<Reason> {
    let (exit_type, detail) = match &record.what.fact {
        RayFact::SelfDisconnect {
            exit_type, detail, ..
        }
        | RayFact::GcsWorkerExit {
            exit_type, detail, ..
        } => (exit_type, detail),
        RayFact::ForceKillActor { reason, .. } => {
            return Some(reasons::actor_reason(case, reason));
        }
        _ => return None,
    };
    if !exit_type.is_intended() {
        return None;
    }
    if words::job_has_finished(detail) {
        return Some(reasons::after_job(case));
    }
    Some(reasons::actor_reason(case, detail))
}

/// Returns the signal that an exit code names: 128 and its number, as shells and many handlers have
/// it, or the number itself, as `sigterm_handler` of Ray's drivers does
/// (`python/ray/_private/worker.py`).
fn named_signal(code: i32) -> i32 {
    if code == SIGTERM { code } else { code - 128 }
}

fn by_code(case: &Case<'_>) -> Draft {
    let named = case.exit.exit.code().map_or(0, named_signal);
    let certainty = match case.exit.source {
        // A signal that it caught may have told it to end.
        Source::Kernel
            if !fatal_act::has_caught(case.world, case.key(), BootTime(0), case.exit.time)
                && !may_be_caught_unseen(case, named) =>
        {
            Certainty::Proven
        }
        _ => Certainty::Inferred,
    };
    let Some(code) = case.exit.exit.code() else {
        return Draft::unknown(Cause::NotSeen, Missing::Status);
    };
    let exception = last_exception(case, case.key());
    let worker = case.role() == Role::Worker;
    // Ray's own exits have code 0 or 1. Once the raylet has dropped the worker, no more is logged
    // about it.
    let dropped = || {
        let about = case.world.ray_about(case.key());
        about
            .iter()
            .any(|record| matches!(record.what.fact, RayFact::Disconnected { .. }))
    };
    // A raylet's last line says why it ended itself.
    let speaks = worker && code <= 1 && !dropped() || case.role() == Role::Raylet;
    let open = speaks && case.may_still_learn() || reasons::may_give_up(case);
    if worker && ended_before::says_signal(case, BootTime(0)) {
        return at_sigterm(case, code, certainty).open(open);
    }
    if worker && code == 1 && !case.saw_signals() {
        let cause = exit_or_sigterm(code, exception);
        return Draft::unknown(cause, Missing::Sigterm).open(open);
    }
    // `sigterm_handler` of a driver exits with the number of the signal
    // (`python/ray/_private/worker.py`).
    if case.role() == Role::Driver && code == SIGTERM && !case.saw_signals() {
        let cause = exit_or_sigterm(code, exception);
        return Draft::unknown(cause, Missing::Sigterm).open(open);
    }
    if worker
        && code == 0
        && let Some(cause) = failed_inside(case)
    {
        return Draft::new(Killer::Exit, certainty, cause)
            .by_text()
            .open(open);
    }
    let cause = Cause::Exit {
        code: Some(code),
        exception: exception.filter(|_| code != 0),
        creating_actor: false,
    };
    Draft::new(Killer::Exit, certainty, cause).open(open)
}

/// Returns how a worker failed if its process then exited with 0. An exception in its actor's
/// constructor, or `sys.exit(4)`, ends only its loop (`CoreWorker::ExecuteTask`, `core_worker.cc`).
/// Ray's record has the failure.
fn failed_inside(case: &Case<'_>) -> Option<Cause> {
    let about = case.world.ray_about(case.key());
    about.iter().rev().find_map(|record| {
        let (RayFact::SelfDisconnect {
            exit_type, detail, ..
        }
        | RayFact::GcsWorkerExit {
            exit_type, detail, ..
        }) = &record.what.fact
        else {
            return None;
        };
        match exit_type {
            ExitType::UserError => Some(Cause::Exit {
                code: Some(0),
                exception: None,
                creating_actor: true,
            }),
            ExitType::SystemError if !words::received_sigterm(detail) => {
                let code = words::exit_code(detail).filter(|code| *code != 0)?;
                Some(Cause::exit(code))
            }
            _ => None,
        }
    })
}

fn exit_or_sigterm(code: i32, exception: Option<String>) -> Cause {
    Cause::ExitOrSigterm {
        code: Some(code),
        exception,
        raylet_ended_rest: false,
    }
}

/// Judges a worker that exited at a SIGTERM, by its own log, if no signal caught shortly before
/// explains that.
fn at_sigterm(case: &Case<'_>, code: i32, certainty: Certainty) -> Draft {
    let signals = case.world.signals_to(case.key());
    let of_itself = |seen: &&Timestamped<Signal>| {
        seen.what.signal == SIGTERM && seen.what.sender.process.same(case.key())
    };
    // The raylet's SIGTERM follows one that the process sent to itself.
    let own = signals.iter().rev().find(of_itself);
    let Some(sent) = own.or_else(|| {
        signals
            .iter()
            .rev()
            .find(|seen| seen.what.signal == SIGTERM)
    }) else {
        let missing = case.sender_missing(false);
        return Draft::unknown(Cause::ExitAtSigterm { code, own: false }, missing);
    };
    if sent.what.sender.process.same(case.key()) {
        let cause = Cause::ExitAtSigterm { code, own: true };
        return Draft::new(Killer::Exit, certainty, cause);
    }
    if let Some(raylet) = senders::raylet_of(case, &sent.what.sender) {
        return raylet::unexplained(case, raylet, sent);
    }
    external_signal::verdict(case, sent, Certainty::Inferred)
        .wrap_cause(|cause| then_exited(case, sent, cause))
}

fn last_exception(case: &Case<'_>, key: ProcessKey) -> Option<String> {
    case.world
        .ray_about(key)
        .iter()
        .rev()
        .find_map(|record| match &record.what.fact {
            RayFact::Exception { class, message, .. } => Some(format!("{class}: {message}")),
            _ => None,
        })
}
