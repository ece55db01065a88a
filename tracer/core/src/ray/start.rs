//! Recognizes how a Ray node was started, and words a change of its settings.
//!
//! A change is typed differently for `ray start`, `ray.init()`, a container and `KubeRay`.

use crate::ids::Bytes;

/// Who started the raylet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// `ray start` in a shell.
    #[default]
    RayStart,
    /// A driver's `ray.init()`.
    RayInit,
    /// A driver's `ray.init()` in a container that does not belong to a pod.
    RayInitInContainer,
    /// `ray start` in a container that does not belong to a pod.
    Container,
    /// `KubeRay`, or another controller of Kubernetes.
    Kubernetes,
    /// `ray start` in a Slurm job.
    Slurm,
}

/// Parts of the names of cgroups that container runtimes make.
const CONTAINERS: [&str; 4] = ["docker", "libpod", "containerd", "crio"];

impl Start {
    /// Returns who makes cgroups with such a path, where the path shows it.
    pub fn of_cgroup(path: &str) -> Option<Self> {
        if path.contains("kubepods") {
            Some(Self::Kubernetes)
        } else if CONTAINERS.iter().any(|word| path.contains(word)) {
            Some(Self::Container)
        } else {
            path.contains("/slurm").then_some(Self::Slurm)
        }
    }
}

/// A change of a setting of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An option of `ray start`.
    Flag {
        /// Its name without leading dashes.
        name: String,
        /// Its value.
        value: String,
    },
    /// A variable of the raylet's environment.
    Environment {
        /// Its name.
        key: String,
        /// Its value.
        value: String,
    },
    /// A variable to leave out.
    Unset(String),
    /// More memory for what runs in a cgroup.
    MemoryLimit {
        /// `12G`, `512M`, powers of two.
        size: String,
        /// The cgroup's path.
        cgroup: String,
        /// The version of the machine's memory cgroups, if known.
        version: Option<u8>,
        /// The name of its machine, if known.
        host: Option<String>,
    },
    /// A larger `/dev/shm`.
    SharedMemory {
        /// `512M`, powers of two.
        size: String,
        /// The name of its machine, if known.
        host: Option<String>,
    },
}

impl Change {
    /// `ray start --NAME=VALUE`.
    pub fn flag(name: &str, value: &str) -> Self {
        let (name, value) = (name.to_owned(), value.to_owned());
        Self::Flag { name, value }
    }

    /// `KEY=VALUE` in the raylet's environment.
    pub fn environment(key: &str, value: &str) -> Self {
        let (key, value) = (key.to_owned(), value.to_owned());
        Self::Environment { key, value }
    }

    /// No `KEY` in the raylet's environment.
    pub fn unset(key: &str) -> Self {
        Self::Unset(key.to_owned())
    }

    /// Returns what to type for a node that was started this way.
    pub fn at(&self, start: Start) -> String {
        match self {
            Self::Flag { name, value } => flag(name, value, start),
            Self::Environment { key, value } => environment(key, value, start),
            Self::Unset(key) => match start {
                Start::Kubernetes => format!("take {key} out of the pod's env"),
                _ => format!("unset {key}"),
            },
            Self::MemoryLimit {
                size,
                cgroup,
                version,
                host,
            } => more_memory(size, cgroup, *version, host.as_deref(), start),
            Self::SharedMemory { size, host } => more_shared_memory(size, host.as_deref(), start),
        }
    }
}

/// Returns `as root on n0`. What is typed on another machine or as another user changes nothing.
fn as_root(host: Option<&str>) -> String {
    format!("as root on {}", host.unwrap_or("its node"))
}

fn more_memory(
    size: &str,
    cgroup: &str,
    version: Option<u8>,
    host: Option<&str>,
    start: Start,
) -> String {
    let as_root = as_root(host);
    // No container runtime and no Slurm made this one.
    if let Some(unit) = unit(cgroup).filter(|_| Start::of_cgroup(cgroup).is_none()) {
        return set_property(unit, size, cgroup, &as_root);
    }
    match start {
        Start::Container | Start::RayInitInContainer => format!(
            "docker run --memory={size}, or while it runs docker update --memory={size} --memory-swap={size} CONTAINER"
        ),
        Start::Kubernetes => {
            format!("resources.limits.memory: {size}i of that container, where its pod is defined")
        }
        Start::Slurm => format!("sbatch --mem={size}"),
        Start::RayStart | Start::RayInit => format!(
            "{as_root}, write {size} to {}; where a script makes this cgroup, set the limit there",
            limit_file(cgroup, version)
        ),
    }
}

/// Returns the file of a cgroup's limit, or those of both versions.
fn limit_file(cgroup: &str, version: Option<u8>) -> String {
    let v1 = format!("/sys/fs/cgroup/memory{cgroup}/memory.limit_in_bytes");
    let v2 = format!("/sys/fs/cgroup{cgroup}/memory.max");
    match version {
        Some(1) => v1,
        Some(_) => v2,
        None => format!("{v2} (cgroup v1: {v1})"),
    }
}

/// Returns the systemd unit of a cgroup.
fn unit(cgroup: &str) -> Option<&str> {
    let name = cgroup.rsplit('/').next()?;
    let ends = [".service", ".scope", ".slice"];
    ends.iter().any(|end| name.ends_with(end)).then_some(name)
}

/// Changes the limit of a unit. Users' own units belong to a manager of each user's.
fn set_property(unit: &str, size: &str, cgroup: &str, as_root: &str) -> String {
    let change = format!("set-property {unit} MemoryMax={size}");
    // A scope is gone with its processes.
    let kind = unit.rsplit('.').next();
    let lasts = if kind == Some("scope") {
        ", until it ends"
    } else {
        ""
    };
    let parent = cgroup.rsplit_once('/').map_or("", |(parent, _)| parent);
    if parent.contains("/user@") {
        return format!("as its user, systemctl --user {change}{lasts}");
    }
    format!("{as_root}, systemctl {change}{lasts}")
}

/// Returns the largest `/dev/shm` that is advised on a machine with this memory. The OOM killer frees
/// nothing of it (the kernel's `Documentation/filesystems/tmpfs.rst`).
pub fn most_shared_memory(machine: Bytes) -> Bytes {
    machine.times(0.8)
}

fn more_shared_memory(size: &str, host: Option<&str>, start: Start) -> String {
    let docker = format!("docker run --shm-size={size}");
    // Kubernetes reads `m` as a thousandth, and `M` as a million.
    let binary = if size.ends_with('M') { "i" } else { "" };
    match start {
        Start::Container | Start::RayInitInContainer => docker,
        Start::Kubernetes => format!(
            "a volume emptyDir: {{medium: Memory, sizeLimit: {size}{binary}}} on /dev/shm of Ray's container, where its pod is defined"
        ),
        // Not each container shows in the path of its cgroup.
        Start::RayStart | Start::RayInit | Start::Slurm => format!(
            "{}, mount -o remount,size={size} /dev/shm (until its next boot); in a container, {docker}; in a pod, an emptyDir of medium Memory on /dev/shm",
            as_root(host)
        ),
    }
}

fn flag(name: &str, value: &str, start: Start) -> String {
    match start {
        // In a container it is the command of the image.
        Start::RayStart | Start::Container | Start::Slurm => format!("ray start --{name}={value}"),
        Start::RayInit | Start::RayInitInContainer => {
            format!("ray.init({}={value})", name.replace('-', "_"))
        }
        Start::Kubernetes => format!("rayStartParams: {{{name}: \"{value}\"}} in the RayCluster"),
    }
}

fn environment(key: &str, value: &str, start: Start) -> String {
    match start {
        Start::RayStart | Start::Slurm => {
            format!("{key}={value} in the environment of ray start")
        }
        Start::RayInit | Start::RayInitInContainer => {
            format!("{key}={value} in the environment of the driver, before ray.init()")
        }
        Start::Container => format!("docker run -e {key}={value}"),
        Start::Kubernetes => format!(
            "env: [{{name: {key}, value: \"{value}\"}}] in the pod template of the RayCluster"
        ),
    }
}

/// What is known about the start of a raylet.
#[derive(Debug, Clone, Copy)]
pub struct Traces<'a> {
    /// The `RAY_*` variables of its environment.
    pub settings: &'a [(String, String)],
    /// Its cgroup.
    pub cgroup: Option<&'a str>,
    /// Whether it runs in a container.
    pub contained: bool,
    /// Whether its parent is a driver.
    pub by_driver: bool,
}

impl Traces<'_> {
    /// Returns who started it.
    pub fn start(&self) -> Start {
        let kuberay = |(key, _): &(String, String)| {
            key == "RAY_USAGE_STATS_KUBERAY_IN_USE" || key == "RAY_CLOUD_INSTANCE_ID"
        };
        let by_cgroup = self.cgroup.and_then(Start::of_cgroup);
        if by_cgroup == Some(Start::Kubernetes) || self.settings.iter().any(kuberay) {
            Start::Kubernetes
        } else if self.by_driver && self.contained {
            Start::RayInitInContainer
        } else if self.by_driver {
            Start::RayInit
        } else if self.contained {
            Start::Container
        } else if by_cgroup == Some(Start::Slurm) {
            Start::Slurm
        } else {
            Start::RayStart
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_is_worded_for_the_kind_of_start() {
        let threshold = Change::environment("RAY_memory_usage_threshold", "0.8");
        assert!(
            threshold
                .at(Start::RayStart)
                .ends_with("environment of ray start")
        );
        assert!(threshold.at(Start::RayInit).contains("before ray.init()"));
        assert!(threshold.at(Start::Container).starts_with("docker run -e "));
        assert!(
            threshold
                .at(Start::Kubernetes)
                .contains("name: RAY_memory_usage_threshold")
        );
        let store = Change::flag("object-store-memory", "30");
        assert_eq!(
            store.at(Start::RayStart),
            "ray start --object-store-memory=30"
        );
        assert_eq!(store.at(Start::RayInit), "ray.init(object_store_memory=30)");
        assert!(store.at(Start::Kubernetes).starts_with("rayStartParams"));
    }

    #[test]
    fn traces_show_the_kind_of_start() {
        let settings = [("RAY_USAGE_STATS_KUBERAY_IN_USE".to_owned(), "1".to_owned())];
        let none = Traces {
            settings: &[],
            cgroup: None,
            contained: false,
            by_driver: false,
        };
        assert_eq!(none.start(), Start::RayStart);
        assert_eq!(
            Traces {
                by_driver: true,
                ..none
            }
            .start(),
            Start::RayInit
        );
        assert_eq!(
            Traces {
                contained: true,
                ..none
            }
            .start(),
            Start::Container
        );
        let kuberay = Traces {
            settings: &settings,
            contained: true,
            ..none
        };
        assert_eq!(kuberay.start(), Start::Kubernetes);
        let pod = Traces {
            cgroup: Some("/kubepods/besteffort/pod1/abc"),
            ..none
        };
        assert_eq!(pod.start(), Start::Kubernetes);
        let slurm = Traces {
            cgroup: Some("/slurm/uid_1000/job_7/step_0"),
            ..none
        };
        assert_eq!(slurm.start(), Start::Slurm);
        let contained = Traces {
            by_driver: true,
            contained: true,
            ..none
        };
        assert_eq!(contained.start(), Start::RayInitInContainer);
    }

    fn limit(cgroup: &str, start: Start) -> String {
        let more = Change::MemoryLimit {
            size: "96G".into(),
            cgroup: cgroup.into(),
            version: None,
            host: Some("n0".into()),
        };
        more.at(start)
    }

    /// Each says on which machine it is typed, by whom, and whether it lasts.
    #[test]
    fn limit_is_changed_where_it_is_set() {
        assert_eq!(limit("/slurm/job_7", Start::Slurm), "sbatch --mem=96G");
        assert_eq!(
            limit("/job", Start::RayStart),
            "as root on n0, write 96G to /sys/fs/cgroup/job/memory.max (cgroup v1: /sys/fs/cgroup/memory/job/memory.limit_in_bytes); where a script makes this cgroup, set the limit there"
        );
        assert_eq!(
            limit("/system.slice/ray.service", Start::RayStart),
            "as root on n0, systemctl set-property ray.service MemoryMax=96G"
        );
        let users = "/user.slice/user-7.slice/user@7.service/app.slice/run-1.scope";
        assert_eq!(
            limit(users, Start::RayInit),
            "as its user, systemctl --user set-property run-1.scope MemoryMax=96G, until it ends"
        );
        // Root's manager runs the user's one itself.
        let manager = limit("/user.slice/user-7.slice/user@7.service", Start::RayStart);
        assert!(manager.starts_with("as root on n0, "), "{manager}");
    }

    #[test]
    fn limit_file_is_that_of_the_machines_version() {
        let file = |version| limit_file("/job", version);
        assert_eq!(
            file(Some(1)),
            "/sys/fs/cgroup/memory/job/memory.limit_in_bytes"
        );
        assert_eq!(file(Some(2)), "/sys/fs/cgroup/job/memory.max");
        assert_eq!(
            file(None),
            format!("{} (cgroup v1: {})", file(Some(2)), file(Some(1)))
        );
    }

    /// No container may remount its own /dev/shm.
    #[test]
    fn shared_memory_is_changed_where_it_is_made() {
        let shared = Change::SharedMemory {
            size: "512M".into(),
            host: None,
        };
        for start in [Start::Container, Start::RayInitInContainer] {
            assert_eq!(shared.at(start), "docker run --shm-size=512M");
        }
        let pod = shared.at(Start::Kubernetes);
        assert!(
            pod.contains("sizeLimit: 512Mi") && !pod.contains("mount "),
            "{pod}"
        );
        assert_eq!(
            shared.at(Start::RayInit),
            "as root on its node, mount -o remount,size=512M /dev/shm (until its next boot); in a container, docker run --shm-size=512M; in a pod, an emptyDir of medium Memory on /dev/shm"
        );
    }
}
