//! The report: the one object that `judge` makes and every view in `show` prints; its JSON form is the public
//! contract (schema 1). Fields may be added, never renamed; what was not observed is `null`.

use serde::{Serialize, Serializer};

use crate::{
    event::{Mode, Probe, Role},
    ids::{BootTime, Bytes, EventId, HexId, Pid, WallTime},
};

/// Everything that is known about one recording (or several, or some log files).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of this contract.
    pub schema: u32,
    /// raytrace's version.
    pub raytrace: String,
    /// The recordings; empty for `explain`.
    pub recordings: Vec<Recording>,
    /// Clusters seen.
    pub clusters: Vec<ClusterReport>,
    /// Jobs seen and how each ended.
    pub jobs: Vec<Job>,
    /// Every death, in the order of the acts that caused them.
    pub deaths: Vec<Death>,
    /// Memory by actor class or task.
    pub owners: Vec<Owner>,
    /// Settings that bear on memory, with where each was found.
    pub settings: Vec<Setting>,
    /// Causes and remedies.
    pub findings: Vec<Finding>,
    /// Highest use of the node's memory that was sampled.
    pub peak: Option<Peak>,
    /// What the text said besides deaths (`explain`): one line each.
    pub notes: Vec<String>,
    /// The texts that were read; empty for recordings.
    pub texts: Vec<TextSource>,
}

/// A text that `explain` read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextSource {
    /// Its name as given, or inside the archive.
    pub name: String,
    /// Its lines.
    pub lines: u64,
    /// Seconds east of UTC of its local times, where that is known.
    pub utc_offset_s: Option<i32>,
    /// How the zone was found, or which times it has instead.
    pub clock: String,
}

/// One recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recording {
    /// Number in this report.
    pub id: u32,
    /// The machine.
    pub host: Host,
    /// How it observed.
    pub mode: Mode,
    /// When it began.
    pub started: Utc,
    /// When it ended, or the last event's time where it did not end cleanly.
    pub ended: Utc,
    /// Whether it ended as asked.
    pub clean_end: bool,
    /// The probes and their state.
    pub probes: Vec<Probe>,
    /// Events known to be lost.
    pub lost_events: u64,
    /// The loss ledger by hook.
    pub ledgers: Vec<crate::event::Ledger>,
    /// Normal exits (not listed in text unless asked).
    pub normal_exits: u64,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Host {
    /// Node name.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Boot id.
    pub boot_id: String,
    /// `MemTotal`.
    pub memory_bytes: Bytes,
}

/// A cluster's part on this machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterReport {
    /// Number in this report.
    pub id: u32,
    /// The recording it stands in.
    pub recording_id: u32,
    /// Session name.
    pub session: Option<String>,
    /// Ray's version.
    pub ray_version: Option<String>,
    /// Node id.
    pub node_id: Option<HexId>,
    /// Pid of the raylet.
    pub raylet_pid: Pid,
    /// Its container.
    pub container_id: Option<String>,
    /// The memory monitor, as the raylet's log announced it.
    pub monitor: Option<Monitor>,
    /// Size of the object store.
    pub object_store_bytes: Option<Bytes>,
    /// Seconds east of UTC of the times in its logs.
    pub log_utc_offset_s: Option<i32>,
}

/// Ray's memory monitor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Monitor {
    /// Whether it runs.
    pub enabled: bool,
    /// It kills above this.
    pub threshold_bytes: Option<Bytes>,
    /// What it takes for all memory.
    pub total_bytes: Option<Bytes>,
    /// Its interval.
    pub refresh_ms: Option<u64>,
}

/// A job and its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// The cluster's number.
    pub cluster: Option<u32>,
    /// Job id.
    pub job_id: HexId,
    /// The driver's command line.
    pub entrypoint: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// When.
    pub ended: Option<Utc>,
    /// The death that ended it, where one did.
    pub ended_by_death_id: Option<EventId>,
    /// The driver's pid.
    pub driver_pid: Option<Pid>,
    /// First causes that hit the job and did not end it, and why not (`its task was retried`).
    pub survived: Vec<Survived>,
    /// Why the outcome is what it is, or what is missing to know.
    pub because: String,
}

/// A death that a job survived.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Survived {
    /// The death.
    pub death_id: EventId,
    /// `task retried`, `actor restarted`, …
    pub how: String,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The driver exited with 0.
    Succeeded,
    /// The driver exited with another code, or was killed.
    Failed,
    /// The driver was told to stop (`ray job stop`, Ctrl-C).
    Stopped,
    /// The recording ended first.
    Running,
    /// The driver's end was not seen.
    Unknown,
}

/// One death.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Death {
    /// The row of the exit event.
    pub id: EventId,
    /// The recording's number; `None` in `explain`.
    pub recording_id: Option<u32>,
    /// The cluster's number.
    pub cluster: Option<u32>,
    /// When: of the act that killed it where that is known, else of the exit.
    pub time: Option<Utc>,
    /// The act's boot time, for order; not part of the contract.
    #[serde(skip)]
    pub act_time: BootTime,
    /// When the kernel reported the exit.
    pub exit_time: Option<Utc>,
    /// The time as the text prints it, where its zone is not known (`explain`).
    pub stamp: Option<String>,
    /// Pid in the initial namespace (in `explain`: as the text has it; 0, in JSON null, where it has none).
    #[serde(serialize_with = "known_pid")]
    pub pid: Pid,
    /// Pid in its own namespace.
    pub ns_pid: Option<Pid>,
    /// When it started.
    pub start_time: Option<Utc>,
    /// Its name at the end.
    pub comm: String,
    /// What it was to Ray.
    pub role: Role,
    /// Its title at the end.
    pub title: Option<String>,
    /// Its parent.
    pub ppid: Option<Pid>,
    /// Its container.
    pub container_id: Option<String>,
    /// Worker id.
    pub worker_id: Option<HexId>,
    /// Actor id.
    pub actor_id: Option<HexId>,
    /// Actor class.
    pub actor_class: Option<String>,
    /// What it was running, by its title at death.
    pub task_name: Option<String>,
    /// Job id.
    pub job_id: Option<HexId>,
    /// Attempt number of the task, where a log has it.
    pub attempt: Option<u32>,
    /// Exit code, when it exited by itself.
    pub exit_code: Option<i32>,
    /// Signal, when one ended it.
    pub signal: Option<i32>,
    /// Who ended it.
    pub verdict: Verdict,
    /// Who sent the signal.
    pub sender: Option<SenderReport>,
    /// Its memory at death.
    pub memory: MemoryReport,
    /// Its GPU memory.
    pub gpu: Vec<GpuUse>,
    /// The OOM kill's context.
    pub oom: Option<OomReport>,
    /// The node at that moment.
    pub at_death: Option<AtDeath>,
    /// The biggest processes at that moment.
    pub top: Vec<TopProcess>,
    /// The Python stack at death.
    pub stack_at_death: Option<String>,
    /// Whether it is one that people ask about (text lists these only).
    pub listed: bool,
    /// What Ray did next: `task retried …`, `actor restarted …`.
    pub then: Option<String>,
}

/// No process that dies has pid 0: it stands for one that a text does not name.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields by reference"
)]
fn known_pid<S: Serializer>(pid: &Pid, serializer: S) -> Result<S::Ok, S::Error> {
    Some(*pid).filter(|pid| pid.0 != 0).serialize(serializer)
}

/// Who ended a process, and how sure that is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Who.
    pub killer: Killer,
    /// How sure.
    pub certainty: Certainty,
    /// One sentence.
    pub summary: String,
    /// Its predicate alone, `was killed by …`, for views that shorten the name before it; not part of the contract.
    #[serde(skip)]
    pub clause: String,
    /// False while evidence may still come (live only).
    pub settled: bool,
    /// What it rests on, in order of time.
    pub evidence: Vec<Evidence>,
    /// The death that caused this one.
    pub cause_death_id: Option<EventId>,
    /// A cause on another machine, in words.
    pub cause_remote: Option<String>,
    /// What would settle an `unknown`.
    pub missing: Option<String>,
}

/// Who ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Killer {
    /// The kernel, at a cgroup's limit.
    KernelOomMemcg,
    /// The kernel, the machine was out of memory.
    KernelOomGlobal,
    /// The raylet, on purpose, for memory.
    RayMemoryMonitor,
    /// Ray, on purpose, not for memory.
    RayIntended,
    /// Its raylet, owner, driver or parent died first.
    RayCollapse,
    /// The kernel, not for memory.
    KernelOther,
    /// Any other sender.
    Signal,
    /// Itself, by a fault.
    Crash,
    /// Itself, by exit code.
    Exit,
    /// Not provable from what was seen.
    Unknown,
}

impl Killer {
    /// The name in JSON and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KernelOomMemcg => "kernel-oom-memcg",
            Self::KernelOomGlobal => "kernel-oom-global",
            Self::RayMemoryMonitor => "ray-memory-monitor",
            Self::RayIntended => "ray-intended",
            Self::RayCollapse => "ray-collapse",
            Self::KernelOther => "kernel-other",
            Self::Signal => "signal",
            Self::Crash => "crash",
            Self::Exit => "exit",
            Self::Unknown => "unknown",
        }
    }

    /// Every killer, in the order of the verdict table.
    pub const ALL: [Self; 10] = [
        Self::KernelOomMemcg,
        Self::KernelOomGlobal,
        Self::RayMemoryMonitor,
        Self::RayIntended,
        Self::RayCollapse,
        Self::KernelOther,
        Self::Signal,
        Self::Crash,
        Self::Exit,
        Self::Unknown,
    ];
}

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The act was observed.
    Proven,
    /// From text or order alone.
    Inferred,
    /// Neither.
    Unknown,
}

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// When.
    pub time: Option<Utc>,
    /// `kernel`, `kmsg`, a log file's name, …
    pub source: String,
    /// What.
    pub what: String,
}

/// The sender of the signal that killed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SenderReport {
    /// Its pid.
    pub pid: Pid,
    /// Its name.
    pub comm: String,
    /// Its executable.
    pub exe: Option<String>,
    /// Its user.
    pub uid: Option<u32>,
    /// Its container.
    pub container_id: Option<String>,
    /// What it is to the victim.
    pub relation: Relation,
    /// How it did it.
    pub mechanism: Mechanism,
    /// Its ancestors, nearest first.
    pub ancestors: Vec<crate::event::Ancestor>,
}

/// What a sender is to its victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Its parent.
    Parent,
    /// A process of the same job (a worker, the driver, their children).
    SameJob,
    /// A part of Ray.
    Ray,
    /// runc, containerd-shim, dockerd, kubelet, …
    ContainerRuntime,
    /// systemd-oomd, earlyoom, …
    OomDaemon,
    /// Any other.
    Other,
}

/// How a signal came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// `kill(2)`.
    Kill,
    /// `tgkill(2)`, `tkill(2)`.
    Tgkill,
    /// `sigqueue(3)`.
    Sigqueue,
    /// `cgroup.kill`.
    CgroupKill,
    /// `prctl(PR_SET_PDEATHSIG)`.
    ParentDeath,
    /// The init of its pid namespace ended.
    PidNamespaceExit,
    /// Its tracer ended (`PTRACE_O_EXITKILL`).
    TracerExit,
    /// `RLIMIT_CPU`.
    RlimitCpu,
    /// `alarm(2)` and other timers.
    Timer,
    /// A terminal: Ctrl-C, hang-up.
    Tty,
    /// A fault of its own.
    Fault,
    /// A hardware memory error.
    Hwpoison,
    /// The OOM killer.
    Oom,
    /// Not known.
    Unknown,
}

/// A process's memory at death.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MemoryReport {
    /// Anonymous.
    pub anon_bytes: Option<Bytes>,
    /// File.
    pub file_bytes: Option<Bytes>,
    /// Shared.
    pub shmem_bytes: Option<Bytes>,
    /// Swapped.
    pub swap_bytes: Option<Bytes>,
    /// Highest resident.
    pub peak_bytes: Option<Bytes>,
    /// Age of the figures at death in ms, when they come from a sample before it.
    pub age_ms: Option<u64>,
}

impl MemoryReport {
    /// Resident memory, if any part is known.
    #[must_use]
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
pub struct GpuUse {
    /// Device index.
    pub device: u32,
    /// Its use.
    pub used_bytes: Bytes,
    /// The device's memory.
    pub total_bytes: Bytes,
}

/// An OOM kill's context.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OomReport {
    /// `memcg`, `none` (global), `cpuset`, `mempolicy`; `None` when not known.
    pub constraint: Option<String>,
    /// The cgroup at its limit.
    pub cgroup: Option<String>,
    /// Its limit.
    pub limit_bytes: Option<Bytes>,
    /// Its use at the kill.
    pub usage_bytes: Option<Bytes>,
    /// The victim's own cgroup.
    pub task_cgroup: Option<String>,
    /// What was being charged: `anonymous`, `shared memory`, `page cache`, `kernel`; `None` when not known.
    pub charging: Option<String>,
    /// Who asked for memory: not guilt.
    pub invoker_pid: Option<Pid>,
    /// Its name.
    pub invoker_comm: Option<String>,
    /// The victim's `oom_score_adj`.
    pub score_adj: Option<i32>,
}

/// The node at a death.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AtDeath {
    /// What Ray's monitor counted.
    pub ray_used_bytes: Option<Bytes>,
    /// Its threshold.
    pub ray_threshold_bytes: Option<Bytes>,
    /// Limits on the path.
    pub limits: Vec<Limit>,
    /// In the object store.
    pub object_store_bytes: Option<Bytes>,
}

/// A cgroup limit and its use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// The cgroup.
    pub cgroup: String,
    /// Its use.
    pub usage_bytes: Bytes,
    /// Its limit.
    pub limit_bytes: Option<Bytes>,
}

/// One of the biggest processes at a death.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopProcess {
    /// Its pid.
    pub pid: Pid,
    /// Its title.
    pub title: String,
    /// Its private memory.
    pub private_bytes: Bytes,
    /// Whether it is the victim.
    pub victim: bool,
    /// Age of the figure in ms.
    pub age_ms: Option<u64>,
}

/// Memory of an actor class or task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Owner {
    /// Class or task name.
    pub class: String,
    /// Processes at the peak.
    pub processes: u32,
    /// Peak of their private memory.
    pub private_peak_bytes: Option<Bytes>,
    /// Growth per call.
    pub per_call_bytes: Option<Bytes>,
}

/// A setting that bears on memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Where it was found.
    pub source: String,
    /// Whether it is in force.
    pub effective: bool,
}

/// A cause and its remedy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The rule.
    pub rule: String,
    /// How sure.
    pub certainty: Certainty,
    /// One sentence.
    pub summary: String,
    /// The figures.
    pub evidence: Vec<String>,
    /// What to change.
    pub remedy: Vec<String>,
    /// What that costs.
    pub cost: Option<String>,
    /// The deaths it explains.
    pub deaths: Vec<EventId>,
}

/// The node's highest use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Peak {
    /// When.
    pub time: Utc,
    /// `MemTotal` − `MemAvailable`.
    pub used_bytes: Bytes,
    /// `MemTotal`.
    pub total_bytes: Bytes,
}

/// A wall-clock time, printed in UTC with microseconds: `2026-11-20T23:58:59.123456Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc(pub WallTime);

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.6}", self.0.timestamp()))
    }
}
