//! Defines links to causes in other recordings, and the nodes that a report knows.

use serde::Serialize;

use super::{Certainty, ClockOffset, InUse, Killer, LimitPeak, Peak, Utc};
use crate::ids::{EventId, HexId, Pid};

/// The death that caused another one, by what Ray's own processes say. It may be in another
/// recording, or in the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CauseLink {
    /// The cause's recording.
    pub recording_id: u32,
    /// The cause's id in it.
    pub death_id: EventId,
    /// The cause's node.
    pub node: String,
    /// Which rule found it.
    pub rule: LinkRule,
    /// How sure the link is; each of the two deaths has a certainty of its own.
    pub link_certainty: Certainty,
    /// What it rests on; a sentence in the JSON.
    pub because: LinkReason,
}

/// What links a death to its cause on another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkReason {
    /// A log names the actor.
    NamesActor {
        /// The log's name.
        source: String,
        /// The actor.
        actor: HexId,
    },
    /// A log names the owner.
    NamesOwner {
        /// The log's name.
        source: String,
        /// The worker that owned it.
        owner: HexId,
    },
    /// A raylet's log says that it lost the GCS.
    GcsGone {
        /// The log's name.
        source: String,
    },
    /// A log says that a collective or a connection to a peer failed.
    PeerError {
        /// The log's name.
        source: String,
        /// `NCCL timeout`, `connection reset`, …
        kind: &'static str,
    },
    /// Its own recording has the cause too, and another recording of the same machine knows more
    /// about it.
    SameMachine,
}

/// A cause that is not in this node's recording; a sentence in the JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remote {
    /// Its owner, on another node or not seen.
    Owner,
    /// The node of its owner, another one or not seen.
    OwnerNode,
    /// A cause in Ray's words.
    Says(String),
    /// A death of another recording.
    Death {
        /// What links the two.
        reason: LinkReason,
        /// The name of the process that died.
        comm: String,
        /// Its pid.
        pid: Pid,
        /// Who ended it.
        killer: Killer,
    },
    /// A node that the GCS had declared dead while its processes were alive.
    DeclaredDead {
        /// What says so.
        reason: LinkReason,
        /// That node.
        node: String,
    },
    /// Something on a node without a recording.
    Unrecorded {
        /// What says so.
        reason: LinkReason,
        /// That node, if it is known.
        node: Option<String>,
    },
}

/// A node without a recording: what died there, and whether that caused deaths elsewhere, is not
/// known. A sentence in the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRecording;

/// Why a death is the cause of one on another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LinkRule {
    /// It was the death of the owner.
    OwnerDied,
    /// It was the death of the raylet of the owner's node.
    OwnerNodeDied,
    /// It was the death of an actor that a driver, or another owner, had called.
    ActorDied,
    /// It was the death of the GCS.
    HeadDied,
    /// It is in its own recording too, and is reported as another recording of the same machine has
    /// it.
    SameMachine,
    /// It was the first death of the job, and a peer says that the connection to others broke.
    PeerError,
}

/// A node that has a recording, or that a recording names.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// Its name: the host's, or the one that Ray gave it if several are on one host.
    pub name: String,
    /// Ray's id.
    pub node_id: Option<HexId>,
    /// Session of its cluster.
    pub session: Option<String>,
    /// Its address, if the GCS's log has it.
    pub address: Option<String>,
    /// Whether the GCS runs on it.
    pub head: bool,
    /// Its recordings; none for a node that others name.
    pub recordings: Vec<u32>,
    /// How many of its logs were read (`explain`).
    pub texts: u64,
    /// What names the node, if it has no recording.
    pub named_by: Option<String>,
    /// What follows from the missing recording.
    pub missing: Option<NoRecording>,
    /// Abnormal deaths on it.
    pub listed_deaths: u64,
    /// What the GCS said when it declared the node dead.
    pub declared_dead: Option<DeclaredDead>,
    /// Times between two recordings, of which nothing is known.
    pub gaps: Vec<Gap>,
    /// How far its clock is from that of the node with the GCS, if messages between the two say so.
    pub clock: Option<ClockOffset>,
    /// Highest use of its memory.
    pub peak: Option<Peak>,
    /// Its cgroups with a limit.
    pub limits: Vec<LimitPeak>,
    /// Its memory when most of it was in use.
    pub in_use: Option<InUse>,
}

impl Node {
    /// Returns whether a recording or logs of it were read.
    pub fn is_known(&self) -> bool {
        !self.recordings.is_empty() || self.texts > 0
    }
}

/// The figures of one recording's machine, which are shown with its node. Not part of the contract.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The recording.
    pub recording_id: u32,
    /// Highest use.
    pub peak: Option<Peak>,
    /// Cgroups with a limit.
    pub limits: Vec<LimitPeak>,
    /// Its memory when most of it was in use.
    pub in_use: Option<InUse>,
}

/// What the GCS said when it declared a node dead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeclaredDead {
    /// The time.
    pub time: Option<Utc>,
    /// `UNEXPECTED_TERMINATION`, `AUTOSCALER_DRAIN_PREEMPTED`, …
    pub reason: Option<String>,
    /// The GCS's words.
    pub message: Option<String>,
    /// Whether its raylet had died, by its recording. If not, the node may only have been cut off.
    pub raylet_died: Option<bool>,
    /// Whether its raylet was alive then, and ended because it learned of that later.
    pub raylet_ended_by_it: bool,
}

/// A time in which no recorder ran on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gap {
    /// The start.
    pub from: Utc,
    /// The end.
    pub until: Utc,
}
