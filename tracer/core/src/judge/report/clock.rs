//! Defines how far a node's clock may be off, by its kernel and by Ray's messages.

use serde::Serialize;

use super::Utc;
use crate::ids::HexId;

/// What a node's kernel says about its clock: the worst in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockState {
    /// The largest error in microseconds, if the source that sets it is right.
    pub max_error_us: u64,
    /// Whether it was kept set all the time.
    pub synchronised: bool,
}

/// How far a node's clock is ahead of that of the node with the GCS, by messages between the two.
/// Negative if it is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockOffset {
    /// The least that it is ahead, in ms.
    pub ahead_at_least_ms: Option<i64>,
    /// The most that it is ahead, in ms.
    pub ahead_at_most_ms: Option<i64>,
    /// What is subtracted from this node's times to put deaths in order, in ms; 0 if its clock may
    /// be right.
    pub corrected_by_ms: i64,
}

/// A record of one end of a message between a node and the GCS. Not part of the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageTime {
    /// The time by the clock of the node that made the record.
    pub time: Utc,
    /// The cluster's number.
    pub cluster: u32,
    /// Whether the GCS made the record.
    pub by_gcs: bool,
    /// Which message it is.
    pub kind: MessageKind,
    /// The id of what it is about.
    pub id: HexId,
}

/// A message with a record at both ends. Both records name the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// A raylet dropped a worker, then the GCS recorded that worker's exit.
    WorkerLeft,
    /// A worker's process began, then the GCS recorded that its actor was created.
    WorkerReady,
    /// A raylet began, then the GCS registered its node.
    NodeUp,
    /// The GCS recorded a worker's exit, then a raylet ended what that worker owned.
    OwnerGone,
    /// The GCS declared a node dead, then the node's raylet learned of it.
    NodeGone,
    /// The GCS registered a job, then a process worked for it.
    JobBegan,
    /// The GCS recorded an actor's failure, then a process that knows the actor learned of it.
    ActorFailed,
}

impl MessageKind {
    /// Returns whether the node's record comes first.
    pub(crate) fn begins_on_node(self) -> bool {
        matches!(self, Self::WorkerLeft | Self::WorkerReady | Self::NodeUp)
    }
}
