//! Says what a record of Ray means for the end that it is about.
//!
//! Both judges, of events and of texts, take it from here. Whether the record can be about an end,
//! and which process ended before, they find out by themselves.

use super::cause::{Cause, Request};
use crate::ray::{
    facts::RayFact,
    words::{self, EndedWith},
};

/// Why a process ended, by a record of Ray.
#[derive(Debug, Clone, PartialEq)]
pub enum RayReason {
    /// Ray's memory monitor chose it.
    Memory,
    /// Somebody wanted it to end.
    Intended(Cause),
    /// Something else had ended.
    Collapse {
        /// What that was.
        why: Cause,
        /// Ray's words for it, if it may be on another node.
        remote: Option<String>,
    },
}

impl RayReason {
    /// Returns the reason that a record gives, if it alone gives one.
    pub fn of(fact: &RayFact) -> Option<Self> {
        let why = match fact {
            RayFact::MonitorEvicted { .. } => return Some(Self::Memory),
            RayFact::JobFinished { .. } => return Some(Self::Intended(Cause::JobEnded)),
            RayFact::ForceKilled { .. } => return Some(Self::Intended(Cause::DidNotExit)),
            RayFact::NotRegistered { alive: true, .. } => {
                return Some(Self::Intended(Cause::DidNotRegister));
            }
            RayFact::KillActorRequested { .. } => {
                let request = Cause::requested(Request::KillOrOutOfScope);
                return Some(Self::Intended(request));
            }
            RayFact::RayletShutdown { reason, message } => {
                return Some(of_shutdown(reason, message.as_deref().unwrap_or(reason)));
            }
            RayFact::RayletMarkedDead { reason } => return Some(of_gcs(reason)),
            RayFact::StopSignal { .. } => Cause::RayletShutdown { requested_by: None },
            RayFact::AgentFailed { agent } => Cause::AgentDied {
                agent: agent.clone(),
            },
            RayFact::RayletLost { raylet_pid, .. } => Cause::RayletDied {
                raylet_pid: *raylet_pid,
                by_own_log: true,
            },
            _ => return None,
        };
        Some(Self::Collapse { why, remote: None })
    }

    /// Returns the reason if its node was dead, in these words of Ray.
    pub fn node_dead(says: String) -> Self {
        Self::Collapse {
            why: Cause::NodeDead {
                says: Some(says.clone()),
            },
            remote: Some(says),
        }
    }
}

/// Returns the cause for the end of a worker's owner or job, by the reason in
/// `RayFact::OwnerDied`.
pub fn owner_ended(reason: &str) -> Cause {
    match EndedWith::of(reason) {
        EndedWith::Job => Cause::JobEnded,
        EndedWith::Owner | EndedWith::OwnerNode => Cause::OwnerDied {
            says: Some(words::what_ended(reason).to_owned()),
            owner_lived: None,
        },
    }
}

/// Returns why a raylet shut down.
fn of_shutdown(reason: &str, says: &str) -> RayReason {
    let says = says.to_owned();
    if words::was_drained(reason) {
        return RayReason::Intended(Cause::NodeDrained { says });
    }
    let why = Cause::RayletEndedItself { says };
    match reason {
        "EXPECTED_TERMINATION" => RayReason::Intended(why),
        _ => RayReason::Collapse { why, remote: None },
    }
}

/// Returns why a raylet ended that the GCS had declared dead, or that had lost the GCS.
fn of_gcs(reason: &str) -> RayReason {
    if words::lost_the_gcs(reason) {
        RayReason::Collapse {
            why: Cause::GcsLost,
            remote: Some(reason.to_owned()),
        }
    } else {
        RayReason::node_dead(reason.to_owned())
    }
}
