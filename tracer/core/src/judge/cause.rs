//! Why a process ended, as data: what both judges, of events and of texts, conclude, and what every view makes its words from.
//!
//! A cause says what was found and no more. Who that makes the killer, and how sure it is, stands beside it in the verdict. Words of
//! other programs (`says`, `exception`) are kept as they were printed and are never read again.

mod request;

use serde::Serialize;

pub use request::{Command, Request};

use crate::{
    event::{Role, Sender},
    ids::{Bytes, Pid},
};

/// Why a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cause {
    /// The kernel's OOM killer chose it.
    KernelOom(KernelOom),
    /// The kernel's OOM killer chose a process whose memory it shared.
    SharedVictimsMemory {
        /// That process.
        victim_pid: Pid,
    },
    /// The kernel's OOM killer marked it and took its memory; it may have been dying already.
    OomReaped,
    /// Ray's memory monitor chose it.
    RayMemoryMonitor {
        /// What the monitor counted on the node.
        used_bytes: Option<Bytes>,
        /// Its threshold.
        threshold_bytes: Option<Bytes>,
    },
    /// Both claim it, and neither is known to have come first.
    RayMemoryMonitorOrKernelOom,
    /// One digit of a raylet's says that memory was the reason (`disconnect_type=4`), and nothing beside it does.
    RayMemoryDigit,
    /// Ray's table of memory users alone, which its memory monitor prints with a kill.
    RayMemoryTable,
    /// A program of user space ended it for memory, by its own words.
    MemoryDaemon {
        /// `earlyoom`, `systemd-oomd`, `kubelet`, `slurmstepd`.
        name: String,
        /// Its reason.
        says: String,
    },

    /// A signal that another process sent.
    Signal {
        /// Its number.
        signal: i32,
        /// Who sent it; `None` where that is not known.
        sender: Option<ProcessRef>,
    },
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
        /// Whether it was one of `timer_create`.
        created: bool,
    },
    /// A message in a queue, at which it had asked for a signal (`mq_notify`).
    MessageQueue {
        /// Its signal.
        signal: i32,
        /// Who sent the message.
        sent_by: ProcessRef,
    },
    /// A file that had become ready, for which somebody had arranged a signal (`fcntl`, `F_SETSIG`).
    FileReady {
        /// Its signal.
        signal: i32,
        /// Who ran at that moment.
        running: ProcessRef,
    },
    /// Another process ended: a child that it had cloned with this as its exit signal, or one that had a file open for which somebody
    /// had arranged a signal.
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
        /// Who ran at that moment.
        running: ProcessRef,
    },
    /// A limit on what a process may use.
    ResourceLimit {
        /// The limit.
        limit: Resource,
    },
    /// A system call that seccomp forbids.
    Seccomp,
    /// The memory that it used is broken.
    HardwareMemoryError,
    /// The first process of its pid namespace ended.
    PidNamespaceExit {
        /// That process.
        init_pid: Pid,
    },
    /// Its tracer ended, which had asked for its death (`PTRACE_O_EXITKILL`).
    TracerExit {
        /// The tracer.
        tracer_pid: Pid,
    },
    /// It was stopped, and the last process ended that could have continued it (`kill_orphaned_pgrp`).
    StoppedThenOrphaned {
        /// That process.
        ended: ProcessRef,
    },
    /// The kernel sent SIGKILL by itself, and nothing says why.
    KernelUnexplained,

    /// It caught what `cause` sent, and exited.
    CaughtSignalThenExit {
        /// Whose signal it was.
        cause: Box<Cause>,
        /// Its exit code.
        exit_code: Option<i32>,
    },
    /// It re-raised the signal that `cause` had sent.
    CaughtSignalThenReraise {
        /// Whose signal it was.
        cause: Box<Cause>,
    },
    /// It caught what `cause` had sent, and aborted (SIGABRT) while it ended.
    CaughtSignalThenAbort {
        /// Whose signal it was.
        cause: Box<Cause>,
    },
    /// It caught what `cause` had sent, and its raylet ended what was left.
    CaughtSignalThenRaylet {
        /// Whose signal it was.
        cause: Box<Cause>,
    },

    /// A fault of its own.
    Crash {
        /// The signal.
        signal: Option<i32>,
        /// The line that says so, where a log does.
        says: Option<String>,
        /// Whether a full `/dev/shm` does that too.
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
    /// It exited by itself, by Ray's record, and its raylet then ended what was left.
    ExitThenRaylet {
        /// Its code.
        code: i32,
    },
    /// It exited by itself, or because of a SIGTERM, which was not seen.
    ExitOrSigterm {
        /// Its code.
        code: i32,
        /// The last exception that it reported.
        exception: Option<String>,
        /// Whether its raylet then ended what was left.
        raylet_ended_rest: bool,
    },
    /// It exited at a SIGTERM, by its own log.
    ExitAtSigterm {
        /// Its code.
        code: i32,
        /// Whether it had sent that to itself; else nobody was seen to send it.
        own: bool,
    },

    /// A command of Ray's.
    RayCommand {
        /// The command.
        command: Command,
        /// The process that ran it.
        pid: Pid,
        /// Whether it told the raylet, which ended its processes.
        by_raylet: bool,
    },
    /// The program asked Ray for it.
    RayRequest {
        /// What it asked for.
        request: Request,
        /// Ray's words, where no other field has them.
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
        /// Whether the supervisor died, rather than ended as it should.
        died: bool,
    },

    /// Its owner had died.
    OwnerDied {
        /// Ray's word for what had: `owner died`, `owner's node died`.
        says: Option<String>,
        /// The part that the owner plays, where it ended later than this process: it had left Ray, and Ray calls that its death too.
        owner_lived: Option<Role>,
    },
    /// The node of its owner had crashed.
    OwnersNodeCrashed,
    /// Ray counts its node as dead.
    NodeDead {
        /// Ray's words.
        says: Option<String>,
    },
    /// Its node was drained: it was idle, or about to be taken away.
    NodeDrained {
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
    /// Its raylet had gone.
    RayletDied {
        /// The raylet, where it is known.
        raylet_pid: Option<Pid>,
        /// Whether it says so itself; else the order of events does.
        by_own_log: bool,
    },
    /// The dashboard that had started it had ended.
    DashboardGone {
        /// The dashboard.
        dashboard_pid: Pid,
    },
    /// Its raylet ended at about the same time, and that takes its workers along.
    EndedWithRaylet {
        /// The raylet, where it is known.
        raylet_pid: Option<Pid>,
    },
    /// Its raylet was shutting down.
    RayletShutdown {
        /// Who had told it to.
        requested_by: Option<ProcessRef>,
    },
    /// Its raylet ended it and gave no reason that is known.
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
        /// Whether the raylet did it for the worker.
        by_raylet: bool,
    },
    /// `ray start --block` ended it because another process of its had died.
    SiblingDied {
        /// `ray start --block`.
        starter_pid: Pid,
        /// The process that had died.
        sibling: ProcessRef,
    },
    /// Ray's record says that it was meant to end, and not what for.
    Intended,

    /// It ended suddenly: an OOM kill, `kill -9`, a crash and `os._exit` look alike.
    SuddenEnd,
    /// It ended, and nothing says why.
    Unexplained,
    /// It ended, and nothing says how.
    NotSeen,
}

/// A kill by the kernel's OOM killer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct KernelOom {
    /// Which memory was full; `None` where that is not known.
    pub scope: Option<Scope>,
    /// The cgroup that was at its limit.
    pub cgroup: Option<String>,
    /// That limit.
    pub limit_bytes: Option<Bytes>,
    /// What was being charged: `anonymous memory`, `page cache`, …
    pub charged: Option<String>,
    /// The name of the process that asked for memory.
    pub invoker: Option<String>,
    /// Who says so, where it is not the kernel: `systemd`.
    pub reported_by: Option<String>,
}

/// Which memory was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
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
    /// None: somebody asked for the kill (sysrq `f`).
    Sysrq,
}

impl Scope {
    /// What the kernel prints of its constraint: `CONSTRAINT_MEMCG` (`oom_constraint_text` of `mm/oom_kill.c`).
    #[must_use]
    pub fn parse(constraint: &str) -> Option<Self> {
        match constraint {
            "CONSTRAINT_MEMCG" => Some(Self::Memcg),
            "CONSTRAINT_NONE" => Some(Self::Global),
            "CONSTRAINT_CPUSET" => Some(Self::Cpuset),
            "CONSTRAINT_MEMORY_POLICY" => Some(Self::Mempolicy),
            _ => None,
        }
    }

    /// The name of the kernel's constraint, as `oom.constraint` has it in the JSON.
    #[must_use]
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
pub struct ProcessRef {
    /// Its pid.
    pub pid: Pid,
    /// Its name.
    pub comm: String,
    /// Its user.
    pub uid: Option<u32>,
}

impl ProcessRef {
    /// Whoever a signal came from, or who ran when the kernel sent it.
    #[must_use]
    pub fn of(sender: &Sender) -> Self {
        Self {
            pid: sender.process.pid,
            comm: sender.comm.clone(),
            uid: Some(sender.uid),
        }
    }
}

/// What a process may use only so much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
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
    /// A signal of unknown origin.
    #[must_use]
    pub fn signal(signal: i32) -> Self {
        Self::Signal {
            signal,
            sender: None,
        }
    }

    /// An exit with a code, by itself.
    #[must_use]
    pub fn exit(code: i32) -> Self {
        Self::Exit {
            code: Some(code),
            exception: None,
            creating_actor: false,
        }
    }

    /// Whether a worker failed, also where its process exited with 0.
    #[must_use]
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

    /// A request of the program's, in Ray's own words.
    #[must_use]
    pub fn asked(says: impl Into<String>) -> Self {
        Self::RayRequest {
            request: Request::Other,
            says: Some(says.into()),
        }
    }

    /// A request of the program's that Ray names.
    #[must_use]
    pub fn requested(request: Request) -> Self {
        Self::RayRequest {
            request,
            says: None,
        }
    }
}
