//! Interprets Ray's words for a worker's end: exit types and details, and why an actor is dead.
//!
//! Only what Ray knows counts. It also prints guesses for every sudden end: lists of "potential
//! root causes" (up to 2.5x) and "common causes" (2.54 on), and "may have exceeded K8s pod memory
//! limits".

use crate::{
    ids::HexId,
    judge::{
        cause::{Cause, Request},
        from_text::claim::{Claim, Subject},
        ray_reason::RayReason,
    },
    ray::{facts::ExitType, log::monitor_kill, words},
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
    // Ray 2.1 reports a kill for memory as a USER_ERROR.
    if exit_type == ExitType::NodeOutOfMemory || killed_for_memory(detail) {
        return Claim::RayMemory(Box::default());
    }
    if exit_type == ExitType::UserError {
        return CREATION_FAILED;
    }
    // If a worker handles SIGTERM, its exit code says nothing.
    if words::received_sigterm(detail) {
        return asked(detail).unwrap_or(Claim::Signalled(libc::SIGTERM));
    }
    if words::may_follow_sigterm(detail) {
        return Claim::ExitOrSigterm {
            code: words::exit_code(detail),
        };
    }
    if let Some(code) = words::exit_code(detail) {
        return Claim::Exit {
            code: Some(code),
            creating_actor: false,
        };
    }
    if words::left_by_exit(detail) {
        return Claim::Exit {
            code: None,
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
    if owner_killed_for_memory(reason).is_some() {
        return Claim::Collapse {
            cause: Cause::OwnerDied {
                says: Some("owner was killed by Ray's memory monitor".to_owned()),
                owner_lived: None,
            },
            remote: None,
        };
    }
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
    if let Some((_, why)) = says.split_once("was preempted") {
        let says = why.trim_start_matches([':', ' ']).to_owned();
        return Claim::Collapse {
            cause: Cause::NodePreempted { says },
            remote: None,
        };
    }
    if says.contains("drained") {
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
    monitor_kill::killed_for_memory(without_traceback(text))
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
    let cause = if text.contains(words::OWNERS_NODE_CRASHED) {
        Cause::OwnersNodeCrashed
    } else if owner.iter().any(|words| text.contains(words)) {
        Cause::OwnerDied {
            says: None,
            owner_lived: None,
        }
    } else {
        return None;
    };
    Some(Claim::Collapse {
        cause,
        remote: None,
    })
}

/// Returns the owner of an actor that ended with it, if Ray says that its memory monitor had killed
/// that owner: `Owner worker exit type: NODE_OUT_OF_MEMORY`.
pub(super) fn owner_killed_for_memory(reason: &str) -> Option<Subject> {
    let reason = without_traceback(reason);
    let owner = words::owner_gone(reason)?.owner?;
    let word = |before: &str| reason.split(before).nth(1)?.split_whitespace().next();
    let exit_type = ExitType::parse(word("Owner worker exit type: ")?);
    let whole = owner.has_digits(HexId::WORKER_DIGITS);
    (whole && exit_type == ExitType::NodeOutOfMemory).then(|| Subject {
        worker_id: Some(owner),
        ip: word("Owner Ip address: ").map(str::to_owned),
        ..Subject::default()
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
