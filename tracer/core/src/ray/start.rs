//! Recognizes how a Ray node was started, and words a change of its settings.
//!
//! A change is typed differently for `ray start`, `ray.init()`, a container and `KubeRay`.

/// Who started the raylet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// `ray start` in a shell.
    #[default]
    RayStart,
    /// A driver's `ray.init()`.
    RayInit,
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
    #[must_use]
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
    /// More memory for the node: `12G`, `512M`, powers of two.
    MemoryLimit(String),
    /// A larger `/dev/shm`: `512M`, powers of two.
    SharedMemory(String),
}

impl Change {
    /// `ray start --NAME=VALUE`.
    #[must_use]
    pub fn flag(name: &str, value: &str) -> Self {
        let (name, value) = (name.to_owned(), value.to_owned());
        Self::Flag { name, value }
    }

    /// `KEY=VALUE` in the raylet's environment.
    #[must_use]
    pub fn environment(key: &str, value: &str) -> Self {
        let (key, value) = (key.to_owned(), value.to_owned());
        Self::Environment { key, value }
    }

    /// No `KEY` in the raylet's environment.
    #[must_use]
    pub fn unset(key: &str) -> Self {
        Self::Unset(key.to_owned())
    }

    /// Returns what to type for a node that was started this way.
    #[must_use]
    pub fn at(&self, start: Start) -> String {
        match self {
            Self::Flag { name, value } => flag(name, value, start),
            Self::Environment { key, value } => environment(key, value, start),
            Self::Unset(key) => match start {
                Start::Kubernetes => format!("take {key} out of the pod's env"),
                _ => format!("unset {key}"),
            },
            Self::MemoryLimit(size) => match start {
                Start::Container => format!(
                    "docker run --memory={size}, or while it runs docker update --memory={size} --memory-swap={size} CONTAINER"
                ),
                Start::Kubernetes => {
                    format!("resources.limits.memory: {size}i in the pod's container")
                }
                Start::Slurm => format!("sbatch --mem={size}"),
                // Both names are given: a recording does not say which of them exists.
                _ => {
                    format!("write {size} to its memory.max (memory.limit_in_bytes with cgroup v1)")
                }
            },
            Self::SharedMemory(size) => match start {
                Start::Container => format!("docker run --shm-size={size}"),
                Start::Kubernetes => {
                    // Kubernetes reads `m` as a thousandth, and `M` as a million.
                    let binary = if size.ends_with('M') { "i" } else { "" };
                    format!(
                        "a volume emptyDir: {{medium: Memory, sizeLimit: {size}{binary}}} on /dev/shm"
                    )
                }
                _ => format!("mount -o remount,size={size} /dev/shm, as root"),
            },
        }
    }
}

fn flag(name: &str, value: &str, start: Start) -> String {
    match start {
        // In a container it is the command of the image.
        Start::RayStart | Start::Container | Start::Slurm => format!("ray start --{name}={value}"),
        Start::RayInit => format!("ray.init({}={value})", name.replace('-', "_")),
        Start::Kubernetes => format!("rayStartParams: {{{name}: \"{value}\"}} in the RayCluster"),
    }
}

fn environment(key: &str, value: &str, start: Start) -> String {
    match start {
        Start::RayStart | Start::Slurm => {
            format!("{key}={value} in the environment of ray start")
        }
        Start::RayInit => {
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
    #[must_use]
    pub fn start(&self) -> Start {
        let kuberay = |(key, _): &(String, String)| {
            key == "RAY_USAGE_STATS_KUBERAY_IN_USE" || key == "RAY_CLOUD_INSTANCE_ID"
        };
        let by_cgroup = self.cgroup.and_then(Start::of_cgroup);
        if by_cgroup == Some(Start::Kubernetes) || self.settings.iter().any(kuberay) {
            Start::Kubernetes
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
        let shared = Change::SharedMemory("512M".into());
        assert!(shared.at(Start::Kubernetes).contains("sizeLimit: 512Mi"));
        let more = Change::MemoryLimit("96G".into());
        assert_eq!(more.at(Start::Slurm), "sbatch --mem=96G");
    }
}
