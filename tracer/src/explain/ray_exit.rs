//! What Ray's words for a worker's end mean: exit types and details, and why an actor is dead.
//!
//! Only what Ray knows counts. Its lists of "potential root causes" (up to 2.5x) and "common causes" (2.54 on), and "may have
//! exceeded K8s pod memory limits", are guesses that it prints for every sudden end.

use crate::{
    judge::{
        cause::{Cause, Request},
        from_text::claim::Claim,
    },
    ray::{log::kill, words},
};

/// An exception in the constructor of its actor.
const CREATION_FAILED: Claim = Claim::Exit {
    code: None,
    creating_actor: true,
};

/// The claim of `Worker exit type: T Worker exit detail: D`, of `exit_type = T, exit_detail = D`, and of a worker's own last words.
pub(super) fn exit(exit_type: &str, detail: &str) -> Claim {
    let kind = exit_type.trim();
    let detail = without_traceback(detail);
    if kind == "USER_ERROR" {
        return CREATION_FAILED;
    }
    if kind == "NODE_OUT_OF_MEMORY" || killed_for_memory(detail) {
        return Claim::RayMemory(Box::default());
    }
    // A worker that handles a SIGTERM exits with a code that says nothing.
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
    match kind {
        "INTENDED_SYSTEM_EXIT" | "INTENDED_USER_EXIT" => {
            Claim::Intended(Cause::asked(first_sentence(detail)))
        }
        _ if broken(detail) => Claim::Lost,
        _ => Claim::Died,
    }
}

/// The claim of `The actor is dead because …` and `The actor died because …`.
pub(super) fn actor(reason: &str) -> Claim {
    let reason = without_traceback(reason);
    // The owner's exit type stands behind it: not that of the actor.
    if let Some(claim) = asked(reason).filter(|_| reason.starts_with("its owner")) {
        return claim;
    }
    if let Some((_, rest)) = reason.split_once("Worker exit type: ") {
        let (kind, detail) = rest
            .split_once(" Worker exit detail: ")
            .unwrap_or((rest, ""));
        return exit(kind, detail);
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
        return Claim::Collapse {
            cause: Cause::NodeDead {
                says: Some(first_sentence(reason)),
            },
            remote: Some(first_sentence(reason)),
        };
    }
    Claim::Died
}

/// What Ray says, without what the user's code raised: its words are anything.
fn without_traceback(text: &str) -> &str {
    text.split("Traceback").next().unwrap_or(text)
}

/// Whether Ray's monitor killed it, in Ray's own words.
pub(super) fn killed_for_memory(text: &str) -> bool {
    kill::killed_for_memory(without_traceback(text))
}

/// What Ray, or the death of an owner, asked for.
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

/// A connection that broke without a word: kernel OOM kill, `kill -9`, crash and `os._exit` alike.
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
