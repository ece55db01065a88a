//! A process that ended itself: by a fault, by a signal of its own, or by exit; with Ray's reasons for an exit that it asked for.

use super::{
    Case, Draft, SI_KERNEL, kernel, other, raylet,
    reasons::{self, Reason},
};
use crate::{
    event::{RayLog, Role, Signal},
    ids::{BootTime, ProcessKey},
    judge::{
        act,
        report::{Certainty, Killer, Mechanism, Relation},
        world::Seen,
    },
    ray::facts::{ExitType, RayFact},
    signals,
};

/// How long after an outside signal a process may still re-raise it on itself.
const RERAISE_NS: i64 = 60_000_000_000;

/// A synchronous fault (`si_code` > 0), seccomp, or a hardware memory error.
pub(super) fn fault(case: &Case<'_>, signal: &Seen<Signal>) -> Draft {
    let name = signals::name(signal.what.signal);
    match (signal.what.signal, signal.what.code) {
        (7, 4 | 5) => Draft::new(
            Killer::KernelOther,
            Certainty::Proven,
            "was killed by the kernel: hardware memory error (SIGBUS, BUS_MCEERR)",
        )
        .sent(signal, Relation::Other, Mechanism::Hwpoison)
        .without_sender_identity(),
        (31, _) => Draft::new(
            Killer::KernelOther,
            Certainty::Proven,
            "was killed by the kernel: a system call that seccomp forbids (SIGSYS)",
        )
        .sent(signal, Relation::Other, Mechanism::Fault)
        .without_sender_identity(),
        (number, _) => Draft::new(
            Killer::Crash,
            Certainty::Proven,
            format!("crashed with {name}{}", hint(case, number)),
        ),
    }
}

fn hint(case: &Case<'_>, signal: i32) -> &'static str {
    let shared = case
        .exit
        .around
        .memory
        .shmem_bytes
        .is_some_and(|bytes| bytes.0 > 0);
    if signal == 7 && shared {
        " (a full /dev/shm does that)"
    } else {
        ""
    }
}

/// A signal that the process sent to itself: a crash, unless it passes on what came from outside.
pub(super) fn own_signal(case: &Case<'_>, signal: &Seen<Signal>) -> Draft {
    let earlier = |seen: &&Seen<Signal>| {
        seen.what.signal == signal.what.signal
            && matches!(seen.what.result, 0 | 4)
            && (0..RERAISE_NS).contains(&signal.time.since(seen.time))
    };
    let signals = case.world.signals_to(case.key()).iter();
    let mut earlier = signals.filter(earlier);
    // A failure handler (abseil's in Ray's workers, Python's faulthandler) raises a fault again without its code, which alone
    // tells a memory error of the machine from a crash.
    let is_fault = |seen: &&Seen<Signal>| seen.what.code > 0 && seen.what.code != SI_KERNEL;
    if let Some(fault_itself) = earlier.clone().rfind(is_fault) {
        return fault(case, fault_itself);
    }
    let first = earlier.find(|seen| !seen.what.sender.process.same(case.key()));
    let Some(outside) = first else {
        return fault(case, signal);
    };
    if kernel::sent(outside) {
        let mut draft = kernel::verdict(case, outside);
        draft.clause.push_str(", which it passed on to itself");
        return draft;
    }
    let parent_died = other::parent_death(outside);
    if let Some(raylet) = other::raylet_of(case, &outside.what.sender).filter(|_| !parent_died) {
        return raylet::verdict(case, raylet, outside, Certainty::Inferred);
    }
    let mut draft = from_outside(case, outside);
    draft
        .clause
        .push_str(", which it caught and passed on to itself");
    draft
}

/// An exit without a fatal signal.
pub(super) fn exited(case: &Case<'_>, caught: Option<&Seen<Signal>>) -> Draft {
    if let Some(signal) = caught
        && let Some(draft) = after_caught(case, signal)
    {
        return draft;
    }
    if case.exit.exit.status.is_none()
        && let Some(draft) = kernel::by_kernel_log(case)
    {
        return draft;
    }
    // A driver disconnects from Ray at each end that it comes to: its exit code says more.
    let words = if case.role() == Role::Driver {
        None
    } else {
        by_rays_words(case)
    };
    words
        .or_else(|| after_raylet(case))
        .unwrap_or_else(|| by_code(case))
}

/// Whose doing a signal was that the process caught, where it was no raylet's.
fn from_outside(case: &Case<'_>, signal: &Seen<Signal>) -> Draft {
    let mut draft = if other::parent_death(signal) {
        other::parent_died(case, signal)
    } else if kernel::sent(signal) {
        kernel::verdict(case, signal)
    } else {
        other::foreign(case, signal, Certainty::Inferred)
    };
    // Its handler may have done nothing, and the process ended for another reason.
    if draft.certainty == Certainty::Proven {
        draft.certainty = Certainty::Inferred;
    }
    draft
}

/// The same for a process that then exited, in words.
fn exited_after(case: &Case<'_>, signal: &Seen<Signal>) -> Draft {
    let mut draft = from_outside(case, signal);
    let code = case.exit.exit.code().unwrap_or(0);
    draft.clause += &format!(", which it caught, and exited with code {code}");
    draft
}

/// An exit shortly after a catchable signal from outside.
fn after_caught(case: &Case<'_>, signal: &Seen<Signal>) -> Option<Draft> {
    if kernel::sent(signal) || other::parent_death(signal) {
        return Some(exited_after(case, signal));
    }
    if let Some(raylet) = other::raylet_of(case, &signal.what.sender) {
        // The raylet's SIGTERM also follows a worker's own exit: only with a reason was it the cause.
        let Some(reason) = reasons::for_process(case, raylet, signal.time) else {
            if says_signal(case, signal.time) {
                return Some(raylet::unexplained(case, raylet, signal));
            }
            // It follows an end that had begun: at a signal of somebody else, whose handler may have run late.
            let earlier = BootTime(signal.time.0.saturating_sub(1));
            let earlier = act::caught_before(case.world, case.key(), earlier);
            return earlier
                .and_then(|earlier| after_caught(case, earlier))
                .or_else(|| after_worker(case, signal));
        };
        let mechanism = other::mechanism(signal);
        return Some(reason.draft(case, Certainty::Inferred).sent(
            signal,
            Relation::Ray,
            mechanism,
        ));
    }
    if case.role() == Role::Raylet
        && signal.what.signal == 15
        && other::tool(case, &signal.what.sender).is_none()
    {
        // A raylet that something else had already ended (an agent, the GCS) also sees signals at its end.
        if let Some(draft) = by_rays_words(case) {
            return Some(draft);
        }
    }
    if case.role() == Role::Worker
        && let Some(reason) = own_reason_after(case, signal.time)
    {
        // It outlived the signal, and says itself what it ended for later.
        return Some(reason.draft(case, Certainty::Inferred));
    }
    Some(exited_after(case, signal))
}

/// An exit at the SIGTERM that the raylet sends the process group of a worker that has ended.
fn after_worker(case: &Case<'_>, signal: &Seen<Signal>) -> Option<Draft> {
    let mut draft = raylet::with_its_worker(case, signal, Certainty::Inferred)?;
    let code = case.exit.exit.code().unwrap_or(0);
    let name = signals::name(signal.what.signal);
    draft.clause += &format!("; it caught {name} and exited with code {code}");
    Some(draft)
}

/// Whether the worker's own log says, from `time` on, that a signal made it end.
fn says_signal(case: &Case<'_>, time: BootTime) -> bool {
    // Log lines are stamped to the millisecond.
    let about = case.world.ray_about(case.key());
    about.iter().any(|record| {
        record.time.since(time) > -2_000_000
            && matches!(&record.what.fact, RayFact::SelfDisconnect { detail, .. } if detail.contains("SIGTERM"))
    })
}

/// The intended reason that a worker's own log gives after `time`; one that speaks of a signal is none.
fn own_reason_after(case: &Case<'_>, time: BootTime) -> Option<Reason> {
    let about = case.world.ray_about(case.key());
    let own = about.iter().rev().find(|record| {
        record.time >= time
            && match &record.what.fact {
                RayFact::SelfDisconnect { detail, .. } => !detail.contains("SIG"),
                RayFact::ForceKillActor { .. } => true,
                _ => false,
            }
    })?;
    last_words(case, own)
}

/// A worker whose own end had begun when its raylet killed what was left of it: Ray's record then holds the worker's exit
/// code or the signal that it caught (`Worker exits with an exit code 7.`, `The process receives a SIGTERM.`).
pub(super) fn ended_before(case: &Case<'_>, act: BootTime) -> Option<Draft> {
    let code = case
        .world
        .ray_about(case.key())
        .into_iter()
        .filter(|record| record.time <= act)
        .find_map(|record| match &record.what.fact {
            RayFact::SelfDisconnect { detail, .. } | RayFact::GcsWorkerExit { detail, .. } => {
                exit_code_in(detail)
            }
            _ => None,
        })?;
    if let Some(signal) = act::caught_before(case.world, case.key(), act)
        && other::raylet_of(case, &signal.what.sender).is_none()
    {
        let mut draft = other::foreign(case, signal, Certainty::Inferred);
        draft.clause += ", which it caught; its raylet then ended what was left";
        return Some(draft);
    }
    if says_signal(case, BootTime(0)) {
        // Somebody's, whose sending was not seen.
        return None;
    }
    let left = "its raylet then ended what was left";
    if code == 1 && !case.saw_signals() {
        let clause =
            format!("ended by itself or at a SIGTERM (exit code 1, by Ray's record); {left}");
        return Some(Draft::unknown(clause, MISSING_SIGTERM));
    }
    let clause = format!("exited by itself (exit code {code}, by Ray's record); {left}");
    Some(Draft::new(Killer::Exit, Certainty::Inferred, clause))
}

/// What to type where a SIGTERM cannot be told from an exit: Ray's handler of it exits with code 1 (`sigterm_handler`,
/// `python/ray/_private/worker.py`), and does not always leave words of it.
const MISSING_SIGTERM: &str = "whether a SIGTERM came before: sudo raytrace record";

/// The exit code in Ray's record of how the worker exited.
fn exit_code_in(detail: &str) -> Option<u32> {
    let from = detail.find("exit code ")? + "exit code ".len();
    let number = detail[from..].split(|character: char| !character.is_ascii_digit());
    number.into_iter().next()?.parse().ok()
}

/// What the worker's own last words, or the raylet's record of it, say.
fn by_rays_words(case: &Case<'_>) -> Option<Draft> {
    let about = case.world.ray_about(case.key());
    if let Some(record) = about
        .iter()
        .find(|record| matches!(record.what.fact, RayFact::RayletLost { .. }))
    {
        let cause = case.cluster().filter(|raylet| !raylet.same(case.key()));
        let open =
            cause.is_some_and(|raylet| case.world.exit(raylet).is_none()) && case.may_still_learn();
        let killer = cause.map_or(Killer::RayCollapse, |raylet| {
            reasons::killer_after(case, raylet)
        });
        let _ = record;
        return Some(
            Draft::new(
                killer,
                Certainty::Inferred,
                "exited because its raylet had gone",
            )
            .caused_by(cause)
            .open(open),
        );
    }
    let last_words = about
        .iter()
        .rev()
        .find_map(|record| last_words(case, record));
    let raylet = case.cluster();
    last_words
        .or_else(|| raylet.and_then(|raylet| reasons::for_process(case, raylet, case.exit.time)))
        .filter(|reason| !matches!(reason, Reason::Memory(_)))
        .map(|reason| reason.draft(case, Certainty::Inferred))
}

/// A worker that Ray asked to end says so before it exits.
fn last_words(case: &Case<'_>, record: &Seen<RayLog>) -> Option<Reason> {
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
    if !matches!(
        exit_type,
        ExitType::IntendedSystemExit | ExitType::IntendedUserExit
    ) {
        return None;
    }
    if detail.contains("job has finished") {
        return Some(reasons::after_job(case));
    }
    Some(reasons::actor_reason(case, detail))
}

/// Workers look for their raylet each second and exit with code 1 when it is gone; agents likewise.
fn after_raylet(case: &Case<'_>) -> Option<Draft> {
    let raylet = case.cluster().filter(|raylet| !raylet.same(case.key()))?;
    let follows = match case.role() {
        Role::Worker | Role::Agent | Role::Dashboard | Role::Gcs | Role::Other => true,
        // One that failed, unless it had ended its own Ray before.
        Role::Driver => case.exit.exit.code() != Some(0) && !ended_by(case, raylet),
        Role::Raylet | Role::Descendant => false,
    };
    if !follows {
        return None;
    }
    let died = reasons::act_time(case, raylet)?;
    if !(0..10_000_000_000).contains(&case.exit.time.since(died)) {
        return None;
    }
    let killer = reasons::killer_after(case, raylet);
    Some(
        Draft::new(
            killer,
            Certainty::Inferred,
            format!("exited after its raylet (pid {}) had ended", raylet.pid),
        )
        .caused_by(Some(raylet)),
    )
}

/// Whether this process sent the raylet the signal that ended it.
fn ended_by(case: &Case<'_>, raylet: ProcessKey) -> bool {
    let signals = case.world.signals_to(raylet);
    signals
        .iter()
        .any(|seen| seen.what.sender.process.same(case.key()))
}

fn by_code(case: &Case<'_>) -> Draft {
    let certainty = match case.exit.source {
        crate::event::Source::Kernel => Certainty::Proven,
        _ => Certainty::Inferred,
    };
    let Some(code) = case.exit.exit.code() else {
        return Draft::unknown("ended; how was not seen", missing_without_status());
    };
    let exception = last_exception(case, case.key())
        .map(|exception| format!("; its last exception: {exception}"))
        .unwrap_or_default();
    let worker = case.role() == Role::Worker;
    // Ray ends its own exits with 0 or 1; once the raylet has dropped the worker, all has been said.
    let dropped = || {
        let about = case.world.ray_about(case.key());
        about
            .iter()
            .any(|record| matches!(record.what.fact, RayFact::Disconnected { .. }))
    };
    let open = code == 1 && worker && case.may_still_learn() && !dropped();
    if worker && says_signal(case, BootTime(0)) {
        return at_sigterm(case, code, certainty).open(open);
    }
    if worker && code == 1 && !case.saw_signals() {
        let clause = format!("exited with code 1, by itself or at a SIGTERM{exception}");
        return Draft::unknown(clause, MISSING_SIGTERM).open(open);
    }
    // `sigterm_handler` of a driver exits with the number of the signal (`python/ray/_private/worker.py`).
    if case.role() == Role::Driver && code == 15 && !case.saw_signals() {
        let clause = format!("exited with code 15, most likely at a SIGTERM{exception}");
        return Draft::unknown(clause, MISSING_SIGTERM).open(open);
    }
    let clause = match code {
        0 => "exited with code 0".to_owned(),
        _ => format!("exited by itself with code {code}{exception}"),
    };
    Draft::new(Killer::Exit, certainty, clause).open(open)
}

/// A worker that exited at a SIGTERM, by its own log, which no caught signal shortly before explains.
fn at_sigterm(case: &Case<'_>, code: i32, certainty: Certainty) -> Draft {
    let signals = case.world.signals_to(case.key());
    let of_itself = |seen: &&Seen<Signal>| {
        let lately = act::CAUGHT_WINDOW_NS > case.exit.time.since(seen.time);
        seen.what.signal == 15 && lately && seen.what.sender.process.same(case.key())
    };
    // The raylet's follows one that the process sent itself.
    let own = signals.iter().rev().find(of_itself);
    let Some(sent) = own.or_else(|| signals.iter().rev().find(|seen| seen.what.signal == 15))
    else {
        let clause = format!(
            "exited with code {code} at a SIGTERM (by its own log); who sent it was not seen"
        );
        let missing = if case.saw_signals() {
            "its sending, before the recorder attached or injected by a tracer"
        } else {
            "the sender: sudo raytrace record"
        };
        return Draft::unknown(clause, missing);
    };
    if sent.what.sender.process.same(case.key()) {
        let clause = format!("exited with code {code} at a SIGTERM that it sent itself");
        return Draft::new(Killer::Exit, certainty, clause);
    }
    if let Some(raylet) = other::raylet_of(case, &sent.what.sender) {
        return raylet::unexplained(case, raylet, sent);
    }
    let mut draft = other::foreign(case, sent, Certainty::Inferred);
    draft.clause += &format!(", which it caught, and exited with code {code}");
    draft
}

/// What to type where the exit status could not be had.
pub(super) fn missing_without_status() -> String {
    "its exit status: run `sudo raytrace record` on the host, or a kernel of 6.15 or later".into()
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
