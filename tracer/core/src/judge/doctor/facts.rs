//! Defines what `doctor` looks at: facts of the machine and of each raylet.
//!
//! `command::doctor` gathers them.

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
    /// The raylets. If none runs, one entry stands for a Ray started from here.
    pub nodes: Vec<Node>,
    /// The GPUs, or the reason why none can be seen.
    pub gpus: Result<Vec<Gpu>, String>,
    /// Folders of sessions that have ended.
    pub old_sessions: Vec<OldSessions>,
}

/// A folder and its file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Its path.
    pub path: String,
    /// Bytes that an unprivileged user can still write.
    pub free: Bytes,
    /// Size of the file system.
    pub total: Bytes,
}

/// A raylet with everything that bears on its memory.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The raylet; `None` if none runs.
    pub cluster: Option<Cluster>,
    /// `RAY_*` of the raylet's environment, or of this shell's.
    pub settings: Vec<(String, String)>,
    /// Whether that environment cannot be read, because the raylet belongs to another user.
    pub hidden: bool,
    /// Those of `settings` that this version of Ray never reads; `None` if that could not be looked
    /// up.
    pub unread: Option<Vec<String>>,
    /// What its log says about its monitor.
    pub monitor: Option<Monitor>,
    /// Whether its monitor watches only the user cgroup (`--enable-resource-isolation`).
    pub isolated: bool,
    /// The cgroup at `/sys/fs/cgroup`, as its mounts show it.
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
    /// Drivers that are running, with the `RAY_*` of their environments.
    pub drivers: Vec<Driver>,
}

impl Node {
    /// Returns how it was started. If none runs, `ray start` is assumed.
    pub fn started(&self) -> Start {
        if self.cluster.is_none() {
            return Start::RayStart;
        }
        let traces = Traces {
            settings: &self.settings,
            cgroup: self.levels.first().map(|level| level.path.as_str()),
            contained: self.in_container(),
            by_driver: false,
        };
        traces.start()
    }

    /// Whether its container shows in the path of its cgroup.
    pub fn in_container(&self) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_some_and(|cluster| cluster.container_id.is_some())
    }

    /// Returns the raylet's pid.
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
    /// The processes that hold memory of it.
    pub processes: Vec<GpuProcess>,
}

/// A process that holds memory of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its pid.
    pub pid: Pid,
    /// Its memory on that GPU; `None` if the driver does not tell.
    pub used: Option<Bytes>,
    /// Its name; `None` if the process cannot be seen from here (another pid namespace).
    pub comm: Option<String>,
    /// Its title or program.
    pub title: String,
    /// Its parent.
    pub parent: Option<Pid>,
    /// Its user, by name if that is known.
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
