//! Defines where a process ran, as a cluster's users name it: its pod, its Slurm job.

use serde::Serialize;

/// Pod and job of a process; both `None` on a plain machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// Its pod, where it ran in Kubernetes.
    pub kubernetes: Option<Kubernetes>,
    /// Its job, where Slurm started it.
    pub slurm: Option<Slurm>,
}

/// A pod, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kubernetes {
    /// `RAY_CLUSTER_NAME` of the raylet: the `RayCluster`.
    pub cluster: Option<String>,
    /// By the folder of its logs on the node, else `RAY_CLUSTER_NAMESPACE`, else by its service
    /// account.
    pub namespace: Option<String>,
    /// The pod's name, by the folder of its logs, else `RAY_CLOUD_INSTANCE_ID`.
    pub pod: Option<String>,
    /// `RAY_NODE_TYPE_NAME`: the group of the `RayCluster`.
    pub group: Option<String>,
    /// The pod's uid, from the cgroup's path.
    pub pod_uid: Option<String>,
    /// The container's id, from the cgroup's path.
    pub container_id: Option<String>,
    /// The container's name, by the name of its log on the node.
    pub container: Option<String>,
}

impl Place {
    /// Returns whether neither is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kubernetes.is_none() && self.slurm.is_none()
    }
}

/// A Slurm job, from the cgroup's path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slurm {
    /// Its id.
    pub job_id: String,
    /// The step: a number, `batch`, `extern`, `interactive`.
    pub step_id: Option<String>,
}
