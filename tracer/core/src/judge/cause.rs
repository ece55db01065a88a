//! Defines why a process ended, as data.
//!
//! Both judges, of events and of texts, conclude a [`Cause`], and every view puts it into words. A
//! cause says only what was found. Who the killer is, and how certain that is, stands in the
//! verdict. Words of other programs (`says`, `exception`) are kept as they were printed and are
//! never parsed again.

mod request;
pub mod slurm;

use serde::Serialize;

pub use request::{Command, Request};
pub use slurm::{SlurmEnd, SlurmReason};

use crate::{
    event::{Role, Sender, ShortOf},
    ids::{Bytes, Pid},
};

/// Why a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cause {
    /// The kernel's OOM killer chose it.
    KernelOom(KernelOom),
    /// The kernel's OOM killer chose a process whose memory it shared.
    SharedVictimsMemory {
        /// That process.
        victim_pid: Pid,
    },
    /// The kernel's OOM killer marked it and took its memory. It may have been dying already.
    OomReaped,
    /// Ray's memory monitor chose it.
    RayMemoryMonitor {
        /// What the monitor counted on the node.
        used_bytes: Option<Bytes>,
        /// Its threshold.
        threshold_bytes: Option<Bytes>,
    },
    /// Both claim the kill, and which of them came first is not known.
    RayMemoryMonitorOrKernelOom,
    /// Only one digit in a raylet's record says that memory was the reason (`disconnect_type=4`).
    RayMemoryDigit,
    /// The only sign is Ray's table of memory users, which its memory monitor prints with a kill.
    RayMemoryTable,
    /// A program in user space ended it for memory, in that program's own words.
    MemoryDaemon {
        /// `earlyoom`, `systemd-oomd`, `kubelet`, `slurmstepd`.
        name: String,
        /// Its reason.
        says: String,
        /// How its limit is changed: `more memory for the job: bsub -M`. A finding says it.
        #[serde(skip)]
        fix: Option<String>,
    },

    /// A program of the system ended it for another reason than memory, in that program's own
    /// words.
    SystemProgram {
        /// `Slurm`, `kubelet`.
        name: String,
        /// Its reason.
        says: String,
        /// How its limit is changed: `more memory for the job: bsub -M`. A finding says it.
        #[serde(skip)]
        fix: Option<String>,
    },

    /// A signal that another process sent.
    Signal {
        /// Its number.
        signal: i32,
        /// Who sent it; `None` if that is not known.
        sender: Option<ProcessRef>,
    },
    /// A signal of Slurm's.
    Slurm(SlurmEnd),
    /// Its parent-death signal (`PR_SET_PDEATHSIG`).
    ParentDeath {
        /// Its parent.
        parent: ProcessRef,
        /// Whether only a thread of the parent had ended.
        thread: bool,
    },
    /// Its terminal: Ctrl-C, Ctrl-\ or a hang-up.
    Terminal {
        /// The signal.
        signal: i32,
    },
    /// A timer that ran out.
    Timer {
        /// Its signal.
        signal: i32,
        /// Whether it was made by `timer_create`.
        created: bool,
    },
    /// A message in a queue for which it had requested a signal (`mq_notify`).
    MessageQueue {
        /// Its signal.
        signal: i32,
        /// Who sent the message.
        sent_by: ProcessRef,
    },
    /// A file became ready, for which a process had arranged a signal (`fcntl`, `F_SETSIG`).
    FileReady {
        /// Its signal.
        signal: i32,
        /// The process that ran at that moment.
        running: ProcessRef,
    },
    /// Another process ended. It was a child cloned with this as its exit signal, or it had a file
    /// open for which a process had arranged a signal.
    ChildExit {
        /// Its signal.
        signal: i32,
        /// The process that ended.
        ended: ProcessRef,
    },
    /// The kernel sent this signal by itself, for a reason that is not known.
    KernelSignal {
        /// Its number.
        signal: i32,
    },
    /// A signal that no call asked for and that the kernel does not send by itself.
    SignalOfUnknownOrigin {
        /// Its number.
        signal: i32,
        /// Its `si_code`.
        code: i32,
        /// The process that ran at that moment.
        running: ProcessRef,
    },
    /// It reached a limit on a resource.
    ResourceLimit {
        /// The limit.
        limit: Resource,
    },
    /// A system call that seccomp forbids.
    Seccomp,
    /// The memory that it used has a hardware error.
    HardwareMemoryError,
    /// The first process of its pid namespace ended.
    PidNamespaceExit {
        /// That process.
        init_pid: Pid,
    },
    /// Its tracer, which had requested this (`PTRACE_O_EXITKILL`), ended.
    TracerExit {
        /// The tracer.
        tracer_pid: Pid,
    },
    /// Its process group had a stopped process, and the last process that could have continued it
    /// ended (`kill_orphaned_pgrp`).
    StoppedThenOrphaned {
        /// That process.
        ended: ProcessRef,
        /// Whether it was stopped itself.
        itself: bool,
    },
    /// The kernel sent SIGKILL by itself, and nothing says why.
    KernelUnexplained,

    /// It caught the signal of `cause`, and exited.
    CaughtSignalThenExit {
        /// Where the signal came from.
        cause: Box<Cause>,
        /// Its exit code.
        exit_code: Option<i32>,
        /// Whole seconds between the two, if there are any.
        after_s: Option<u64>,
    },
    /// It caught the signal of `cause`, and sent it to itself again.
    CaughtSignalThenReraise {
        /// Where the signal came from.
        cause: Box<Cause>,
        /// Whole seconds between the two, if there are any.
        after_s: Option<u64>,
    },
    /// It caught the signal of `cause`, and aborted (SIGABRT) while it ended.
    CaughtSignalThenAbort {
        /// Where the signal came from.
        cause: Box<Cause>,
        /// Whole seconds between the two, if there are any.
        after_s: Option<u64>,
    },
    /// It caught the signal of `cause`, and ended by another signal: a fault, or one of its own.
    CaughtSignalThenSignal {
        /// Where the signal came from.
        cause: Box<Cause>,
        /// The signal that ended it.
        signal: i32,
        /// Whole seconds between the two, if there are any.
        after_s: Option<u64>,
    },
    /// It caught the signal of `cause`, and its raylet ended it before it had exited.
    CaughtSignalThenRaylet {
        /// Where the signal came from.
        cause: Box<Cause>,
    },

    /// A fault of its own.
    Crash {
        /// The signal.
        signal: Option<i32>,
        /// The line that says so, if a log does.
        says: Option<String>,
        /// Whether a full `/dev/shm` is a possible cause.
        shared_memory: bool,
    },
    /// It exited.
    Exit {
        /// Its code.
        code: Option<i32>,
        /// The last exception that it reported.
        exception: Option<String>,
        /// Whether its actor failed in its constructor.
        creating_actor: bool,
    },
    /// By Ray's record it was exiting by itself, and its raylet ended it before it had exited.
    ExitThenRaylet {
        /// Its code.
        code: i32,
    },
    /// It exited by itself, or because of a SIGTERM that was not seen.
    ExitOrSigterm {
        /// Its code; `None` if it left by a `SystemExit` without one.
        code: Option<i32>,
        /// The last exception that it reported.
        exception: Option<String>,
        /// Whether its raylet ended it before it had exited.
        raylet_ended_rest: bool,
    },
    /// By its own log, it exited because of a SIGTERM.
    ExitAtSigterm {
        /// Its code.
        code: i32,
        /// Whether it sent that signal to itself. If not, no sender was seen.
        own: bool,
    },

    /// A command of Ray.
    RayCommand {
        /// The command.
        command: Command,
        /// The process that ran it.
        pid: Pid,
        /// Whether the command told the raylet, which then ended its processes.
        by_raylet: bool,
    },
    /// The program asked Ray to end it.
    RayRequest {
        /// What it asked for.
        request: Request,
        /// Ray's words, if no other field has them.
        says: Option<String>,
    },
    /// It did not exit in time after Ray had asked it to.
    DidNotExit,
    /// It did not register with its raylet in time.
    DidNotRegister,
    /// It was dead before it registered with its raylet.
    DeadBeforeRegistered,
    /// Its job had ended.
    JobEnded,
    /// The supervisor of its submitted job had ended, and the job's watcher ended the rest.
    JobSupervisorEnded {
        /// The supervisor.
        supervisor_pid: Pid,
        /// Whether the supervisor died instead of ending normally.
        died: bool,
    },

    /// Its owner had died.
    OwnerDied {
        /// Ray's word for what had died: `owner died`, `owner's node died`.
        says: Option<String>,
        /// The role of the owner, if it ended later than this process. It had left Ray, which Ray
        /// also calls its death.
        owner_lived: Option<Role>,
    },
    /// The node of its owner had crashed.
    OwnersNodeCrashed,
    /// Ray counts its node as dead.
    NodeDead {
        /// Ray's words.
        says: Option<String>,
    },
    /// Its node was drained, because it was idle or about to be preempted.
    NodeDrained {
        /// Ray's words.
        says: String,
    },
    /// Its node was preempted.
    NodePreempted {
        /// Ray's words.
        says: String,
    },
    /// An agent of its node had died.
    AgentDied {
        /// `dashboard_agent`, `runtime_env_agent`.
        agent: String,
    },
    /// Its node had lost the GCS.
    GcsLost,
    /// Its raylet was gone.
    RayletDied {
        /// The raylet, if it is known.
        raylet_pid: Option<Pid>,
        /// Whether its own log says so. If not, the order of events shows it.
        by_own_log: bool,
    },
    /// The dashboard that had started it had ended.
    DashboardGone {
        /// The dashboard.
        dashboard_pid: Pid,
    },
    /// Its raylet ended at about the same time, and that takes its workers along.
    EndedWithRaylet {
        /// The raylet, if it is known.
        raylet_pid: Option<Pid>,
    },
    /// Its raylet was shutting down.
    RayletShutdown {
        /// The process that had requested the shutdown.
        requested_by: Option<ProcessRef>,
    },
    /// Its raylet ended it and gave no known reason.
    RayletWithoutReason {
        /// The raylet.
        raylet_pid: Pid,
    },
    /// The raylet shut itself down.
    RayletEndedItself {
        /// Its reason.
        says: String,
    },
    /// Its worker was ending, and took it along.
    WorkerEnding {
        /// The worker.
        worker_pid: Pid,
        /// Whether the raylet ended it for the worker.
        by_raylet: bool,
    },
    /// `ray start --block` ended it because another of its processes had died.
    SiblingDied {
        /// The pid of `ray start --block`.
        starter_pid: Pid,
        /// The process that had died.
        sibling: ProcessRef,
    },
    /// Ray's record says that its end was intended, but not why.
    Intended,

    /// It ended suddenly. An OOM kill, `kill -9`, a crash and `os._exit` look alike.
    SuddenEnd,
    /// It ended suddenly, and the text has an error right before.
    EndAfterError {
        /// The error.
        says: String,
    },
    /// It ended, and nothing says why.
    Unexplained,
    /// It ended, and nothing says how.
    NotSeen,
}

/// A kill by the kernel's OOM killer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelOom {
    /// Which memory was full; `None` if that is not known.
    pub scope: Option<Scope>,
    /// The cgroup that was at its limit.
    pub cgroup: Option<String>,
    /// That limit.
    pub limit_bytes: Option<Bytes>,
    /// What was being charged: `anonymous memory`, `page cache`, …
    pub charged: Option<String>,
    /// The name of the process that asked for memory.
    pub invoker: Option<String>,
    /// Who reports it, if it is not the kernel: `systemd`.
    pub reported_by: Option<String>,
    /// How the limit of who reports it is changed. A finding says it.
    #[serde(skip)]
    pub fix: Option<String>,
}

/// Which memory was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// A memory cgroup's.
    Memcg,
    /// The machine's.
    Global,
    /// The memory nodes of a cpuset.
    Cpuset,
    /// The memory nodes of a memory policy.
    Mempolicy,
    /// None: somebody requested the kill (sysrq `f`).
    Sysrq,
}

impl Scope {
    pub(crate) fn of(short_of: ShortOf) -> Self {
        match short_of {
            ShortOf::Cgroup { .. } => Self::Memcg,
            ShortOf::Machine => Self::Global,
            ShortOf::Cpuset => Self::Cpuset,
            ShortOf::Mempolicy => Self::Mempolicy,
            ShortOf::ByHand => Self::Sysrq,
        }
    }

    /// Parses a constraint as the kernel prints it, such as `CONSTRAINT_MEMCG`
    /// (`oom_constraint_text` of `mm/oom_kill.c`).
    pub fn parse(constraint: &str) -> Option<Self> {
        match constraint {
            "CONSTRAINT_MEMCG" => Some(Self::Memcg),
            "CONSTRAINT_NONE" => Some(Self::Global),
            "CONSTRAINT_CPUSET" => Some(Self::Cpuset),
            "CONSTRAINT_MEMORY_POLICY" => Some(Self::Mempolicy),
            _ => None,
        }
    }

    /// Returns the kernel's name of the constraint, as `oom.constraint` has it in the JSON.
    pub fn constraint(self) -> &'static str {
        match self {
            Self::Memcg => "memcg",
            Self::Global => "none",
            Self::Cpuset => "cpuset",
            Self::Mempolicy => "mempolicy",
            Self::Sysrq => "sysrq",
        }
    }
}

/// A process that a cause names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessRef {
    /// Its pid.
    pub pid: Pid,
    /// Its name.
    pub comm: String,
    /// Its user.
    pub uid: Option<u32>,
}

impl ProcessRef {
    /// Returns the sender of a signal, or the process that ran when the kernel sent it.
    pub fn of(sender: &Sender) -> Self {
        Self {
            pid: sender.process.pid,
            comm: sender.comm.clone(),
            uid: Some(sender.uid),
        }
    }
}

/// A resource with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// CPU time, at the soft limit (`RLIMIT_CPU`, SIGXCPU).
    CpuTime,
    /// CPU time, at the hard limit (`RLIMIT_CPU`, SIGKILL).
    CpuTimeHard,
    /// The size of a file (`RLIMIT_FSIZE`, SIGXFSZ).
    FileSize,
}

impl Cause {
    /// Returns the cause for a signal of unknown origin.
    pub fn signal(signal: i32) -> Self {
        Self::Signal {
            signal,
            sender: None,
        }
    }

    /// Returns the cause for a process that exited by itself with a code.
    pub fn exit(code: i32) -> Self {
        Self::Exit {
            code: Some(code),
            exception: None,
            creating_actor: false,
        }
    }

    /// Whether a worker failed, even if its process exited with 0.
    pub(crate) fn is_failed_exit(&self) -> bool {
        matches!(
            self,
            Self::Exit {
                code: Some(1..),
                ..
            } | Self::Exit {
                creating_actor: true,
                ..
            }
        )
    }

    /// Whether NCCL ended it, after a collective operation had failed or timed out. Any rank of the
    /// collective may be the reason.
    pub(crate) fn is_of_collective(&self) -> bool {
        matches!(self, Self::Crash { says: Some(says), .. } if says.contains("NCCL"))
    }

    /// Returns what a text does not tell if this is the first cause that it names: `what ended its
    /// owner`. `None` if the cause does not follow from something else.
    pub fn untold(&self) -> Option<&'static str> {
        Some(match self {
            Self::OwnerDied { .. } => "what ended its owner",
            Self::OwnersNodeCrashed => "what happened to its owner's node",
            Self::NodeDead { .. } => "what happened to its node",
            Self::AgentDied { .. } => "what ended the agent",
            Self::GcsLost => "why the GCS did not answer",
            Self::RayletDied { .. } | Self::EndedWithRaylet { .. } => "what ended its raylet",
            Self::SiblingDied { .. } => "what ended the other process",
            cause if cause.is_of_collective() => "whether another rank had ended before",
            _ => return None,
        })
    }

    /// Returns the cause for a request of the program, in Ray's own words.
    pub fn asked(says: impl Into<String>) -> Self {
        Self::RayRequest {
            request: Request::Other,
            says: Some(says.into()),
        }
    }

    /// Returns the cause for a request of the program that Ray names.
    pub fn requested(request: Request) -> Self {
        Self::RayRequest {
            request,
            says: None,
        }
    }
}
