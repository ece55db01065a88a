//! How far a node's clock may be off, by its own kernel and by what Ray's messages prove.

use serde::Serialize;

use super::Utc;
use crate::ids::HexId;

/// What a node's kernel says of its clock: the worst in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClockState {
    /// It is off by no more microseconds, if whoever sets it is right.
    pub max_error_us: u64,
    /// Whether somebody kept it set all the time.
    pub synchronised: bool,
}

/// How far a node's clock is ahead of that of the node with the GCS, by messages between the two; negative where it is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClockOffset {
    /// By this many ms at least.
    pub ahead_at_least_ms: Option<i64>,
    /// By this many ms at most.
    pub ahead_at_most_ms: Option<i64>,
    /// What is taken off this node's times to put deaths in order, in ms; 0 where its clock may be right.
    pub corrected_by_ms: i64,
}

/// A record of one end of a message between a node and the GCS. Not part of the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageTime {
    /// By the clock of the node that it was made on.
    pub time: Utc,
    /// The cluster's number.
    pub cluster: u32,
    /// Whether the GCS made it.
    pub by_gcs: bool,
    /// Of which message.
    pub step: Step,
    /// Whom it is about.
    pub id: HexId,
}

/// A message of which both ends are recorded, with the id that both name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A raylet dropped a worker, then the GCS entered that worker's exit.
    WorkerLeft,
    /// A worker's process began, then the GCS entered that its actor was created.
    WorkerReady,
    /// A raylet began, then the GCS registered its node.
    NodeUp,
    /// The GCS entered a worker's exit, then a raylet ended what that worker owned.
    OwnerGone,
    /// The GCS took a node for dead, then its raylet heard of it.
    NodeGone,
    /// The GCS registered a job, then a process worked for it.
    JobBegan,
    /// The GCS entered an actor's failure, then one who knows the actor heard of it.
    ActorFailed,
}

impl Step {
    /// Whether the node's end comes first.
    #[must_use]
    pub(crate) fn begins_on_node(self) -> bool {
        matches!(self, Self::WorkerLeft | Self::WorkerReady | Self::NodeUp)
    }
}
