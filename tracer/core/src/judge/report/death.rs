//! Defines a death: the process, how it ended and by whom, its memory, and what it ran.
//!
//! The program keeps these parts apart. The JSON has the fields of most of them side by side
//! (`crate::contract`).

use serde::{Serialize, Serializer};

use super::{
    AtDeath, CallsReport, GcsReport, GpuUse, LastMinute, MemoryReport, OomReport, OutsideCgroup,
    Place, Recovery, Relation, SenderReport, SharedFileUse, Suspect, TopProcess, TopRest, Utc,
    Verdict,
};
use crate::{
    event::Role,
    ids::{BootTime, Bytes, EventId, HexId, Pid},
    judge::cause::Cause,
};

/// One death. What most deaths do not have is in boxes: a report may have thousands.
#[derive(Debug, Clone, PartialEq)]
pub struct Death {
    /// The row of the exit event.
    pub id: EventId,
    /// The recording's number; `None` in `explain`.
    pub recording_id: Option<u32>,
    /// The cluster's number.
    pub cluster: Option<u32>,
    /// When it died.
    pub when: When,
    /// The process.
    pub process: Process,
    /// What it was to Ray: its worker, actor, task and job.
    pub work: Work,
    /// How it ended.
    pub end: End,
    /// Who ended it.
    pub verdict: Verdict,
    /// Who sent the signal.
    pub sender: Option<SenderReport>,
    /// Its memory, and the memory around it.
    pub memory: Memory,
    /// What it was running.
    pub activity: Activity,
    /// Whether it is abnormal (text lists these only).
    pub listed: bool,
    /// Its node, in a report of several recordings; the address of its node, if a text names it.
    pub node: Option<String>,
    /// What Ray did next: `task retried …`, `actor restarted …`.
    pub then: Option<Recovery>,
}

impl Death {
    /// Creates a listed death with a process and a verdict. All else is empty.
    pub fn new(process: Process, verdict: Verdict) -> Self {
        Self {
            id: EventId::NONE,
            recording_id: None,
            cluster: None,
            when: When::default(),
            process,
            work: Work::default(),
            end: End::default(),
            verdict,
            sender: None,
            memory: Memory::default(),
            activity: Activity::default(),
            listed: true,
            node: None,
            then: None,
        }
    }

    /// Returns whether it was killed for memory: by Ray, the kernel or an OOM killer in user space.
    pub fn is_memory_kill(&self) -> bool {
        let sender = self.sender.as_ref();
        self.verdict.killer.is_memory_kill()
            || matches!(self.verdict.cause, Cause::MemoryDaemon { .. })
            || sender.is_some_and(|sender| sender.relation == Relation::OomDaemon)
    }

    /// Returns whether Ray ran its task again or started its actor again.
    pub(crate) fn is_retried(&self) -> bool {
        use super::Recovery::{ActorRestarted, TaskRetried};
        matches!(self.then, Some(TaskRetried { .. } | ActorRestarted { .. }))
    }

    /// Returns whether it was killed and had not ended when the recording did.
    pub(crate) fn is_pending(&self) -> bool {
        self.id.row() == EventId::NONE.row()
    }
}

/// When a process died, by each clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct When {
    /// The time of the act that killed it, if known, else of the exit.
    pub time: Option<Utc>,
    /// The act's boot time, for order; not part of the contract.
    #[serde(skip)]
    pub act_time: BootTime,
    /// How long before the act its end had begun, in ns; not part of the contract. A process that
    /// caught a signal ends later.
    #[serde(skip)]
    pub began_before_ns: i64,
    /// When the kernel reported the exit.
    pub exit_time: Option<Utc>,
    /// `time` by the clock of the node with the GCS, if Ray's messages contradict the clock of its
    /// own node.
    pub corrected_time: Option<Utc>,
    /// The time as the text prints it, if its zone is not known (`explain`).
    pub stamp: Option<String>,
}

impl When {
    /// Returns when the end of the process began, by the clock of the act.
    pub fn began(&self) -> BootTime {
        self.act_time.plus(-self.began_before_ns)
    }

    /// Returns whether it has a place in time. A line of a log without a time of day has one only
    /// in the order of its log.
    pub fn is_dated(&self) -> bool {
        self.time.is_some() || self.act_time.0 > 0
    }
}

/// The process that died.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// Pid in the initial namespace. In `explain`, the pid that the text has, or 0 if it has none,
    /// which is null in the JSON.
    #[serde(serialize_with = "known_pid")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Pid>"))]
    pub pid: Pid,
    /// Pid in its own namespace.
    pub ns_pid: Option<Pid>,
    /// When it started.
    pub start_time: Option<Utc>,
    /// Its name at the end.
    pub comm: String,
    /// What it was to Ray.
    pub role: Role,
    /// Its title at the end; between two calls, only its class.
    pub title: Option<String>,
    /// Its parent.
    pub ppid: Option<Pid>,
    /// Its container.
    pub container_id: Option<String>,
    /// Its pod or its Slurm job.
    #[serde(flatten)]
    pub place: Place,
}

impl Process {
    /// Creates a process of which nothing else is known.
    pub fn new(pid: Pid, comm: String, role: Role) -> Self {
        Self {
            pid,
            comm,
            role,
            ..Self::default()
        }
    }
}

/// What a process did for Ray.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Work {
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
    /// What the GCS says in addition, if it was asked (`record --gcs`).
    pub gcs: Option<Box<GcsReport>>,
    /// Attempt number of the task, if a log has it.
    pub attempt: Option<u32>,
}

/// How a process ended, by its wait status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct End {
    /// Exit code, when it exited by itself.
    pub exit_code: Option<i32>,
    /// Signal, when one ended it.
    pub signal: Option<i32>,
}

/// Memory at a death.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Memory {
    /// Of the process itself.
    #[serde(rename = "memory")]
    pub own: MemoryReport,
    /// Its GPU memory.
    pub gpu: Vec<GpuUse>,
    /// The OOM kill's context.
    pub oom: Option<Box<OomReport>>,
    /// The node at that moment.
    pub at_death: Option<AtDeath>,
    /// The biggest processes at that moment, and the one that died even if it is smaller. Where it
    /// is known which cgroup was at its limit, only those in it and below it.
    pub top: Vec<TopProcess>,
    /// The smaller ones, which `top` leaves out; `None` if it leaves out none.
    pub top_rest: Option<TopRest>,
    /// What the processes outside the cgroup at its limit held; `None` if `top` is not only of that
    /// cgroup.
    pub top_outside: Option<OutsideCgroup>,
    /// The biggest of them, if the victim held little compared with it.
    pub suspect: Option<Suspect>,
    /// The biggest files of shared memory at that moment, mapped by many or by nobody.
    pub shared: Vec<SharedFileUse>,
    /// Its last minute; `None` for a normal exit, and if no samples are known.
    pub last_minute: Option<Box<LastMinute>>,
    /// The warning of the limit that killed, if one was active.
    pub warning: Option<Box<ActiveWarning>>,
}

/// A victim that held less than this share did not fill the memory alone.
const SMALL_VICTIM: f64 = 0.05;

impl Memory {
    /// Returns what the victim held, and what Ray counted, if only the victim's size is known and
    /// that is a small share.
    pub fn small_victim(&self) -> Option<(Bytes, Bytes)> {
        let [victim] = self.top.as_slice() else {
            return None;
        };
        let used = self.at_death.as_ref()?.ray_used_bytes?;
        let small = victim.victim && victim.private_bytes.gib() < SMALL_VICTIM * used.gib();
        small.then_some((victim.private_bytes, used))
    }

    /// Returns the private memory of the process itself: as measured for it, else as in the list of
    /// the biggest, else its resident memory.
    pub fn own_private(&self) -> Option<Bytes> {
        // A forked child may hold nothing of its own.
        if self.own.own_bytes.is_some() {
            return self.own.own_bytes;
        }
        let some = |bytes: &Bytes| bytes.0 > 0;
        let listed = || self.top.iter().find(|top| top.victim);
        let own = self.own.private().filter(some);
        own.or_else(|| listed().map(|top| top.private_bytes).filter(some))
            .or_else(|| self.own.resident().filter(some))
    }

    /// Returns what was in use at a kill for memory, as its killer counted.
    pub fn used_at_kill(&self) -> Option<Bytes> {
        let oom = self.oom.as_ref().and_then(|oom| oom.usage_bytes);
        oom.or_else(|| self.at_death.as_ref()?.ray_used_bytes)
    }

    /// Returns the cgroup that was at its limit, if one is known.
    pub fn full_cgroup(&self) -> Option<&str> {
        self.oom.as_ref()?.cgroup.as_deref()
    }
}

/// A warning that was active when its limit killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActiveWarning {
    /// How long before the kill it was given.
    pub ms_before: u64,
    /// The earliest time from the warning at which the limit was expected to be hit (10th
    /// percentile).
    pub soonest_ms: u64,
    /// The latest such time (90th percentile).
    pub latest_ms: u64,
    /// What grew: a class, a task, or a role.
    pub grower: Option<String>,
    /// The process that the killer was expected to choose.
    pub likely_victim: Option<String>,
}

/// What a process was running when it died.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Activity {
    /// The innermost line in `stack_at_death` of the user's own code, else of the framework's, but
    /// not of a library: `train.py:33 step`.
    pub line_at_death: Option<String>,
    /// The last Python stack before its death, the running line first.
    pub stack_at_death: Option<String>,
    /// How long before its death that stack was read.
    pub stack_age_ms: Option<u64>,
    /// What it ran, call by call.
    pub calls: Option<Box<CallsReport>>,
}

/// Serializes a pid, 0 as null. No process that dies has pid 0, which stands for a pid that a text
/// does not name.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields by reference"
)]
fn known_pid<S: Serializer>(pid: &Pid, serializer: S) -> Result<S::Ok, S::Error> {
    Some(*pid).filter(|pid| pid.0 != 0).serialize(serializer)
}
