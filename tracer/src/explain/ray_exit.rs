//! Interprets Ray's words for a worker's end: exit types and details, and why an actor is dead.
//!
//! Only what Ray knows counts. It also prints guesses for every sudden end: lists of "potential
//! root causes" (up to 2.5x) and "common causes" (2.54 on), and "may have exceeded K8s pod memory
//! limits".

use crate::{
    judge::{
        cause::{Cause, Request},
        from_text::claim::Claim,
        ray_reason::RayReason,
    },
    ray::{facts::ExitType, log::kill, words},
};

/// The claim for an exception in the actor's constructor.
const CREATION_FAILED: Claim = Claim::Exit {
    code: None,
    creating_actor: true,
};

/// Returns the claim of `Worker exit type: T Worker exit detail: D`, of `exit_type = T, exit_detail
/// = D`, and of a worker's own last words.
pub(super) fn exit(exit_type: ExitType, detail: &str) -> Claim {
    let detail = without_traceback(detail);
    if exit_type == ExitType::UserError {
        return CREATION_FAILED;
    }
    if exit_type == ExitType::NodeOutOfMemory || killed_for_memory(detail) {
        return Claim::RayMemory(Box::default());
    }
    // If a worker handles SIGTERM, its exit code says nothing.
    if words::received_sigterm(detail) {
        return asked(detail).unwrap_or(Claim::Signalled(libc::SIGTERM));
    }
    if let Some(code) = words::exit_code(detail) {
        return Claim::Exit {
            code: Some(code),
            creating_actor: false,
        };
    }
    if let Some(claim) = asked(detail) {
        return claim;
    }
    match exit_type {
        ExitType::IntendedSystemExit | ExitType::IntendedUserExit => {
            Claim::Intended(Cause::asked(first_sentence(detail)))
        }
        _ if broken(detail) => Claim::Lost,
        _ => Claim::Died,
    }
}

/// Returns the claim of `The actor is dead because …` and `The actor died because …`.
pub(super) fn actor(reason: &str) -> Claim {
    let reason = without_traceback(reason);
    // The exit type that follows is the owner's, not the actor's.
    if let Some(claim) = asked(reason).filter(|_| reason.starts_with("its owner")) {
        return claim;
    }
    if let Some((_, rest)) = reason.split_once("Worker exit type: ") {
        let (kind, detail) = rest
            .split_once(" Worker exit detail: ")
            .unwrap_or((rest, ""));
        return exit(ExitType::parse(kind.trim()), detail);
    }
    if killed_for_memory(reason) {
        return Claim::RayMemory(Box::default());
    }
    if let Some(claim) = asked(reason) {
        return claim;
    }
    if reason.contains("creation task") {
        return CREATION_FAILED;
    }
    if reason.contains("node has died")
        || reason.contains("node was terminated")
        || reason.contains("node is dead")
    {
        return RayReason::node_dead(first_sentence(reason)).into();
    }
    Claim::Died
}

/// Returns the claim for an actor whose node has ended: `the actor's node was preempted: …`,
/// `… terminated expectedly: received SIGTERM`.
pub(super) fn node_ended(says: &str) -> Claim {
    let says = first_sentence(says);
    if says.contains("was preempted") || says.contains("drained") {
        return Claim::Intended(Cause::NodeDrained { says });
    }
    RayReason::node_dead(says).into()
}

/// Returns Ray's own words, without the traceback of user code, which may say anything.
fn without_traceback(text: &str) -> &str {
    text.split("Traceback").next().unwrap_or(text)
}

/// Returns whether Ray's own words say that its memory monitor killed the process.
pub(super) fn killed_for_memory(text: &str) -> bool {
    kill::killed_for_memory(without_traceback(text))
}

/// Returns the claim if Ray or the death of an owner asked for the end.
fn asked(text: &str) -> Option<Claim> {
    if let Some(request) = Request::of(text) {
        return Some(Claim::Intended(Cause::requested(request)));
    }
    if words::job_has_finished(text) {
        return Some(Claim::Intended(Cause::JobEnded));
    }
    let owner = [
        "owner has died",
        "owner died",
        "wner's worker process has crashed",
        "owner's node has died",
    ];
    owner
        .iter()
        .any(|words| text.contains(words))
        .then_some(Claim::Collapse {
            cause: Cause::OwnerDied {
                says: None,
                owner_lived: None,
            },
            remote: None,
        })
}

/// Returns whether a connection broke without a reason: a kernel OOM kill, `kill -9`, a crash and
/// `os._exit` all look like this.
fn broken(text: &str) -> bool {
    [
        "connection error code",
        "End of file",
        "unrecoverable failure",
        "Socket closed",
        "connection reset",
        "Connection reset",
    ]
    .iter()
    .any(|words| text.contains(words))
}

fn first_sentence(text: &str) -> String {
    let end = text
        .match_indices(". ")
        .map(|(at, _)| at)
        .find(|at| *at > 40)
        .unwrap_or(text.len());
    text[..end].trim().chars().take(160).collect()
}
