//! The report: the one object that `judge` makes and every view in `show` prints; its JSON form is the public
//! contract (schema 1). Fields may be added, never renamed; what was not observed is `null`.

mod finding;
mod gcs;
mod growth;
mod memory;
mod minute;
mod verdict;

pub use finding::{Finding, Setting};
pub use gcs::{GcsOwner, GcsReport};
pub use growth::{Growth, GrowthLine, UnreadStacks};
pub use memory::{
    GpuError, GpuReport, GpuUse, InUse, Limit, LimitPeak, MemoryReport, OomReport, Owner,
    OwnerKind, Peak, SharedFileUse, SharedKind, SharedUse, TopProcess,
};
pub use minute::{AtDeath, CallsReport, LastMinute, LimitBefore, MappedBefore, TopBefore};
pub use verdict::{Certainty, Evidence, Killer, Mechanism, Relation, SenderReport, Verdict};

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
    /// Processes that were killed and did not end while the recording went on: as deaths, with 0 as `id` and no `exit_time`.
    pub pending: Vec<Death>,
    /// Memory by actor class or task.
    pub owners: Vec<Owner>,
    /// The machine's GPUs, where NVML was there.
    pub gpus: Vec<GpuReport>,
    /// Errors of NVIDIA's GPUs (Xids), by the kernel log.
    pub gpu_errors: Vec<GpuError>,
    /// Lines of Python through which memory grew, by actor class or task.
    pub growth: Vec<Growth>,
    /// Processes whose Python stacks could not be read.
    pub unread_stacks: Vec<UnreadStacks>,
    /// Settings that bear on memory, with where each was found.
    pub settings: Vec<Setting>,
    /// Causes and remedies.
    pub findings: Vec<Finding>,
    /// Highest use of the node's memory that was sampled.
    pub peak: Option<Peak>,
    /// Memory cgroups with a limit below the machine's memory, and how near each came to it: the nearest first.
    pub limits: Vec<LimitPeak>,
    /// What was in use when most was, by its heads.
    pub in_use: Option<InUse>,
    /// Shared memory by its files, when these were largest together.
    pub shared_memory: Option<SharedUse>,
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
    /// What the GCS says besides, where it was asked (`record --gcs`).
    pub gcs: Option<GcsReport>,
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
    /// The biggest files of shared memory at that moment, mapped by many or by nobody.
    pub shared: Vec<SharedFileUse>,
    /// Its last minute; `None` for a normal exit and where no samples are known.
    pub last_minute: Option<LastMinute>,
    /// The last Python stack before its death, the running line first.
    pub stack_at_death: Option<String>,
    /// How long before its death that stack was read.
    pub stack_age_ms: Option<u64>,
    /// What it ran, call by call.
    pub calls: Option<CallsReport>,
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

/// A wall-clock time, printed in UTC with microseconds: `2026-11-20T23:58:59.123456Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc(pub WallTime);

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.6}", self.0.timestamp()))
    }
}
