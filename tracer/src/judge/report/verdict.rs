//! Who ended a process, how sure that is, and what it rests on.

use serde::Serialize;

use super::Utc;
use crate::ids::{EventId, Pid};

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
    /// Its owner has left Ray and still lives: how that one ends settles this (live only; not part of the contract).
    #[serde(skip)]
    pub owner_lives: bool,
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
    /// The sender's own signal, which every view shows; not part of the contract.
    #[serde(skip)]
    pub by_sender: bool,
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
    /// The signal that it sent, which need not be the one that ended the process; `None` where none was seen.
    pub signal: Option<i32>,
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
