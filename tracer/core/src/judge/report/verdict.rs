//! Defines a verdict: who ended a process, how sure that is, and what it rests on.

use serde::{Serialize, Serializer};

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
    pub cause_link: Option<Box<CauseLink>>,
    /// What would settle an `unknown`.
    pub missing: Option<Missing>,
    /// Whether only the process's own log says why. Its user can write anything there.
    pub only_own_log: bool,
}

impl Verdict {
    /// Creates a settled verdict. The reason is as sure as who acted. All else is empty.
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
            only_own_log: false,
        }
    }

    /// Returns the death that caused this one, on whatever node.
    pub fn cause(&self) -> Option<EventId> {
        let linked = self.cause_link.as_ref().map(|link| link.death_id);
        self.cause_death_id.or(linked)
    }
}

/// One act that ended several processes: a decision of Ray's memory monitor, or one sender's
/// signals within a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupKill {
    /// The death that stands for all of them in lists of first causes.
    pub death_id: EventId,
    /// How many processes it ended.
    pub victims: u32,
    /// How many it signalled, including those that lived on.
    pub signalled: u32,
}

/// What is printed of a killer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KillerWords {
    /// The name in the JSON and on the command line.
    #[serde(skip)]
    pub name: &'static str,
    /// The name on a line of the live view, in capitals.
    #[serde(skip)]
    pub label: &'static str,
    /// The mark in the chart of the page.
    pub mark: &'static str,
    /// The name in a column of the page.
    pub words: &'static str,
    /// The name behind what ended: `actor A by a crash`.
    #[serde(skip)]
    pub by: &'static str,
    /// The reason of a Kubernetes Event.
    #[serde(skip)]
    pub event: &'static str,
    /// How the process ended, as far as it decides the colour.
    #[serde(skip)]
    pub ended: Ended,
    /// Whether the page gives it a softer colour.
    pub soft: bool,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was killed for memory.
    ForMemory,
    /// It was killed for another reason.
    Killed,
    /// By itself, or with another.
    Died,
}

/// Declares the killers, each with its row of the table, in the order of the verdict table.
macro_rules! killers {
    ($($(#[$doc:meta])* $killer:ident: $name:literal, $label:literal, $mark:literal, $words:literal, $by:literal, $event:literal, $ended:ident, $soft:literal;)*) => {
        /// Who ended a process.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Killer {
            $($(#[$doc])* $killer,)*
        }

        impl Killer {
            /// Every killer, in the order of the verdict table.
            pub const ALL: &[Self] = &[$(Self::$killer),*];

            /// Returns what is printed of it.
            pub const fn words(self) -> &'static KillerWords {
                match self {
                    $(Self::$killer => &KillerWords {
                        name: $name, label: $label, mark: $mark, words: $words, by: $by, event: $event, ended: Ended::$ended, soft: $soft,
                    },)*
                }
            }
        }
    };
}

killers! {
    /// The kernel, at a cgroup's limit.
    KernelOomMemcg: "kernel-oom-memcg", "KERNEL OOM", "K", "the kernel, a cgroup was full", "by the kernel (cgroup full)", "CgroupOOMKill", ForMemory, false;
    /// The kernel, because the machine was out of memory.
    KernelOomGlobal: "kernel-oom-global", "KERNEL OOM", "K", "the kernel, the machine was full", "by the kernel (machine full)", "NodeOOMKill", ForMemory, false;
    /// The kernel's OOM killer; whether a cgroup or the machine was full is not known.
    KernelOom: "kernel-oom", "KERNEL OOM", "K", "the kernel's OOM killer, at a limit that was not seen", "by the kernel (out of memory)", "KernelOOMKill", ForMemory, false;
    /// The raylet, on purpose, for memory.
    RayMemoryMonitor: "ray-memory-monitor", "RAY MONITOR", "R", "Ray's memory monitor", "by Ray's memory monitor", "RayMemoryMonitorKill", ForMemory, false;
    /// Ray, on purpose, not for memory.
    RayIntended: "ray-intended", "RAY", "I", "Ray, on purpose", "by Ray, on purpose", "RayIntendedEnd", Killed, true;
    /// Its raylet, owner, driver or parent died first.
    RayCollapse: "ray-collapse", "COLLAPSE", "↓", "followed from another death", "after another death", "RayCollapse", Died, true;
    /// The kernel, not for memory.
    KernelOther: "kernel-other", "KERNEL", "k", "the kernel, not for memory", "by the kernel (not for memory)", "KernelKill", Killed, false;
    /// Any other sender.
    Signal: "signal", "SIGNAL", "S", "a signal from another process", "by a signal", "SignalKill", Killed, false;
    /// Itself, by a fault.
    Crash: "crash", "CRASH", "C", "crash", "by a crash", "ProcessCrash", Died, true;
    /// Itself, by exit code.
    Exit: "exit", "EXIT", "E", "exit", "by an exit of its own", "ProcessExit", Died, true;
    /// Not provable from what was seen.
    Unknown: "unknown", "UNKNOWN", "?", "unknown", "by an unknown killer", "UnknownDeath", Died, true;
}

impl Serialize for Killer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Killer {
    /// Returns the name in the JSON and on the command line.
    pub fn name(self) -> &'static str {
        self.words().name
    }

    /// Returns whether it kills for memory.
    pub fn is_memory_kill(self) -> bool {
        self.words().ended == Ended::ForMemory
    }

    /// Returns whether somebody killed the process. Otherwise it ended by itself or with another.
    pub fn is_kill(self) -> bool {
        self.words().ended != Ended::Died
    }

    /// Returns whether it is the kernel's OOM killer, at whatever limit.
    pub fn is_kernel_oom(self) -> bool {
        self.is_memory_kill() && self != Self::RayMemoryMonitor
    }

    /// Returns the killer of an OOM kill. One of unknown scope is ascribed to a cgroup only if one
    /// was full, and never to the machine. One that was invoked by hand is not for memory.
    pub(crate) fn of_oom(oom: &KernelOom) -> Self {
        match oom.scope {
            Some(Scope::Memcg) => Self::KernelOomMemcg,
            Some(Scope::Global | Scope::Cpuset | Scope::Mempolicy) => Self::KernelOomGlobal,
            Some(Scope::Sysrq) => Self::KernelOther,
            None if oom.cgroup.is_some() => Self::KernelOomMemcg,
            None => Self::KernelOom,
        }
    }
}

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The act was observed.
    Proven,
    /// Concluded from text or order alone.
    Inferred,
    /// Neither.
    #[default]
    Unknown,
}

impl Certainty {
    /// Returns the name in the JSON, which texts use too.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Inferred => "inferred",
            Self::Unknown => "unknown",
        }
    }
}

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// slurmstepd, …
    WorkloadManager,
    /// systemd-oomd, earlyoom, …
    OomDaemon,
    /// Any other.
    #[default]
    Other,
}

/// How a signal came about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    #[default]
    Unknown,
}
