//! Defines where a process ran, as a cluster's users name it: its pod, its Slurm job.

use std::path::Path;

use serde::Serialize;

use crate::cgroup_path;

/// Pod and job of a process; both `None` on a plain machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// Its pod, where it ran in Kubernetes.
    pub kubernetes: Option<Box<Kubernetes>>,
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

impl Kubernetes {
    /// Returns the pod as `kubectl` names it: `team-a/raycluster-x`, or its name alone.
    pub fn pod_name(&self) -> Option<String> {
        let pod = self.pod.as_ref()?;
        let namespace = self.namespace.iter();
        Some(
            namespace
                .chain([pod])
                .cloned()
                .collect::<Vec<_>>()
                .join("/"),
        )
    }

    /// Returns whether it is called so: `NAMESPACE/NAME`, its name, or its uid.
    pub fn is_called(&self, text: &str) -> bool {
        let names = [self.pod_name(), self.pod.clone(), self.pod_uid.clone()];
        names.iter().flatten().any(|name| name == text)
    }

    /// Returns the container: `container ray-head of pod team-a/raycluster-x`.
    pub fn container_name(&self) -> Option<String> {
        let pod = self.pod_name()?;
        Some(match &self.container {
            Some(name) => format!("container {name} of pod {pod}"),
            None => format!("a container of pod {pod}"),
        })
    }

    /// Returns what a cgroup is, if it is that of this container or of its pod, and these have
    /// names. A cgroup below the container's is another one.
    pub fn cgroup_name(&self, path: &str) -> Option<String> {
        let above = Path::new(path).parent()?.to_str()?;
        let is_own = |of: fn(&str) -> Option<String>, own: Option<&String>| {
            own.is_some() && of(path).as_ref() == own && of(above).is_none()
        };
        if is_own(cgroup_path::container, self.container_id.as_ref()) {
            return self.container_name();
        }
        let is_pod = is_own(cgroup_path::pod_uid, self.pod_uid.as_ref());
        self.pod_name()
            .filter(|_| is_pod)
            .map(|pod| format!("pod {pod}"))
    }
}

impl Place {
    /// Returns whether neither is known.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_of_a_container_and_its_pod_have_names() {
        let uid = "91b1bae4-2e2b-4ae4-8a6c-6b2b4ca1d3f0";
        let id = "a".repeat(64);
        let mut pod = Kubernetes {
            namespace: Some("team-a".into()),
            pod: Some("head".into()),
            container: Some("ray-head".into()),
            pod_uid: Some(uid.into()),
            container_id: Some(id.clone()),
            ..Kubernetes::default()
        };
        let slice = format!("kubepods-pod{}.slice", uid.replace('-', "_"));
        for (path, name) in [
            (format!("/kubepods/burstable/pod{uid}"), "pod team-a/head"),
            (format!("/kubepods.slice/{slice}"), "pod team-a/head"),
            (
                format!("/kubepods/pod{uid}/{id}"),
                "container ray-head of pod team-a/head",
            ),
            (
                format!("/kubepods.slice/{slice}/crio-{id}.scope"),
                "container ray-head of pod team-a/head",
            ),
            // Another container, and what the container made itself.
            (format!("/kubepods/pod{uid}/{}", "b".repeat(64)), ""),
            (format!("/kubepods/pod{uid}/{id}/ray-node"), ""),
            ("/kubepods".to_owned(), ""),
        ] {
            let found = pod.cgroup_name(&path).unwrap_or_default();
            assert_eq!(found, name, "{path}");
        }
        (pod.container, pod.namespace) = (None, None);
        let found = pod.cgroup_name(&format!("/kubepods/pod{uid}/{id}"));
        assert_eq!(found.as_deref(), Some("a container of pod head"));
        pod.pod = None;
        assert_eq!(pod.cgroup_name(&format!("/kubepods/pod{uid}")), None);
    }
}
