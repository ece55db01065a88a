//! Words a cause on another node.

use crate::judge::report::{LinkReason, Remote};

/// Returns what ties a death to one on another node: `the driver's log names actor 1a2b`.
pub fn link_reason(reason: &LinkReason) -> String {
    match reason {
        LinkReason::NamesActor { source, actor } => {
            format!("{} names actor {}", log_name(source), actor.short())
        }
        LinkReason::NamesOwner { source, owner } => {
            format!(
                "{} names its owner, worker {}",
                log_name(source),
                owner.short()
            )
        }
        LinkReason::GcsGone { source } => {
            format!("{} says that the GCS is unreachable", log_name(source))
        }
        LinkReason::SameMachine => "another recording of the same machine names it".into(),
        LinkReason::PeerError { source, kind } => {
            format!("{} says {kind} in the same job", log_name(source))
        }
    }
}

/// Returns the clause for a cause that this node's recording does not hold.
pub fn remote(remote: &Remote) -> String {
    match remote {
        Remote::Owner => "its owner is on another node or was not recorded".into(),
        Remote::OwnerNode => "its owner's node is another one or was not recorded".into(),
        Remote::Says(words) => words.clone(),
        Remote::Death {
            reason: because,
            comm,
            pid,
            killer,
        } => format!(
            "{}: {comm} (pid {pid}), {}",
            link_reason(because),
            killer.name()
        ),
        Remote::DeclaredDead {
            reason: because,
            node,
        } => format!(
            "{}, on {node}, which the GCS had declared dead while its processes lived",
            link_reason(because)
        ),
        Remote::Unrecorded {
            reason: because,
            node,
        } => {
            let because = link_reason(because);
            match (because, node) {
                (because, None) => format!("{because} (no recording of its node)"),
                (because, Some(node)) => {
                    format!("{because} on {node} (no recording)")
                }
            }
        }
    }
}

/// Returns the name of a log's file.
fn log_name(source: &str) -> &str {
    if source.starts_with("python-core-driver-") {
        "the driver's log"
    } else if source.starts_with("python-core-worker-") {
        "a worker's log"
    } else {
        source
    }
}
