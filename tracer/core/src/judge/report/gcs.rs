//! What Ray's GCS says of a process, and of an actor class.

use serde::Serialize;

use crate::ids::HexId;

/// What titles and logs do not tell; each `None` where the GCS does not either.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GcsReport {
    /// The name that the actor was given; of a subprocess, that of its worker's actor.
    pub actor_name: Option<String>,
    /// The name of the placement group that the actor was scheduled into.
    pub placement_group: Option<String>,
    /// Its id.
    pub placement_group_id: Option<HexId>,
    /// What the job was started with.
    pub job_entrypoint: Option<String>,
    /// `--node-name` of the node, else its address.
    pub node_name: Option<String>,
}

/// The actors of a class, each list in the order of its names, eight of them at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GcsOwner {
    /// Names that were given.
    pub actor_names: Vec<String>,
    /// Names of their placement groups.
    pub placement_groups: Vec<String>,
    /// What their jobs were started with.
    pub job_entrypoints: Vec<String>,
}
