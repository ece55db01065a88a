//! Defines what one node's logs say about processes and nodes elsewhere.
//!
//! Reports are joined by the ids in these mentions. Not part of the contract.

use super::Utc;
use crate::ids::HexId;

/// A log record that names a process or node that may be elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMention {
    /// The time.
    pub time: Option<Utc>,
    /// The cluster's number.
    pub cluster: Option<u32>,
    /// The log's name.
    pub source: String,
    /// The worker or driver that logged it; `None` for Ray's own processes.
    pub by: Option<HexId>,
    /// What it says.
    pub what: Mention,
}

/// What a log record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mention {
    /// This worker was ended because its owner, or its owner's node, had died.
    OwnerDied {
        /// The worker that was ended.
        worker: HexId,
        /// Its owner.
        owner: Option<HexId>,
        /// Whether it was the owner's node that had died.
        node: bool,
    },
    /// An actor is dead, or does not answer and its call is not tried again.
    ActorDied {
        /// The actor.
        actor: HexId,
        /// The worker that it ran in.
        worker: Option<HexId>,
    },
    /// An actor runs in this worker.
    ActorIn {
        /// The actor.
        actor: HexId,
        /// Its worker.
        worker: HexId,
    },
    /// A worker runs, or ran, on this node.
    WorkerOn {
        /// The worker.
        worker: HexId,
        /// Its node.
        node: HexId,
    },
    /// A node of the cluster.
    NodeIs {
        /// The node.
        node: HexId,
        /// Its name.
        name: Option<String>,
        /// Its address.
        address: Option<String>,
    },
    /// The GCS declared a node dead.
    NodeDied {
        /// The node.
        node: HexId,
        /// The reason that it gave.
        reason: Option<String>,
        /// Its message.
        message: Option<String>,
    },
    /// A raylet ends because it has lost the GCS.
    GcsLost,
    /// A collective or a connection to a peer failed.
    PeerError {
        /// `NCCL timeout`, `connection reset`, …
        kind: &'static str,
        /// The time-out that the text names.
        timeout_ms: Option<u64>,
    },
}
