//! Interprets words of Ray that a fact keeps as printed: about owners, agents and the GCS.
//!
//! Rules call these functions. A new wording changes only this file and the grammars in `log/`, and
//! no rule.

use std::sync::LazyLock;

use regex::Regex;

use crate::ids::HexId;

/// What ended and took a worker with it, by the reason in `RayFact::OwnerDied` (`node_manager.cc`,
/// 2.9 to 2.60).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedWith {
    /// The worker's job.
    Job,
    /// The node of the worker's owner.
    OwnerNode,
    /// The worker's owner.
    Owner,
}

impl EndedWith {
    /// Parses `its owner died`, `its owner's node died`, `its job finished`.
    pub fn of(reason: &str) -> Self {
        match reason {
            reason if reason.contains("job") => Self::Job,
            reason if reason.contains("node") => Self::OwnerNode,
            _ => Self::Owner,
        }
    }
}

/// Returns what had ended, in Ray's words: `owner died`, `owner's node died`.
pub fn what_ended(reason: &str) -> &str {
    reason.trim_start_matches("its ")
}

/// What the GCS says of an owner whose node is dead.
pub const OWNERS_NODE_CRASHED: &str = "Owner's node has crashed";

/// Why the GCS ended an actor, where the actor's owner was gone (`gcs_actor_manager.cc`, 2.9 to
/// 2.60).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerGone {
    /// The owner.
    pub owner: Option<HexId>,
    /// Whether the owner's node had crashed. The owner itself may still be alive.
    pub node_crashed: bool,
}

/// Parses `… its owner has died. Owner Id: W Owner Ip address: … Owner's worker process has
/// crashed.`
pub fn owner_gone(reason: &str) -> Option<OwnerGone> {
    reason.contains("owner has died").then(|| {
        let owner = reason.split("Owner Id: ").nth(1);
        OwnerGone {
            owner: owner.and_then(|rest| HexId::parse(rest.split_whitespace().next()?)),
            node_crashed: reason.contains(OWNERS_NODE_CRASHED),
        }
    })
}

/// Whether an actor was ended because nothing refers to it any more (`gcs_actor_manager.cc`).
pub(crate) fn is_out_of_references(reason: &str) -> bool {
    reason.contains("references")
}

/// Whether a raylet that the GCS considered dead had lost the GCS, rather than been marked by it
/// (`node_manager.cc`).
pub fn lost_the_gcs(reason: &str) -> bool {
    !reason.contains("marked")
}

/// Whether the GCS considered a node dead because the node did not answer, according to its words
/// (`gcs_node_manager.cc`, 2.9 to 2.60): `health check failed due to missing too many heartbeats`,
/// and `the detector has missed too many heartbeats from it` to drivers. The node may still be
/// alive.
pub fn did_not_answer(message: &str) -> bool {
    message.contains("health check failed") || message.contains("missed too many heartbeats")
}

/// Whether a node ended because it was drained, according to the reason of its end
/// (`AUTOSCALER_DRAIN_IDLE`, `_PREEMPTED` of `NodeDeathInfo`; 2.9 to 2.60).
pub fn was_drained(reason: &str) -> bool {
    reason.starts_with("AUTOSCALER_DRAIN_")
}

/// Whether the agent that a raylet names is the dashboard agent, rather than the runtime-env agent
/// (`agent_manager.cc`).
pub(crate) fn is_dashboard_agent(name: &str) -> bool {
    name.contains("dashboard")
}

static CODE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"exits? with (?:an )?exit code (\d{1,3})\b"));
static SIGTERM: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:process receives? a|terminated by|received) SIGTERM"));

#[expect(
    clippy::expect_used,
    reason = "the patterns are literals and are compiled in tests"
)]
pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// Returns the exit code in Ray's words about how a worker ended: `Worker exits with an exit code
/// 7.`
pub fn exit_code(detail: &str) -> Option<i32> {
    CODE.captures(detail)?[1].parse().ok()
}

/// Whether a worker says that it left by `SystemExit`, whatever its code, which may be any value
/// (`_raylet.pyx`). Neither a signal nor `os._exit` can make it say so.
pub fn left_by_exit(detail: &str) -> bool {
    detail.contains("Worker exits with an exit code ")
}

/// Whether a worker left by a `SystemExit` that a handler of SIGTERM raises as often as a program:
/// without a code (`sys.exit()`), with the number of the signal, or with 128 more.
pub fn may_follow_sigterm(detail: &str) -> bool {
    let without_code = left_by_exit(detail) && detail.contains(" exit code None");
    without_code || matches!(exit_code(detail), Some(15 | 143))
}

/// Whether Ray says that a SIGTERM ended a worker: `The process receives a SIGTERM.` Ray's lists of
/// common causes name signals too and do not count.
pub fn received_sigterm(detail: &str) -> bool {
    SIGTERM.is_match(detail)
}

/// Whether a worker ended because its job had ended.
pub fn job_has_finished(detail: &str) -> bool {
    detail.contains("job has finished")
}

/// Whether a worker says in its own log that a signal ended it.
pub(crate) fn names_signal(detail: &str) -> bool {
    detail.contains("SIG")
}

/// Whether a worker says in its own log that a SIGTERM ended it (`core_worker_process.cc`).
pub(crate) fn names_sigterm(detail: &str) -> bool {
    detail.contains("SIGTERM")
}

/// Returns a reason without the words that Ray puts before every reason (`core_worker.cc`), cut to
/// the length of one line.
pub fn short_reason(detail: &str) -> String {
    let detail = detail
        .trim_start_matches("Worker exits because ")
        .trim_start_matches("Worker exits by an user request. ")
        .trim_start_matches("Worker exited because ");
    detail.chars().take(160).collect()
}

/// Whether an `ErrorType` (`src/ray/protobuf/common.proto`) means that the process of a call is
/// gone. The others are exceptions in the user's code.
pub(crate) fn means_process_died(error: &str) -> bool {
    means_actor_died(error)
        || matches!(
            error,
            "WORKER_DIED" | "OUT_OF_MEMORY" | "NODE_DIED" | "LOCAL_RAYLET_DIED"
        )
}

/// Whether it means that the actor of a call is gone.
pub(crate) fn means_actor_died(error: &str) -> bool {
    matches!(error, "ACTOR_DIED" | "ACTOR_UNAVAILABLE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_says_what_ended_the_worker() {
        for (reason, ended) in [
            ("its owner died", EndedWith::Owner),
            ("its owner's node died", EndedWith::OwnerNode),
            ("its job finished", EndedWith::Job),
            ("owner has died", EndedWith::Owner),
        ] {
            assert_eq!(EndedWith::of(reason), ended, "{reason}");
        }
        let gone = owner_gone(
            "The actor is dead because its owner has died. Owner Id: ab01 Owner Ip address: 192.0.2.2 Owner worker exit type: SYSTEM_ERROR Owner's node has crashed.",
        );
        let owner = HexId::parse("ab01");
        assert_eq!(
            gone,
            Some(OwnerGone {
                owner,
                node_crashed: true
            })
        );
        assert_eq!(owner_gone("The actor was killed by ray.kill"), None);
    }

    #[test]
    fn each_version_says_how_a_worker_ended() {
        assert_eq!(exit_code("Worker exits with an exit code 7."), Some(7));
        assert_eq!(exit_code("Worker exit with exit code 137"), Some(137));
        assert_eq!(exit_code("connection error code 2. End of file"), None);
        assert!(received_sigterm("The process receives a SIGTERM."));
        assert!(!received_sigterm("Some common causes include: SIGTERM"));
        assert!(job_has_finished(
            "Worker exits because its job has finished"
        ));
    }
}
