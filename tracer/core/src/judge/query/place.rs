//! Says where a process ran, by its cgroup's path, by what the kubelet left on the node, and by its
//! raylet's environment, in which `KubeRay` sets names.

use crate::{
    cgroup_path,
    event::{Cluster, Role, SlurmJob},
    ids::ProcessKey,
    judge::{
        report::{Kubernetes, Place, Slurm},
        state::{processes::ProcessState, world::World},
    },
};

/// Returns the place of a process.
pub(crate) fn of(world: &World, state: &ProcessState) -> Place {
    let slurm = slurm_job(world, state).map(|found| Slurm {
        job_id: found.job,
        step_id: found.step,
    });
    let raylet = state.cluster.and_then(|raylet| world.cluster(raylet));
    let raylet = raylet.or_else(|| in_same_pod(world, state));
    Place {
        kubernetes: pod(world, state, raylet).map(Box::new),
        slurm,
    }
}

/// Returns the Slurm job of a process: its own, else that of the raylet that started it. A driver
/// may connect from another job.
pub(crate) fn slurm_job(world: &World, state: &ProcessState) -> Option<SlurmJob> {
    let raylets = || {
        let raylet = state.cluster.filter(|_| state.role != Role::Driver)?;
        world.processes.get(raylet)?.slurm()
    };
    state.slurm().or_else(raylets)
}

/// Returns the place of a raylet.
pub(crate) fn of_raylet(world: &World, raylet: ProcessKey) -> Place {
    let state = world.processes.get(raylet);
    state.map_or_else(Place::default, |state| of(world, state))
}

fn pod(world: &World, state: &ProcessState, cluster: Option<&Cluster>) -> Option<Kubernetes> {
    let pod_uid = state.cgroup.as_deref().and_then(cgroup_path::pod_uid);
    let named = cluster.map(pod_of_raylet).unwrap_or_default();
    let named = if same_pod(world, cluster, pod_uid.as_deref()) {
        named
    } else {
        // The raylet's pod is not this process's. Only the names of the whole cluster hold for
        // both.
        Kubernetes {
            pod: None,
            group: None,
            ..named
        }
    };
    // Containers of one pod have their own names.
    let container = cluster.filter(|one| one.container_id == state.container_id);
    let container = container.and_then(|one| one.pod.as_ref()?.container.clone());
    let found = Kubernetes { pod_uid, ..named };
    let known = found != Kubernetes::default();
    known.then(|| Kubernetes {
        container_id: state.container_id.clone(),
        container: container.filter(|_| state.container_id.is_some()),
        ..found
    })
}

/// Returns the cluster of a raylet in the same pod. The init of a container belongs to no cluster,
/// and its end is what a deletion, a failed probe and an eviction begin with.
fn in_same_pod<'a>(world: &'a World, state: &ProcessState) -> Option<&'a Cluster> {
    let own = state.cgroup.as_deref().and_then(cgroup_path::pod_uid)?;
    let is_in_it = |cluster: &&Cluster| {
        let raylet = world.processes.get(cluster.raylet);
        let path = raylet.and_then(|raylet| raylet.cgroup.as_deref());
        path.and_then(cgroup_path::pod_uid).as_ref() == Some(&own)
    };
    world.clusters.iter().find(is_in_it)
}

/// Whether a process is in its raylet's pod, as far as the uids of both are known.
fn same_pod(world: &World, cluster: Option<&Cluster>, own: Option<&str>) -> bool {
    let raylet = cluster.and_then(|cluster| world.processes.get(cluster.raylet));
    let path = raylet.and_then(|raylet| raylet.cgroup.as_deref());
    let its = path.and_then(cgroup_path::pod_uid);
    its.as_deref().zip(own).is_none_or(|(its, own)| its == own)
}

/// Returns the names of a raylet's pod. Those on the node are the kubelet's; the environment is the
/// job's user's. The observer has read the service account's namespace if the node has no name.
pub fn pod_of_raylet(cluster: &Cluster) -> Kubernetes {
    let value = |name: &str| {
        let mut settings = cluster.settings.iter();
        let (_, value) = settings.find(|(key, _)| key == name)?;
        Some(value.clone()).filter(|value| !value.is_empty())
    };
    let on_node = cluster.pod.clone().unwrap_or_default();
    let namespace = value("RAY_CLUSTER_NAMESPACE");
    Kubernetes {
        cluster: value("RAY_CLUSTER_NAME"),
        namespace: match on_node.pod {
            Some(_) => on_node.namespace.or(namespace),
            None => namespace.or(on_node.namespace),
        },
        pod: on_node.pod.or_else(|| value("RAY_CLOUD_INSTANCE_ID")),
        group: value("RAY_NODE_TYPE_NAME"),
        ..Kubernetes::default()
    }
}
