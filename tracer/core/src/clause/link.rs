//! A cause on another node, in words.

use crate::judge::report::{Remote, Tie};

/// What ties a death to one on another node: `the driver's log names actor 1a2b`.
#[must_use]
pub fn tie(tie: &Tie) -> String {
    match tie {
        Tie::NamesActor { source, actor } => {
            format!("{} names actor {}", log_name(source), actor.short())
        }
        Tie::NamesOwner { source, owner } => {
            format!(
                "{} names its owner, worker {}",
                log_name(source),
                owner.short()
            )
        }
        Tie::GcsGone { source } => format!("{} says that the GCS is gone", log_name(source)),
        Tie::SameMachine => "another recording of the same machine has it".into(),
        Tie::PeerError { source, kind } => {
            format!("{} says {kind} in the same job", log_name(source))
        }
    }
}

/// A cause that this node's recording does not hold.
#[must_use]
pub fn remote(remote: &Remote) -> String {
    match remote {
        Remote::Owner => "its owner is on another node or was not seen".into(),
        Remote::OwnersNode => "its owner's node is another one or was not seen".into(),
        Remote::Says(words) => words.clone(),
        Remote::Death {
            tie: because,
            comm,
            pid,
            killer,
        } => format!("{}: {comm} (pid {pid}), {}", tie(because), killer.name()),
        Remote::DeclaredDead { tie: because, node } => format!(
            "{}, on {node}, which the GCS had declared dead while its processes lived",
            tie(because)
        ),
        Remote::Unrecorded { tie: because, node } => {
            let because = tie(because);
            match (because, node) {
                (because, None) => format!("{because}, and there is no recording of its node"),
                (because, Some(node)) => {
                    format!("{because}, on {node}, of which there is no recording")
                }
            }
        }
    }
}

/// A log, by the name of its file.
fn log_name(source: &str) -> &str {
    if source.starts_with("python-core-driver-") {
        "the driver's log"
    } else if source.starts_with("python-core-worker-") {
        "a worker's log"
    } else {
        source
    }
}
