//! Defines the report: the object that `judge` makes and every view in `show` prints.
//!
//! Its JSON form is the public contract (schema 1). Fields may be added, never renamed. What was
//! not observed is `null`.

mod clock;
mod death;
mod finding;
mod gcs;
mod growth;
mod link;
mod log_mentions;
mod memory;
mod minute;
mod place;
mod verdict;

pub use clock::{ClockOffset, ClockState, MessageKind, MessageTime};
pub use death::{ActiveWarning, Activity, Death, End, Memory, Process, When, Work};
pub use finding::{About, Finding, Saving, Setting};
pub use gcs::{GcsOwner, GcsReport};
pub use growth::{Growth, GrowthLine, NOT_SAMPLED, UnreadStacks, UnsampledGrowth};
pub use link::{
    CauseLink, DeclaredDead, Gap, LinkReason, LinkRule, Machine, NoRecording, Node, Remote,
};
pub use log_mentions::{LogMention, Mention};
pub(crate) use memory::class_of_title;
pub use memory::{
    CallRate, CgroupUse, GpuError, GpuReport, GpuUse, GrowthRate, HourRate, InUse, LimitPeak,
    MemoryReport, OomReport, OutsideCgroup, Owner, OwnerKind, PROGRAM, Peak, RestOfClass,
    SharedFileUse, SharedKind, SharedUse, Suspect, TopProcess, TopRest, subprocess,
};
pub use minute::{AtDeath, CallsReport, LastMinute, LimitBefore, MappedBefore, TopBefore};
pub use place::{Kubernetes, Place, Slurm};
pub use verdict::{
    Certainty, Ended, Evidence, GroupKill, Killer, KillerWords, Mechanism, Relation, SenderReport,
    Verdict,
};

use serde::{Serialize, Serializer};

use crate::{
    event::{INTERFERENCE_BY, Mode, OF_FUNCTIONS, Probe, SIGNALS_BY, TITLES_OF},
    ids::{Bytes, EventId, HexId, Pid, WallTime},
    judge::cause::Cause,
    path,
    ray::facts::RayFact,
};

/// The class of a driver's growth.
const DRIVER: &str = "driver";

/// Everything that is known about one recording (or several, or some log files).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Processes that were killed and had not ended when the recording did. Each is a death with 0
    /// as `id` and no `exit_time`.
    pub pending: Vec<Death>,
    /// Memory by actor class or task.
    pub owners: Vec<Owner>,
    /// The machine's GPUs, if NVML was there.
    pub gpus: Vec<GpuReport>,
    /// Errors of NVIDIA's GPUs (Xids), from the kernel log.
    pub gpu_errors: Vec<GpuError>,
    /// Lines of Python through which memory grew, by actor class or task.
    pub growth: Vec<Growth>,
    /// Processes whose Python stacks could not be read.
    pub unread_stacks: Vec<UnreadStacks>,
    /// Settings that affect memory, with where each was found.
    pub settings: Vec<Setting>,
    /// Causes and remedies.
    pub findings: Vec<Finding>,
    /// The highest use of the node's memory that was sampled.
    pub peak: Option<Peak>,
    /// Memory cgroups with a limit below the machine's memory, and how near each came to it: the
    /// nearest first.
    pub limits: Vec<LimitPeak>,
    /// The machine's memory when most of it was in use, as a sum.
    pub in_use: Option<InUse>,
    /// Shared memory by file, when the files were largest together.
    pub shared_memory: Option<SharedUse>,
    /// What the text said besides deaths (`explain`), one line each.
    pub notes: Vec<String>,
    /// The texts that were read; empty for recordings.
    pub texts: Vec<TextSource>,
    /// The nodes of several recordings, including those without a recording; empty for one
    /// recording.
    pub nodes: Vec<Node>,
    /// Mentions in logs of processes that may be on other nodes; not part of the contract.
    #[serde(skip)]
    pub mentions: Vec<LogMention>,
    /// Records of messages between nodes, by which their clocks are compared; not part of the
    /// contract.
    #[serde(skip)]
    pub message_times: Vec<MessageTime>,
    /// Figures of each recording's machine; not part of the contract.
    #[serde(skip)]
    pub machines: Vec<Machine>,
}

impl Report {
    /// Returns the part of a Ray cluster that a process belonged to.
    pub fn cluster_of(&self, death: &Death) -> Option<&ClusterReport> {
        let mut clusters = self.clusters.iter();
        clusters.find(|cluster| Some(cluster.id) == death.cluster)
    }

    /// Returns whether a line through which this class grew only imports a module.
    pub fn is_import(&self, class: &str, line: &GrowthLine) -> bool {
        line.is_import(class == DRIVER && self.is_script(&line.file))
    }

    /// Returns whether one process alone grew in this class.
    pub fn grew_alone(&self, class: &str) -> bool {
        let mut growth = self.growth.iter();
        growth.any(|one| one.class == class && one.processes == 1)
    }

    /// Returns whether a file is the script of a job's driver.
    fn is_script(&self, file: &str) -> bool {
        let mut lines = self.jobs.iter().filter_map(|job| job.entrypoint.as_deref());
        lines.any(|line| {
            let mut words = line.split_whitespace();
            words.any(|word| path::base(word) == path::base(file))
        })
    }

    /// Marks recordings that have no clean end as still being written.
    pub fn while_recording(mut self) -> Self {
        for recording in &mut self.recordings {
            recording.still_recording = !recording.clean_end;
        }
        self
    }
}

/// A text that `explain` read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TextSource {
    /// Its name as given, or inside the archive.
    pub name: String,
    /// Its lines.
    pub lines: u64,
    /// Seconds east of UTC of its local times, if that is known.
    pub utc_offset_s: Option<i32>,
    /// How the time zone was found, or what kind of times it has instead.
    pub clock: String,
}

/// A source that raytrace observed and that went away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostProbe {
    /// The probe's name: `GCS 192.0.2.2:6379`.
    pub name: String,
    /// When it was noticed.
    pub time: Utc,
    /// When it came back, if it did.
    pub back: Option<Utc>,
    /// Why it went away, as far as that was seen.
    pub reason: Option<String>,
}

/// One recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recording {
    /// Number in this report.
    pub id: u32,
    /// The machine.
    pub host: Host,
    /// How it was observed.
    pub mode: Mode,
    /// When it began.
    pub started: Utc,
    /// When it ended. If it goes on or did not end cleanly, the time of the last event.
    pub ended: Utc,
    /// Whether it ended as asked.
    pub clean_end: bool,
    /// Whether its recorder was still writing it when it was read.
    pub still_recording: bool,
    /// When the recording before it in its folder ended. Nothing was recorded from then until this
    /// one began.
    pub previous_ended: Option<Utc>,
    /// How far its wall clock may have been off, if the kernel said so.
    pub clock: Option<ClockState>,
    /// The probes and their state.
    pub probes: Vec<Probe>,
    /// Sources that went away meanwhile.
    pub lost_probes: Vec<LostProbe>,
    /// Events known to be lost.
    pub lost_events: u64,
    /// The loss ledger by hook.
    pub ledgers: Vec<crate::event::Ledger>,
    /// Normal exits (not listed in text unless asked).
    pub normal_exits: u64,
}

/// Rows of the ledger about what a process ran or held, not about how it ended.
const CALLS_AND_MEMORY: [&str; 3] = ["task/task_rename", "samples", "reads that hang"];

/// What may be missing in a recording that lost events, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missed {
    /// Deaths, or evidence on them.
    Deaths,
    /// Who signalled or traced a process, or wrote into its memory. Its exit says so.
    Acts,
    /// Calls and figures of memory.
    CallsAndMemory,
}

impl Missed {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Deaths, Self::Acts, Self::CallsAndMemory];

    fn by(hook: &str) -> Self {
        if CALLS_AND_MEMORY.contains(&hook) || hook.starts_with(TITLES_OF) {
            Self::CallsAndMemory
        } else if [INTERFERENCE_BY, SIGNALS_BY]
            .iter()
            .chain(&OF_FUNCTIONS)
            .any(|begin| hook.starts_with(begin))
        {
            Self::Acts
        } else {
            Self::Deaths
        }
    }
}

impl Recording {
    /// Returns the worst that may be missing. If the ledger does not name what was lost, it may have
    /// been deaths.
    pub fn missed(&self) -> Missed {
        let lost = self.ledgers.iter().filter(|ledger| ledger.lost() > 0);
        let worst = lost.map(|ledger| Missed::by(&ledger.hook)).min();
        worst.unwrap_or(Missed::Deaths)
    }
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Host {
    /// Node name.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Boot id.
    pub boot_id: String,
    /// `MemTotal`.
    pub memory_bytes: Bytes,
    /// The version of its memory cgroups, 1 or 2; `None` in earlier recordings.
    pub cgroup_version: Option<u8>,
}

/// The part of a cluster on this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterReport {
    /// Number in this report.
    pub id: u32,
    /// The recording that contains it.
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
    /// Its address, as Ray names it: `--node_ip_address`.
    pub node_ip: Option<String>,
    /// Its pod or its Slurm job.
    #[serde(flatten)]
    pub place: Place,
    /// The memory monitor, as the raylet's log announced it.
    pub monitor: Option<Monitor>,
    /// Size of the object store.
    pub object_store_bytes: Option<Bytes>,
    /// Seconds east of UTC of the times in its logs.
    pub log_utc_offset_s: Option<i32>,
    /// Where its GCS listens.
    pub gcs_address: Option<String>,
    /// The cluster's id, as its raylet was given it: `--cluster-id`.
    #[serde(skip)]
    pub cluster_id: Option<String>,
    /// Whether this node runs the GCS.
    pub head: bool,
}

/// Ray's memory monitor.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Monitor {
    /// Whether it runs.
    pub enabled: bool,
    /// The threshold above which it kills.
    pub threshold_bytes: Option<Bytes>,
    /// What it takes for the machine's memory.
    pub total_bytes: Option<Bytes>,
    /// Its interval.
    pub refresh_ms: Option<u64>,
}

impl Monitor {
    /// Returns what a raylet says of its monitor in a record of its log.
    pub fn logged(fact: &RayFact) -> Option<Self> {
        match fact {
            RayFact::MonitorStarted {
                threshold,
                total,
                interval_ms,
                ..
            } => Some(Self {
                enabled: true,
                threshold_bytes: Some(*threshold),
                total_bytes: Some(*total),
                refresh_ms: *interval_ms,
            }),
            RayFact::MonitorDisabled => Some(Self::default()),
            _ => None,
        }
    }
}

/// A job and its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Job {
    /// The driver's recording, in a report of several.
    pub recording_id: Option<u32>,
    /// The cluster's number.
    pub cluster: Option<u32>,
    /// Job id.
    pub job_id: HexId,
    /// The driver's command line.
    pub entrypoint: Option<String>,
    /// The framework that it ran.
    pub framework: Option<JobFramework>,
    /// The last step of training that it printed as done.
    pub last_step: Option<JobStep>,
    /// How it ended.
    pub outcome: Outcome,
    /// When it ended.
    pub ended: Option<Utc>,
    /// The death that ended it, if one did.
    pub ended_by_death_id: Option<EventId>,
    /// That death's recording, in a report of several.
    pub ended_by_recording_id: Option<u32>,
    /// The driver's pid.
    pub driver_pid: Option<Pid>,
    /// First causes that hit the job and did not end it, and why not (`its task was retried`).
    pub survived: Vec<SurvivedDeath>,
    /// Why the outcome is what it is, or what is missing to know it; a sentence in the JSON.
    pub because: OutcomeReason,
}

impl Job {
    /// Returns whether only the order of deaths says which of them ended the job.
    pub fn is_ended_by_order(&self) -> bool {
        let order = Basis::Order;
        matches!(self.because, OutcomeReason::AfterDeath { basis, .. } if basis == order)
    }
}

/// A framework, or a library of Ray's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobFramework {
    /// Its name, `verl`.
    pub name: String,
    /// Its version, as it is installed beside Ray.
    pub version: Option<String>,
}

/// A step of training that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobStep {
    /// Its number, from 1.
    pub step: u64,
    /// How many steps were planned.
    pub of: Option<u64>,
}

/// Why a job ended as it did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum OutcomeReason {
    /// The recording ended first.
    #[default]
    Running,
    /// Its driver exited with 0.
    Succeeded,
    /// Its driver was interrupted from its terminal.
    Interrupted,
    /// How its driver ended.
    Driver {
        /// The cause.
        cause: Cause,
        /// Whether it exited, rather than being ended by a signal.
        exited: bool,
    },
    /// How its node's raylet ended, and the driver with it.
    Raylet {
        /// The cause.
        cause: Cause,
        /// Whether it exited, rather than being ended by a signal.
        exited: bool,
    },
    /// Its driver exited with an error because of a death.
    AfterDeath {
        /// The driver's exit code.
        code: i32,
        /// What says that it failed because of this death.
        basis: Basis,
    },
    /// The cause that the driver's own log names is on another node.
    OnAnotherNode {
        /// The driver's exit code.
        code: Option<i32>,
        /// What ties the two together.
        link: LinkReason,
        /// That node.
        node: String,
    },
    /// Its driver exited, and no such death was seen.
    NoDeathSeen {
        /// The driver's exit code.
        code: i32,
    },
}

/// What says that a job failed because of a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The exception that its driver printed names the process.
    Exception,
    /// An exception of the job says that a process is gone that one of the job's had started.
    ChildException,
    /// The owner of a call logged that the call was lost and is not tried again.
    LostCall,
    /// Only the order of deaths.
    Order,
}

/// A death that a job survived.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SurvivedDeath {
    /// The death.
    pub death_id: EventId,
    /// How the job survived it.
    pub how: Recovery,
}

/// How a job survived a death.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// Ray ran the task again.
    TaskRetried {
        /// How many more times it may do so, if that is printed and bounded.
        left: Option<i64>,
    },
    /// Ray started the actor again.
    ActorRestarted {
        /// The actor.
        actor_id: HexId,
    },
    /// The job went on, by whatever means.
    WentOn,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The driver exited with 0.
    Succeeded,
    /// The driver exited with another code, or was killed.
    Failed,
    /// The driver was told to stop (`ray job stop`, Ctrl-C).
    Stopped,
    /// The recording ended first.
    #[default]
    Running,
    /// The driver's end was not seen.
    Unknown,
}

/// A wall-clock time, printed in UTC with microseconds: `2026-11-20T23:58:59.123456Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc(pub WallTime);

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.6}", self.0.timestamp()))
    }
}
