//! Defines the roles of processes in Ray.

use serde::{Deserialize, Serialize};

/// What a process is to Ray.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Role {
    /// A worker of Ray. Tasks and actors run in it.
    Worker,
    /// A program that called `ray.init()`.
    Driver,
    /// `raylet`.
    Raylet,
    /// `gcs_server`.
    Gcs,
    /// The dashboard.
    Dashboard,
    /// The dashboard agent or runtime-env agent.
    Agent,
    /// A process that a worker or driver started.
    Descendant,
    /// A process that is tracked for another reason (an ancestor of the raylet, a wrapped command).
    #[default]
    Other,
}

impl Role {
    /// Whether this is a part of Ray or a driver, and not a process that one of them started.
    pub fn is_ray_or_driver(self) -> bool {
        !matches!(self, Self::Descendant | Self::Other)
    }
}
