//! Defines a verdict: who ended a process, how sure that is, and what it rests on.

use serde::Serialize;

use super::{CauseLink, Remote, Utc};
use crate::{
    ids::{EventId, Pid},
    judge::{
        cause::{Cause, KernelOom, Scope},
        missing::Missing,
    },
};

/// Who ended a process, and how sure that is.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The killer.
    pub killer: Killer,
    /// How sure it is who acted.
    pub certainty: Certainty,
    /// How sure the reason is. It is proven only by what the sender's user cannot write: the
    /// kernel's words, or raytrace's own samples.
    pub reason_certainty: Certainty,
    /// Why it ended. The JSON has this, and a sentence about it.
    pub cause: Cause,
    /// False while evidence may still come (live only).
    pub settled: bool,
    /// What it rests on, in order of time.
    pub evidence: Vec<Evidence>,
    /// The death that caused this one.
    pub cause_death_id: Option<EventId>,
    /// The act that ended this process and others; `None` if it ended this one alone.
    pub act: Option<GroupKill>,
    /// A cause that is not in this node's recording.
    pub cause_remote: Option<Remote>,
    /// That cause as a death of the report, if its node was recorded too.
    pub cause_link: Option<CauseLink>,
    /// What would settle an `unknown`.
    pub missing: Option<Missing>,
}

impl Verdict {
    /// Creates a settled verdict. The reason is as sure as who acted. All else is empty.
    #[must_use]
    pub fn new(killer: Killer, certainty: Certainty, cause: Cause) -> Self {
        Self {
            killer,
            certainty,
            reason_certainty: certainty,
            cause,
            settled: true,
            evidence: Vec::new(),
            cause_death_id: None,
            act: None,
            cause_remote: None,
            cause_link: None,
            missing: None,
        }
    }

    /// Returns the death that caused this one, on whatever node.
    #[must_use]
    pub fn cause(&self) -> Option<EventId> {
        let linked = self.cause_link.as_ref().map(|link| link.death_id);
        self.cause_death_id.or(linked)
    }
}

/// One act that ended several processes: a decision of Ray's memory monitor, or one sender's
/// signals within a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GroupKill {
    /// The death that stands for all of them in lists of first causes.
    pub death_id: EventId,
    /// How many processes it ended.
    pub victims: u32,
    /// How many it signalled, including those that lived on.
    pub signalled: u32,
}

/// Who ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Killer {
    /// The kernel, at a cgroup's limit.
    KernelOomMemcg,
    /// The kernel, because the machine was out of memory.
    KernelOomGlobal,
    /// The kernel's OOM killer; whether a cgroup or the machine was full is not known.
    KernelOom,
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
    /// Returns whether it kills for memory.
    #[must_use]
    pub fn is_memory_kill(self) -> bool {
        self.is_kernel_oom() || self == Self::RayMemoryMonitor
    }

    /// Returns the name in the JSON and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KernelOomMemcg => "kernel-oom-memcg",
            Self::KernelOomGlobal => "kernel-oom-global",
            Self::KernelOom => "kernel-oom",
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

    /// Returns whether it is the kernel's OOM killer, at whatever limit.
    #[must_use]
    pub fn is_kernel_oom(self) -> bool {
        matches!(
            self,
            Self::KernelOomMemcg | Self::KernelOomGlobal | Self::KernelOom
        )
    }

    /// Returns the killer of an OOM kill. One of unknown scope is ascribed to a cgroup only if one
    /// was full, and never to the machine. One that was invoked by hand is not for memory.
    #[must_use]
    pub(crate) fn of_oom(oom: &KernelOom) -> Self {
        match oom.scope {
            Some(Scope::Memcg) => Self::KernelOomMemcg,
            Some(Scope::Global | Scope::Cpuset | Scope::Mempolicy) => Self::KernelOomGlobal,
            Some(Scope::Sysrq) => Self::KernelOther,
            None if oom.cgroup.is_some() => Self::KernelOomMemcg,
            None => Self::KernelOom,
        }
    }

    /// Every killer, in the order of the verdict table.
    pub const ALL: [Self; 11] = [
        Self::KernelOomMemcg,
        Self::KernelOomGlobal,
        Self::KernelOom,
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
    /// Concluded from text or order alone.
    Inferred,
    /// Neither.
    Unknown,
}

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// The time.
    pub time: Option<Utc>,
    /// `kernel`, `kmsg`, a log file's name, …
    pub source: String,
    /// What was observed.
    pub what: String,
    /// Whether it is the sender's own signal, which every view shows; not part of the contract.
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
    /// The signal that it sent, which need not be the one that ended the process; `None` where none
    /// was seen.
    pub signal: Option<i32>,
    /// How the signal came about.
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
    /// `pidfd_send_signal(2)`.
    Pidfd,
    /// `cgroup.kill`.
    CgroupKill,
    /// `prctl(PR_SET_PDEATHSIG)`.
    ParentDeath,
    /// The init of its pid namespace ended.
    PidNamespaceExit,
    /// Its tracer ended (`PTRACE_O_EXITKILL`).
    TracerExit,
    /// The last process that could have continued it ended while it was stopped.
    OrphanedGroup,
    /// `RLIMIT_CPU`.
    RlimitCpu,
    /// `RLIMIT_FSIZE`.
    RlimitFsize,
    /// `mq_notify(3)`.
    MessageQueue,
    /// `fcntl(2)` with `F_SETSIG`.
    FileDescriptor,
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
