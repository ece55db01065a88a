//! Defines what Ray's GCS says about a process, and about an actor class.

use serde::Serialize;

use crate::ids::HexId;

/// What titles and logs do not say. Each field is `None` if the GCS does not say it either.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GcsReport {
    /// The name that the actor was given. For a subprocess, that of its worker's actor.
    pub actor_name: Option<String>,
    /// The name of the placement group that the actor was scheduled into.
    pub placement_group: Option<String>,
    /// The id of the placement group.
    pub placement_group_id: Option<HexId>,
    /// What the job was started with.
    pub job_entrypoint: Option<String>,
    /// `--node-name` of the node, else its address.
    pub node_name: Option<String>,
}

/// What the GCS says about the actors of a class. Each list is sorted and has at most eight names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GcsOwner {
    /// Names that were given.
    pub actor_names: Vec<String>,
    /// Names of their placement groups.
    pub placement_groups: Vec<String>,
    /// What their jobs were started with.
    pub job_entrypoints: Vec<String>,
}
