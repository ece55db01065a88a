//! Defines what a text says about deaths, as data.
//!
//! That is who it speaks of, what it claims, and where and when it says so. `explain` makes the
//! statements, and this folder judges them. A claim is what the text says, not yet what is
//! believed.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    event::Role,
    ids::{Bytes, HexId, Pid},
    judge::{
        cause::{Cause, Scope},
        ray_reason::RayReason,
        report::{Mention, Monitor},
        state::gpu_errors::GpuErrors,
        warning::Warning,
    },
    ray::{
        facts::{GpuMoved, TopUser},
        log::monitor_kill::MinorRange,
    },
};

/// A line that names a process or node that may be elsewhere.
#[derive(Debug)]
pub struct TextMention {
    /// Where it stands.
    pub place: Place,
    /// When it was written.
    pub stamp: Stamp,
    /// The worker or driver that writes the text; `None` for Ray's own processes.
    pub by: Option<HexId>,
    /// What it says.
    pub what: Mention,
}

/// One text.
#[derive(Debug, Default)]
pub struct Text {
    /// Its name as given.
    pub name: String,
    /// Lines so far.
    pub lines: u64,
    /// How often a line was dated in both UTC and local time, by the offset between the two (in
    /// quarter hours).
    pub offsets: BTreeMap<i32, u64>,
    /// Which clocks its lines show.
    pub clocks: Clocks,
    /// The node of the raylet that writes it.
    pub node_id: Option<HexId>,
    /// The times of a raylet's log.
    pub times: Option<LogTimes>,
    /// Whether it has the first line of its raylet.
    pub from_start: bool,
}

/// The first and the last time in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogTimes {
    /// The time of the first line that has one.
    pub first: Stamp,
    /// The time of the last line that has one.
    pub last: Stamp,
}

/// Which clocks the lines of a text show.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// Times with their zone.
    pub utc: bool,
    /// Times without a zone.
    pub local: bool,
    /// Seconds since boot.
    pub boot: bool,
    /// Dates without a year.
    pub day: bool,
}

/// When a line was written, by each clock that it shows; nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Since 1970 in UTC.
    pub utc: Option<i64>,
    /// Since 1970 in local time, if the line does not give its zone.
    pub local: Option<i64>,
    /// Since boot.
    pub boot: Option<i64>,
    /// In local time, with 1972 for the year that the line does not name.
    pub day: Option<i64>,
}

impl Stamp {
    /// Whether the line shows no time.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The pid namespace of a line's pids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PidNamespace {
    /// Ray's pid namespace, which is often a container's.
    #[default]
    Ray,
    /// The initial pid namespace, of the kernel and daemons of the host.
    Host,
}

/// The process that a line speaks of, as far as it says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Subject {
    /// The namespace of its pid.
    pub pid_namespace: PidNamespace,
    /// Its pid.
    pub pid: Option<Pid>,
    /// Its worker id.
    pub worker_id: Option<HexId>,
    /// Its actor.
    pub actor_id: Option<HexId>,
    /// Its job.
    pub job_id: Option<HexId>,
    /// Its node.
    pub node_id: Option<HexId>,
    /// The address of its node.
    pub ip: Option<String>,
    /// The host that the line names, as journals do.
    pub host: Option<String>,
    /// The folder of the raylet's log that speaks of it. The raylet of another folder is on another
    /// node.
    pub folder: Option<String>,
    /// Class of its actor.
    pub class: Option<String>,
    /// The task that it ran (by its lease, if Ray says it).
    pub task: Option<String>,
    /// Its name in the kernel.
    pub comm: Option<String>,
    /// Its role in Ray.
    pub role: Option<Role>,
    /// Whether another program than Ray speaks of it and does not say which process it is. It need
    /// not be one of Ray's.
    pub foreign: bool,
    /// What it belongs to, if the text does not name it: `Slurm step 12.0`, `pod ray-worker-1`.
    pub of: Option<String>,
}

impl Subject {
    /// Returns a raylet.
    pub fn raylet(pid: Option<Pid>) -> Self {
        Self {
            role: Some(Role::Raylet),
            pid,
            ..Self::default()
        }
    }

    /// Whether both may be on one host, by the names that journals have: `node1`, `node1.example`.
    pub fn may_share_host(&self, other: &Self) -> bool {
        share_host(self.host.as_deref(), other.host.as_deref())
    }

    /// Whether it can be told from other processes.
    pub fn is_named(&self) -> bool {
        self.pid.is_some()
            || self.worker_id.is_some()
            || self.actor_id.is_some()
            || self.role == Some(Role::Raylet)
    }
}

/// Whether two names may be of one host.
pub(super) fn share_host(one: Option<&str>, other: Option<&str>) -> bool {
    let is_short = |short: &str, long: &str| {
        let rest = long.strip_prefix(short);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let both = one.zip(other);
    both.is_none_or(|(one, other)| is_short(one, other) || is_short(other, one))
}

/// What a line claims about the end of its subject.
#[derive(Debug, Clone, PartialEq)]
pub enum Claim {
    /// Nothing. The line only ties a pid to a worker id.
    Identity,
    /// Ray's memory monitor killed it.
    RayMemory(Box<RayMemory>),
    /// The kernel's OOM killer killed it.
    KernelOom(Box<KernelOom>),
    /// The kernel's OOM killer marked it and took its memory. It may have been dying already.
    Reaped,
    /// A daemon of the system killed it.
    Daemon(Daemon),
    /// Ray ended it on purpose, not for memory.
    Intended(Cause),
    /// It ended because something else had ended.
    Collapse {
        /// What it followed from.
        cause: Cause,
        /// A description of that, if it is on another node.
        remote: Option<String>,
    },
    /// It exited by itself.
    Exit {
        /// Its code, if known.
        code: Option<i32>,
        /// Whether its actor failed in its constructor.
        creating_actor: bool,
    },
    /// It exited by itself, or at a SIGTERM: by Ray's words both look alike.
    ExitOrSigterm {
        /// Its code, if it has one.
        code: Option<i32>,
    },
    /// A fault of its own.
    Crash {
        /// The text's words: `SIGSEGV`.
        says: String,
        /// The signal that they name.
        signal: Option<i32>,
    },
    /// An error that ends it, by what its library prints. It is no death by itself: the process
    /// may have ended for another reason before.
    FatalError {
        /// The error.
        says: String,
    },
    /// An error that the text has shortly before its sudden end.
    ErrorBefore {
        /// The error.
        says: String,
    },
    /// A frame of a stack that it printed.
    Frame {
        /// The function.
        function: String,
    },
    /// What a daemon of this name claimed in the line before was not done.
    TakenBack {
        /// That daemon.
        by: String,
    },
    /// More words on what the lines above claim.
    Adds {
        /// The words.
        says: String,
    },
    /// A signal ended it; who sent it is not in the text.
    Signalled(i32),
    /// A process with this pid sent the signal that ended it.
    SentBy {
        /// The signal.
        signal: i32,
        /// The sender.
        pid: Pid,
        /// The sender's user.
        uid: Option<u32>,
    },
    /// One digit in its raylet's record says that memory was the reason (`disconnect_type=4`). That
    /// is no proof without other evidence.
    DisconnectTypeMemory,
    /// Ray's table of the biggest processes stands alone. Ray prints it with a kill for memory.
    MemoryTable(Box<RayMemory>),
    /// It has ended, and that may be normal.
    Gone,
    /// Its connection broke. Every sudden end looks like that.
    Lost,
    /// Its raylet waited for it to register and found it dead.
    Unregistered,
    /// A kill record of Ray in words that no grammar knows.
    UnparsedKill,
    /// It ended.
    Died,
}

impl Claim {
    /// Whether it does not say that a process ended.
    pub fn is_no_end(&self) -> bool {
        matches!(
            self,
            Self::Identity
                | Self::FatalError { .. }
                | Self::ErrorBefore { .. }
                | Self::Frame { .. }
                | Self::TakenBack { .. }
                | Self::Adds { .. }
        )
    }
}

impl From<RayReason> for Claim {
    fn from(reason: RayReason) -> Self {
        match reason {
            RayReason::Memory => Self::RayMemory(Box::default()),
            RayReason::Intended(cause) => Self::Intended(cause),
            RayReason::Collapse { why: cause, remote } => Self::Collapse { cause, remote },
        }
    }
}

/// Figures of a kill by Ray's memory monitor.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RayMemory {
    /// Private memory of the victim, as Ray counts it.
    pub own: Option<Bytes>,
    /// What the monitor counted.
    pub used: Option<Bytes>,
    /// Its threshold.
    pub threshold: Option<Bytes>,
    /// The memory of which it is a part.
    pub total: Option<Bytes>,
    /// The biggest processes of the node.
    pub top: Vec<TopUser>,
}

/// A kill by the kernel, as its log reports it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KernelOom {
    /// Which memory was full; `None` if the text does not have it.
    pub scope: Option<Scope>,
    /// The cgroup at its limit.
    pub cgroup: Option<String>,
    /// The victim's cgroup.
    pub task_cgroup: Option<String>,
    /// Limit of the cgroup.
    pub limit: Option<Bytes>,
    /// Use of the cgroup.
    pub usage: Option<Bytes>,
    /// Anonymous memory of the victim.
    pub anon: Option<Bytes>,
    /// File pages of the victim.
    pub file: Option<Bytes>,
    /// Shared memory of the victim.
    pub shmem: Option<Bytes>,
    /// `oom_score_adj`.
    pub score_adj: Option<i32>,
    /// Name of the process that asked for memory.
    pub invoker: Option<String>,
    /// Whether it was killed with its whole cgroup (`memory.oom.group`). Such lines also name
    /// processes that are dying already.
    pub group: bool,
    /// The line of the kill that this one belongs to, if the kernel killed a whole cgroup.
    pub decision: Option<Place>,
    /// The biggest tasks of the report's dump, and its raylets.
    pub tasks: Vec<Task>,
    /// Who reports it, if it is not the kernel: `slurmstepd`, `kubelet`.
    pub reporter: Option<String>,
    /// How that one's limit is changed.
    pub fix: Option<String>,
}

/// A row of a kernel report's task dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its thread group.
    pub pid: Pid,
    /// Its name.
    pub comm: String,
    /// Resident memory, or anonymous memory if the kernel prints it separately.
    pub memory: Bytes,
    /// Whether that is anonymous memory (`rss_anon`, Linux 6.8 and later).
    pub private: bool,
}

/// A kill by a daemon of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    /// `earlyoom`, `systemd-oomd`, `kubelet`, `slurmstepd`.
    pub name: String,
    /// The daemon's own pid, if printed.
    pub pid: Option<Pid>,
    /// The signal.
    pub signal: Option<i32>,
    /// What it says: `memory pressure 61 % > 50 %`.
    pub why: String,
    /// Whether it killed for memory. Batch systems also end jobs for their time.
    pub for_memory: bool,
    /// How its limit is changed.
    pub fix: Option<String>,
    /// The unit of systemd whose processes it killed.
    pub unit: Option<String>,
    /// Whether it does so too after one of the processes has ended by itself.
    pub after_part: bool,
    /// The process whose end it followed.
    pub after: Option<Pid>,
}

/// Where a line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// Number of the text.
    pub text: usize,
    /// Line in it, from 1.
    pub line: u64,
}

/// One claim with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// Where it stands.
    pub place: Place,
    /// When it was written.
    pub stamp: Stamp,
    /// The line, shortened.
    pub quote: String,
    /// The process that it is about.
    pub subject: Subject,
    /// The claim.
    pub claim: Claim,
}

/// What texts say besides deaths; bounded.
#[derive(Debug, Default)]
pub struct TextRemarks {
    /// Ray's own counts of kills, by node and time.
    pub summaries: BTreeMap<(String, i64), Summary>,
    /// Lines that stand for several of the same kind: `repeated 3x across cluster`.
    pub repeated: u64,
    /// Warnings by rule: how often, the first place, its line.
    pub warnings: BTreeMap<Warning, NotedLine>,
    /// After-effects by kind, with the first place of each.
    pub after_effects: BTreeMap<&'static str, NotedLine>,
    /// Ray's version, if a text names it.
    pub ray_version: Option<String>,
    /// The versions of Ray whose words the texts use; crossed if they are of several.
    pub wording: Option<MinorRange>,
    /// What the memory monitor logged about itself.
    pub monitor: Option<Monitor>,
    /// Pids under which raylets wrote their logs.
    pub raylets: BTreeSet<Pid>,
    /// Configurations that frameworks printed, each with its printer.
    pub configurations: Vec<FoundSettings>,
    /// What was said of GPU memory around offloads: by whom, what, and its line.
    pub gpu_moved: Vec<(String, GpuMoved, Place, String)>,
    /// Errors of GPUs, by kernel logs.
    pub gpu_errors: GpuErrors<(Place, Stamp)>,
    /// The biggest spill that a raylet counted.
    pub spilled: Option<Bytes>,
    /// Jobs that the GCS names, each with when it ended.
    pub jobs: BTreeMap<HexId, Option<Stamp>>,
    /// Lines that look like the report of a death, if nothing reports one.
    pub unread: Vec<(Place, String)>,
    /// Whether a message of Ray links to the page on memory that Ray up to 2.57 had.
    pub old_page: bool,
}

/// Ray's own count of the workers that ended on a node within a minute.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Killed for memory.
    pub memory: u64,
    /// Ended for other reasons.
    pub other: u64,
    /// The address of the node.
    pub ip: Option<String>,
}

/// Settings and where they stand.
#[derive(Debug, Clone)]
pub struct FoundSettings {
    /// The process that printed them, as `TaskRunner (pid 7)`; `None` for a command line.
    pub printer: Option<String>,
    /// Where it stands.
    pub place: Place,
    /// A command line.
    pub argv: Vec<String>,
    /// The printed settings, flattened.
    pub settings: Vec<(String, String)>,
}

/// How often something was said, and where first.
#[derive(Debug, Clone, Default)]
pub struct NotedLine {
    /// Times.
    pub count: u64,
    /// First place.
    pub place: Place,
    /// First line, cut.
    pub quote: String,
}
