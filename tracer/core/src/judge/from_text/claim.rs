//! Defines what a text says about deaths, as data: who it speaks of, what it claims, where and when it stands.
//!
//! Made by `explain`, judged here. A claim is what the text says, not yet what is believed.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    event::Role,
    ids::{Bytes, HexId, Pid},
    judge::{
        cause::{Cause, Scope},
        report::Mention,
        state::gpu_errors::GpuErrors,
        warning::Warning,
    },
    ray::{
        facts::{GpuMoved, TopUser},
        log::kill::Minors,
    },
};

/// A line that names somebody who may be on another node.
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
    /// How often a line was dated twice, in UTC and in local time, by the offset that this gives (in quarter hours).
    pub offsets: BTreeMap<i32, u64>,
    /// Which clocks its lines show.
    pub clocks: Clocks,
    /// The node of the raylet that writes it.
    pub node_id: Option<HexId>,
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
}

/// When a line was written, by each clock that it shows; nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Since 1970 in UTC.
    pub utc: Option<i64>,
    /// Since 1970 in local time whose zone the line does not say.
    pub local: Option<i64>,
    /// Since boot.
    pub boot: Option<i64>,
}

impl Stamp {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whose numbers the pids of a line are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Domain {
    /// Of Ray's pid namespace: often a container's.
    #[default]
    Ray,
    /// Of the initial pid namespace: the kernel and daemons of the host.
    Host,
}

/// Who a line speaks of, as far as it says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Subject {
    /// Whose pids.
    pub domain: Domain,
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
    /// The folder of the raylet's own log that speaks of it: another folder's raylet is of another node.
    pub folder: Option<String>,
    /// Class of its actor.
    pub class: Option<String>,
    /// The task that it ran (by its lease, where Ray says it).
    pub task: Option<String>,
    /// Its name, as the kernel has it.
    pub comm: Option<String>,
    /// What it is to Ray.
    pub role: Option<Role>,
}

impl Subject {
    /// Whether it can be told from others.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.pid.is_some()
            || self.worker_id.is_some()
            || self.actor_id.is_some()
            || self.role == Some(Role::Raylet)
    }
}

/// What a line claims of its subject's end.
#[derive(Debug, Clone, PartialEq)]
pub enum Claim {
    /// Nothing: it ties a pid to a worker id.
    Identity,
    /// Ray's memory monitor killed it.
    RayMemory(Box<RayMemory>),
    /// The kernel's OOM killer killed it.
    KernelOom(Box<KernelOom>),
    /// The kernel's OOM killer marked it and took its memory: it may have been dying already.
    Reaped,
    /// A daemon of user space killed it.
    Daemon(Daemon),
    /// Ray ended it on purpose, not for memory.
    Intended(Cause),
    /// It ended because something else had.
    Collapse {
        /// What had.
        cause: Cause,
        /// In words, where that lies on another node.
        remote: Option<String>,
    },
    /// It exited by itself.
    Exit {
        /// Its code, where known.
        code: Option<i32>,
        /// Whether its actor failed in its constructor.
        creating_actor: bool,
    },
    /// A fault of its own.
    Crash {
        /// The text's words: `SIGSEGV`.
        says: String,
        /// The signal that they name.
        signal: Option<i32>,
    },
    /// A signal ended it; who sent it is not in the text.
    Signalled(i32),
    /// One digit of its raylet's says that memory was the reason (`disconnect_type=4`): no proof without a second piece.
    MemoryDigit,
    /// Ray's table of the biggest processes stands alone, which it prints with a kill for memory.
    MemoryTable(Box<RayMemory>),
    /// Its connection broke: every sudden end looks like that.
    Lost,
    /// Its raylet waited for it to register and found it dead.
    Unregistered,
    /// Ray's record of a kill, in words that no grammar knows.
    UnreadKill,
    /// It ended.
    Died,
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
    /// The biggest processes of the node.
    pub top: Vec<TopUser>,
}

/// A kill of the kernel's, as its log reports it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KernelOom {
    /// Which memory was full; `None` where the text lost it.
    pub scope: Option<Scope>,
    /// The cgroup at its limit.
    pub cgroup: Option<String>,
    /// The victim's cgroup.
    pub task_cgroup: Option<String>,
    /// Limit and use of the cgroup.
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
    /// Who asked for memory.
    pub invoker: Option<String>,
    /// Whether it was killed with all of its cgroup (`memory.oom.group`): such lines name those who are dying too.
    pub group: bool,
    /// The biggest tasks of the report's dump, and its raylets.
    pub tasks: Vec<Task>,
    /// Who says so, where it is not the kernel: `slurmstepd`, `kubelet`.
    pub reporter: Option<String>,
}

/// A row of a kernel report's task dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its thread group.
    pub pid: Pid,
    /// Its name.
    pub comm: String,
    /// Resident memory; anonymous memory where the kernel prints it apart.
    pub memory: Bytes,
}

/// A kill by a daemon of user space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    /// `earlyoom`, `systemd-oomd`, `kubelet`, `slurmstepd`.
    pub name: String,
    /// The daemon's own pid, where printed.
    pub pid: Option<Pid>,
    /// The signal.
    pub signal: Option<i32>,
    /// What it says: `memory pressure 61 % > 50 %`.
    pub why: String,
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
    /// The line, cut.
    pub quote: String,
    /// Of whom.
    pub subject: Subject,
    /// The claim.
    pub claim: Claim,
}

/// What texts say besides deaths; bounded.
#[derive(Debug, Default)]
pub struct TextRemarks {
    /// Ray's own counts of kills, by node and time: `(for memory, for other reasons)`.
    pub summaries: BTreeMap<(String, i64), (u64, u64)>,
    /// Lines that stand for several: `repeated 3x across cluster`.
    pub repeated: u64,
    /// Warnings by rule: how often, the first place, its line.
    pub warnings: BTreeMap<Warning, NotedLine>,
    /// Consequences by kind, the first place of each.
    pub after_effects: BTreeMap<&'static str, NotedLine>,
    /// Ray's version, where a text names it.
    pub ray_version: Option<String>,
    /// The versions whose words the texts use; crossed where they are of several.
    pub wording: Option<Minors>,
    /// What the memory monitor said of itself.
    pub monitor: Option<MonitorState>,
    /// Pids under which raylets wrote their logs.
    pub raylets: BTreeSet<Pid>,
    /// Configurations that frameworks printed of themselves, with who printed each.
    pub configurations: Vec<Configured>,
    /// What was said of GPU memory around offloads: who, what, its line.
    pub gpu_moved: Vec<(String, GpuMoved, Place, String)>,
    /// Errors of GPUs, by kernel logs.
    pub gpu_errors: GpuErrors<(Place, Stamp)>,
    /// The biggest spill that a raylet counted.
    pub spilled: Option<Bytes>,
    /// Jobs that the GCS names, each with when it ended.
    pub jobs: BTreeMap<HexId, Option<Stamp>>,
    /// Whether a message of Ray's links to the page that Ray up to 2.57 had on memory.
    pub old_page: bool,
}

/// Settings with where they stand.
#[derive(Debug, Clone)]
pub struct Configured {
    /// `TaskRunner (pid 7)`; `None` for a command line.
    pub printer: Option<String>,
    /// Where it stands.
    pub place: Place,
    /// A command line.
    pub argv: Vec<String>,
    /// What was printed, flat.
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

/// What the memory monitor said at its start.
#[derive(Debug, Clone, PartialEq)]
pub enum MonitorState {
    /// It runs.
    On {
        /// Threshold.
        threshold: Bytes,
        /// What it takes for all memory.
        total: Bytes,
        /// Its interval.
        refresh_ms: Option<u64>,
    },
    /// It does not run.
    Off,
}
