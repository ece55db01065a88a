//! What `doctor` looks at: facts of the machine and of each raylet, gathered by `command::doctor`.

use crate::{
    event::{CgroupState, Cluster, Mode, NodeMemory, Probe},
    ids::{Bytes, Pid},
    judge::report::Monitor,
    ray::{
        memory_monitor::RootCgroup,
        start::{Start, Traces},
    },
};

/// The machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Node name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Its memory.
    pub memory: NodeMemory,
    /// `SwapTotal`.
    pub swap_total: Bytes,
    /// `vm.overcommit_memory`.
    pub overcommit: Option<u8>,
    /// How `record` would observe here.
    pub mode: Option<Mode>,
    /// The probes, attached and detached again.
    pub probes: Vec<Probe>,
    /// What to type for full detail in this place.
    pub advice: String,
    /// Where `record` would write.
    pub output: Folder,
    /// The raylets; where none runs, one that stands for a Ray started from here.
    pub nodes: Vec<Node>,
    /// The GPUs, or why there are none to be seen.
    pub gpus: Result<Vec<Gpu>, String>,
    /// Folders of sessions that have ended.
    pub old_sessions: Vec<OldSessions>,
}

/// A folder and the file system below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Its path.
    pub path: String,
    /// Bytes for an unprivileged user.
    pub free: Bytes,
    /// All bytes.
    pub total: Bytes,
}

/// A raylet with what bears on its memory.
#[derive(Debug, Clone)]
pub struct Node {
    /// The raylet; `None` where none runs.
    pub cluster: Option<Cluster>,
    /// `RAY_*` of the raylet's environment, or of this shell's.
    pub settings: Vec<(String, String)>,
    /// Whether that environment may not be read: the raylet is another user's.
    pub hidden: bool,
    /// Of these, those that its Ray reads nowhere; `None` where that could not be looked up.
    pub unread: Option<Vec<String>>,
    /// What its log says about its monitor.
    pub monitor: Option<Monitor>,
    /// Whether it watches its user cgroup only (`--enable-resource-isolation`).
    pub isolated: bool,
    /// The cgroup at `/sys/fs/cgroup` in its mounts.
    pub root: Option<RootCgroup>,
    /// The cgroups on its path, its own first.
    pub levels: Vec<CgroupState>,
    /// `/dev/shm` as it sees it.
    pub shm: Option<Folder>,
    /// `--plasma_directory`.
    pub plasma_directory: Option<String>,
    /// Pages of the object store that were ever touched.
    pub plasma_used: Option<Bytes>,
    /// `GPU` of its resources.
    pub gpus: Option<f64>,
    /// `CUDA_VISIBLE_DEVICES` of its environment.
    pub visible_devices: Option<String>,
    /// The file system of its session folder.
    pub session_disk: Option<Folder>,
    /// Drivers that run, with the `RAY_*` of their environment.
    pub drivers: Vec<Driver>,
}

impl Node {
    /// How it was started; where none runs, by `ray start`.
    #[must_use]
    pub fn started(&self) -> Start {
        let Some(cluster) = &self.cluster else {
            return Start::RayStart;
        };
        let traces = Traces {
            settings: &self.settings,
            cgroup: self.levels.first().map(|level| level.path.as_str()),
            contained: cluster.container_id.is_some(),
            by_driver: false,
        };
        traces.start()
    }

    /// The raylet's pid.
    #[must_use]
    pub fn pid(&self) -> Option<Pid> {
        self.cluster.as_ref().map(|cluster| cluster.raylet.pid)
    }
}

/// A driver.
#[derive(Debug, Clone)]
pub struct Driver {
    /// Its pid.
    pub pid: Pid,
    /// `RAY_*` of its environment.
    pub settings: Vec<(String, String)>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its index.
    pub index: u32,
    /// Who computes on it.
    pub processes: Vec<GpuProcess>,
}

/// A process that holds memory of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its pid.
    pub pid: Pid,
    /// Memory of that GPU; `None` where the driver does not tell.
    pub used: Option<Bytes>,
    /// Its name; `None` where it is not to be seen here (another pid namespace).
    pub comm: Option<String>,
    /// Its title or program.
    pub title: String,
    /// Its parent.
    pub parent: Option<Pid>,
    /// Its user, by name where that is known.
    pub user: Option<String>,
    /// Seconds since it started.
    pub age_s: Option<u64>,
}

/// Ended sessions in one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldSessions {
    /// `--temp-dir`.
    pub folder: String,
    /// How many.
    pub sessions: u32,
    /// Their size.
    pub bytes: Bytes,
}
