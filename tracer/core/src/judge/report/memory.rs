//! Defines memory in a report: of a death, of owners, of GPUs, of the machine.

use serde::{Serialize, Serializer};

use super::{GcsOwner, Utc};
use crate::{
    cgroup_path::is_within,
    event::Role,
    ids::{Bytes, Pid},
    judge::cause::Scope,
    ray::identify,
};

/// The machine's memory in use, `MemTotal` − `MemFree`, as a sum that counts each byte once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InUse {
    /// The time.
    pub time: Utc,
    /// The sum.
    pub used_bytes: Bytes,
    /// Private memory of the tracked processes.
    pub private_bytes: Bytes,
    /// Private memory of all other processes. Near a limit they are counted one by one. Otherwise
    /// it is what the kernel counts beyond that of the tracked processes.
    pub others_private_bytes: Bytes,
    /// Whether the others were counted one by one. If not, their figure includes the error of the
    /// tracked processes' figures.
    pub others_counted: bool,
    /// Shared memory: the object store, `/dev/shm`, memfds.
    pub shared_bytes: Bytes,
    /// The biggest files in shared memory; none if they were not looked for.
    pub shared_files: Vec<SharedFileUse>,
    /// Shared memory that these files do not explain.
    pub shared_remainder_bytes: i64,
    /// Page cache.
    pub cache_bytes: Bytes,
    /// The kernel's own memory, and huge pages that are set aside.
    pub kernel_bytes: Bytes,
    /// The rest, which belongs to none of these parts. It is negative if the figures are of
    /// different moments.
    pub remainder_bytes: i64,
    /// The greatest error of the remainder: each process's figure by 1 MiB or 1 % since its last
    /// sample, the kernel's by 1 %.
    pub error_bytes: Bytes,
}

/// The machine's shared memory by file. A file counts once, however many processes have mapped it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedUse {
    /// The time.
    pub time: Utc,
    /// All of it, by the kernel's count.
    pub shared_bytes: Bytes,
    /// The biggest files.
    pub files: Vec<SharedFileUse>,
    /// What these files do not explain: smaller ones, and those of processes that are not tracked.
    pub remainder_bytes: i64,
    /// CPU time spent to find the files, in the whole recording.
    pub looked_ms: u64,
}

/// A file that is shared memory, mapped by many or by nobody. Files that one process has in one
/// folder, or that none has, are one entry, with the name of the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedFileUse {
    /// Its path as its process sees it, or `memfd:NAME`.
    pub name: String,
    /// What it is.
    pub kind: SharedKind,
    /// Its pages, or those of all files of the entry.
    pub bytes: Bytes,
    /// How many files the entry stands for.
    pub files: u32,
    /// The process that has it: a raylet, else one that has it open, else the oldest. If none has
    /// it, the last that had. `None` if no tracked process was seen to have it.
    pub holder_pid: Option<Pid>,
    /// Class, task or program of that process then.
    pub holder: Option<String>,
    /// How many processes have it.
    pub holders: u32,
}

/// What a file of shared memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SharedKind {
    /// A raylet's object store.
    ObjectStore,
    /// Made by `memfd_create`.
    Memfd,
    /// In `/dev/shm` or another tmpfs.
    File,
    /// Shared by parent and child, or System V shared memory.
    Mapping,
}

/// A process's memory at death.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryReport {
    /// Anonymous memory.
    pub anon_bytes: Option<Bytes>,
    /// The part of that which counts as its own, if it shares pages with relatives after a fork;
    /// `None` if all of it is its own. Recordings of earlier versions do not say it: there it is
    /// what a forked child has more than its parent had at the fork.
    pub own_bytes: Option<Bytes>,
    /// Memory of mapped files.
    pub file_bytes: Option<Bytes>,
    /// Shared memory.
    pub shmem_bytes: Option<Bytes>,
    /// Memory in swap.
    pub swap_bytes: Option<Bytes>,
    /// Highest resident memory.
    pub peak_bytes: Option<Bytes>,
    /// Age of the figures at death in ms, when they come from a sample before it.
    pub age_ms: Option<u64>,
}

impl MemoryReport {
    /// Returns the private memory: the anonymous pages that are its own.
    pub fn private(&self) -> Option<Bytes> {
        self.own_bytes.or(self.anon_bytes)
    }

    /// Returns what it shares with its parent, if it is a forked child with little of its own.
    pub fn shared_by_fork(&self) -> Option<Bytes> {
        let (own, anon) = self.own_bytes.zip(self.anon_bytes)?;
        (own.0 + (own.0 >> 6) + (1 << 20) < anon.0).then(|| Bytes(anon.0 - own.0))
    }

    /// Returns the resident memory, if any part is known.
    pub fn resident(&self) -> Option<Bytes> {
        let parts = [self.anon_bytes, self.file_bytes, self.shmem_bytes];
        parts
            .iter()
            .any(Option::is_some)
            .then(|| Bytes(parts.iter().flatten().map(|part| part.0).sum()))
    }
}

/// GPU memory of a process.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpuUse {
    /// Device index.
    pub device: u32,
    /// What the process uses of it.
    pub used_bytes: Bytes,
    /// The device's memory.
    pub total_bytes: Bytes,
    /// What all processes used of it.
    pub device_used_bytes: Option<Bytes>,
}

/// Above this share, an allocation on a GPU fails, because blocks are large.
const FULL_GPU: f64 = 0.95;

impl GpuUse {
    /// Returns whether the device is known to have had room for more.
    pub fn has_room(&self) -> bool {
        let used = self.device_used_bytes;
        used.is_some_and(|used| used < self.total_bytes.times(FULL_GPU))
    }
}

/// A GPU over the recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpuReport {
    /// NVML's index.
    pub device: u32,
    /// Its memory.
    pub total_bytes: Bytes,
    /// In use at the end.
    pub used_bytes: Bytes,
    /// In use at most.
    pub peak_bytes: Bytes,
    /// When that was.
    pub peak_time: Option<Utc>,
    /// Uncorrected ECC errors since the driver was loaded.
    pub uncorrected_errors: Option<u64>,
}

/// Errors of one code on one GPU by the work of one process, as NVIDIA's driver reported them in
/// the kernel log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpuError {
    /// PCI address of the GPU: `0000:65:00`.
    pub gpu: String,
    /// NVIDIA's code, the Xid.
    pub code: u32,
    /// NVIDIA's words for it, if they are known.
    pub meaning: Option<&'static str>,
    /// The process that did the work (pid in the initial pid namespace), if the driver says so.
    pub pid: Option<Pid>,
    /// Its name, as the driver gives it.
    pub comm: Option<String>,
    /// How many such lines there were. The recorder reports equal ones once a second.
    pub count: u64,
    /// When the first came.
    pub first: Option<Utc>,
    /// When the last came.
    pub last: Option<Utc>,
    /// What the driver said in the first.
    pub text: String,
}

/// An OOM kill's context.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OomReport {
    /// `memcg`, `none` (global), `cpuset`, `mempolicy`, `sysrq` (asked for) in the JSON; `None`
    /// when not known.
    #[serde(serialize_with = "constraint")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub constraint: Option<Scope>,
    /// The cgroup at its limit.
    pub cgroup: Option<String>,
    /// Its limit.
    pub limit_bytes: Option<Bytes>,
    /// Its use at the kill.
    pub usage_bytes: Option<Bytes>,
    /// The victim's own cgroup.
    pub task_cgroup: Option<String>,
    /// What was being charged: `anonymous`, `shared memory`, `page cache`, `kernel`; `None` when
    /// not known.
    pub charging: Option<String>,
    /// The process that asked for memory, which need not be the cause.
    pub invoker_pid: Option<Pid>,
    /// Its name.
    pub invoker_comm: Option<String>,
    /// The victim's `oom_score_adj`.
    pub score_adj: Option<i32>,
}

/// Serializes a scope as the name of the kernel's constraint.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    clippy::ref_option,
    reason = "serde hands fields by reference"
)]
fn constraint<S: Serializer>(scope: &Option<Scope>, serializer: S) -> Result<S::Ok, S::Error> {
    scope.map(Scope::constraint).serialize(serializer)
}

impl OomReport {
    /// Returns whether a process is known to be in the cgroup at its limit.
    pub fn counts(&self, process: &TopProcess) -> bool {
        let full = self.cgroup.as_deref();
        full.is_some_and(|full| is_within(process.cgroup.as_deref(), full))
    }
}

/// The process that held the memory that a victim was killed for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Suspect {
    /// Its pid.
    pub pid: Pid,
    /// Its title or command line.
    pub title: String,
    /// Its role; `None` if that is not known.
    pub role: Option<Role>,
    /// Its private memory.
    pub private_bytes: Bytes,
    /// The victim's.
    pub victim_private_bytes: Bytes,
}

/// A cgroup limit and its use.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CgroupUse {
    /// The cgroup.
    pub cgroup: String,
    /// Its use.
    pub usage_bytes: Bytes,
    /// Its limit.
    pub limit_bytes: Option<Bytes>,
}

/// One of the biggest processes at a death.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopProcess {
    /// Its pid.
    pub pid: Pid,
    /// Its title.
    pub title: String,
    /// Its role; `None` if that is not known.
    pub role: Option<Role>,
    /// Its private memory.
    pub private_bytes: Bytes,
    /// Whether it is the victim.
    pub victim: bool,
    /// Path of its memory cgroup.
    pub cgroup: Option<String>,
    /// Age of the figure in ms.
    pub age_ms: Option<u64>,
}

/// What the list of the biggest processes leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopRest {
    /// How many processes.
    pub processes: u32,
    /// Their private memory together.
    pub private_bytes: Bytes,
    /// Of these, the workers of the classes that are in the list.
    pub classes: Vec<RestOfClass>,
}

/// What processes outside the cgroup at its limit held. None of it counts against that limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutsideCgroup {
    /// How many processes.
    pub processes: u32,
    /// Their private memory together.
    pub private_bytes: Bytes,
}

/// The smaller processes of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestOfClass {
    /// The actor class, else the task.
    pub class: String,
    /// How many processes.
    pub processes: u32,
    /// Their private memory together.
    pub private_bytes: Bytes,
}

impl TopRest {
    /// Sums up processes by what each held, and by whether it is of a listed class; `None` if there
    /// are none.
    pub(crate) fn of<F: Fn(&str) -> bool>(
        rest: impl Iterator<Item = (Bytes, F)>,
        listed: &[TopProcess],
    ) -> Option<Self> {
        // A subprocess with its worker's title is not of that class.
        let workers = listed
            .iter()
            .filter(|one| one.role != Some(Role::Descendant));
        let mut listed: Vec<String> = workers
            .filter_map(|one| class_of_title(&one.title))
            .collect();
        listed.dedup();
        let mut all = Self::default();
        for (bytes, is_of) in rest {
            all.processes += 1;
            all.private_bytes.0 += bytes.0;
            if let Some(class) = listed.iter().find(|class| is_of(class)) {
                all.add(class, bytes);
            }
        }
        (all.processes > 0).then_some(all)
    }

    /// Returns the rest without a process that is listed now; `None` if that was all.
    pub(crate) fn without(mut self, one: &TopProcess) -> Option<Self> {
        let less = |from: Bytes| Bytes(from.0.saturating_sub(one.private_bytes.0));
        self.processes = self.processes.saturating_sub(1);
        self.private_bytes = less(self.private_bytes);
        let class = class_of_title(&one.title);
        for of in &mut self.classes {
            if Some(&of.class) == class.as_ref() {
                of.processes = of.processes.saturating_sub(1);
                of.private_bytes = less(of.private_bytes);
            }
        }
        self.classes.retain(|of| of.processes > 0);
        (self.processes > 0).then_some(self)
    }

    fn add(&mut self, class: &str, bytes: Bytes) {
        let at = self.classes.iter().position(|one| one.class == class);
        let at = at.unwrap_or_else(|| {
            self.classes.push(RestOfClass {
                class: class.to_owned(),
                ..RestOfClass::default()
            });
            self.classes.len() - 1
        });
        self.classes[at].processes += 1;
        self.classes[at].private_bytes.0 += bytes.0;
    }
}

/// Returns the actor class in a worker's title, else its task.
pub(crate) fn class_of_title(title: &str) -> Option<String> {
    identify::title(title)?.class()
}

/// Memory of an actor class, a task, a driver or a part of Ray.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Owner {
    /// The recording, in a report of several.
    pub recording_id: Option<u32>,
    /// Class, task or program.
    pub class: String,
    /// What it is.
    pub kind: OwnerKind,
    /// Processes at the peak.
    pub processes: u32,
    /// Peak of their private memory together.
    pub private_peak_bytes: Option<Bytes>,
    /// When that was.
    pub peak_time: Option<Utc>,
    /// What one process held at most.
    pub largest_bytes: Option<Bytes>,
    /// Growth per call.
    pub per_call_bytes: Option<Bytes>,
    /// Complete calls of all its processes.
    pub calls: u64,
    /// What the GCS says about an actor class, if it was asked (`record --gcs`).
    pub gcs: Option<GcsOwner>,
    /// How fast its processes grew, to compare nodes and runs; not part of the contract.
    #[serde(skip)]
    pub growth_rate: GrowthRate,
}

/// How fast the processes of an owner grew. Each figure is of the process where it is the highest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrowthRate {
    /// Growth per call, by what its workers run.
    pub calls: Vec<CallRate>,
    /// Growth per hour.
    pub hours: Option<HourRate>,
}

/// Growth per call of a method or task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRate {
    /// `WorkerDict.update_actor`.
    pub task: String,
    /// Calls of the worker that made the most.
    pub calls: u32,
    /// What each call kept; 0 if calls were seen and kept nothing steadily.
    pub per_call: Bytes,
}

/// Growth per hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HourRate {
    /// How long it was seen.
    pub seconds: u64,
    /// What each hour kept; 0 if it was seen for long enough and kept nothing steadily.
    pub per_hour: Bytes,
}

/// The kind of an owner of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OwnerKind {
    /// An actor class.
    Actor,
    /// A task.
    Task,
    /// Workers that have run nothing yet.
    Idle,
    /// Drivers.
    Driver,
    /// A part of Ray.
    Ray,
    /// Processes that workers and drivers started.
    Subprocess,
    /// Anything else that is tracked.
    #[default]
    Other,
}

/// The class of the growth of all subprocesses that run a program of their own.
pub const PROGRAM: &str = "subprocess";

/// Returns the name of a subprocess of a worker or driver: what it runs, marked as a subprocess.
pub fn subprocess(name: &str) -> String {
    format!("{name} (subprocess)")
}

impl Owner {
    /// Returns the class. That of a subprocess with a worker's title is marked as such.
    pub fn shown_class(&self) -> String {
        match self.kind {
            OwnerKind::Subprocess => subprocess(&self.class),
            _ => self.class.clone(),
        }
    }
}

/// The node's highest use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peak {
    /// The time.
    pub time: Utc,
    /// `MemTotal` − `MemAvailable`.
    pub used_bytes: Bytes,
    /// `MemTotal`.
    pub total_bytes: Bytes,
}

impl Peak {
    /// Returns the peak of the machine that came nearer to running out of memory.
    pub fn nearer(self, other: Self) -> Self {
        let share = |peak: &Self| peak.used_bytes.0 as f64 / peak.total_bytes.0.max(1) as f64;
        if share(&other) > share(&self) {
            other
        } else {
            self
        }
    }
}

/// A memory cgroup when it was nearest to its limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitPeak {
    /// The cgroup.
    pub cgroup: String,
    /// The time.
    pub time: Utc,
    /// What the kernel could not have reclaimed: its use without page cache.
    pub needed_bytes: Bytes,
    /// Its limit then.
    pub limit_bytes: Bytes,
    /// The numbers of the clusters with a process in it or below it.
    pub clusters: Vec<u32>,
}
