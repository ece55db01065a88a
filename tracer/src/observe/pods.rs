//! Names the pod of a raylet by what the kubelet leaves on the node. No API is asked.
//!
//! The kubelet names the folder of a pod's logs `NAMESPACE_POD_UID`
//! (`pkg/kubelet/kuberuntime/helpers.go`, 1.34), and a link to the log of each container
//! `POD_NAMESPACE_CONTAINER-ID.log` (`legacy.go` there). None of the names contains `_`. Only root
//! writes there. Inside a pod, the service account has a file with the namespace.

use std::path::Path;

use crate::{
    bounded, cgroup_path,
    event::{PodNames, Process},
    ids::Pid,
    observe::rooted::{self, Folder},
};

/// The init of the node: with `hostPID` its root is the node's, also for a recorder in a pod.
const INIT: Pid = Pid(1);
const PODS: &str = "/var/log/pods";
const CONTAINERS: &str = "/var/log/containers";
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Returns the names of the pod that a raylet runs in; `None` outside of Kubernetes.
pub(super) fn names(raylet: &Process) -> Option<PodNames> {
    let uid = cgroup_path::pod_uid(raylet.cgroup.as_deref()?)?;
    let found = listed(PODS, format!("_{uid}")).and_then(|name| of_folder(&name, &uid));
    let (namespace, pod) = found.unzip();
    let log = raylet.container_id.as_ref();
    let log = log.and_then(|id| listed(CONTAINERS, format!("-{id}.log")));
    let names = PodNames {
        namespace: namespace.or_else(|| own_namespace(raylet.process.pid)),
        pod,
        container: log.and_then(|name| of_log(&name)),
    };
    (names != PodNames::default()).then_some(names)
}

/// Returns the name in a folder of the node that ends like this.
fn listed(folder: &str, end: String) -> Option<String> {
    let names = Folder::at(INIT, Path::new(folder))?.names(move |name| name.ends_with(&end));
    names.into_iter().next()
}

/// Returns the namespace and the name in the name of a pod's folder.
fn of_folder(name: &str, uid: &str) -> Option<(String, String)> {
    let rest = name.strip_suffix(uid)?.strip_suffix('_')?;
    let (namespace, pod) = rest.split_once('_')?;
    let whole = !namespace.is_empty() && !pod.is_empty() && !pod.contains('_');
    whole.then(|| (namespace.to_owned(), pod.to_owned()))
}

/// Returns the container in the name of a log. Its id has no `-`.
fn of_log(name: &str) -> Option<String> {
    let (rest, _id) = name.rsplit_once('-')?;
    let container = rest.split('_').nth(2)?;
    (!container.is_empty()).then(|| container.to_owned())
}

/// Returns the namespace of the pod's service account.
fn own_namespace(raylet: Pid) -> Option<String> {
    let bytes = rooted::read(raylet, Path::new(NAMESPACE), bounded::SMALL)?;
    let name = String::from_utf8(bytes).ok()?.trim().to_owned();
    let of_a_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    (!name.is_empty() && name.len() < 64 && name.chars().all(of_a_name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_the_kubelets_files() {
        let uid = "91b1bae4-2e2b-4ae4-8a6c-6b2b4ca1d3f0";
        let folder = format!("team-a_raycluster-head-x7k2p_{uid}");
        let names = ("team-a".to_owned(), "raycluster-head-x7k2p".to_owned());
        assert_eq!(of_folder(&folder, uid), Some(names));
        for foreign in [format!("_{uid}"), format!("team-a__{uid}"), uid.to_owned()] {
            assert_eq!(of_folder(&foreign, uid), None, "{foreign}");
        }
        let log = "raycluster-head-x7k2p_team-a_ray-head-5331828abc.log";
        assert_eq!(of_log(log).as_deref(), Some("ray-head"));
        assert_eq!(of_log("a_b.log"), None);
    }
}
