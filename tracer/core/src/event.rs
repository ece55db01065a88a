//! Defines the [`Event`]: one thing that was observed, with its time and its source.
//!
//! An event is never an opinion. Every stage shares this type: observers make events, the recording
//! keeps them, `judge` reads them. Nothing here does I/O. A field that the observer could not read
//! is `None`, never a guess.

use serde::{Deserialize, Serialize};

mod call;
mod clock;
mod death;
mod figures;
mod gpu;
mod interference;
mod limit_warning;
mod log;
mod memory;
mod process;
mod recorder;
mod stack;

pub use call::Call;
pub use clock::ClockError;
pub use death::{
    Ancestor, CgroupLevel, Exit, FileId, OomVictim, PendingSignals, Sender, ShortOf, Signal,
    SystemCall,
};
pub use figures::Figures;
pub use gpu::{GpuHolder, GpuState};
pub use interference::{Interference, Way};
pub use limit_warning::{ForecastProcess, LimitOwner, LimitWarning, Within};
pub use log::{KernelLog, RayLog};
pub use memory::{
    CgroupState, Mapped, MemoryPart, MemorySplit, MonitorCount, NodeMemory, OutsideMemory,
    ProcessMemory, SharedFile, SharedMemory, Step,
};
pub use process::{Cluster, Exec, PodNames, Process, SlurmJob, Worker};
pub use recorder::{
    INTERFERENCE_BY, Ledger, Mode, OF_FUNCTIONS, PROCESS_EVENTS, Part, Previous, Probe, ProbeState,
    RecordingStarted, SIGNALS_BY, TITLES_OF,
};
pub use stack::{NativeFrame, PythonFrame, PythonStack, Unsampled};

use crate::ids::{BootTime, Bytes, EventId, ProcessKey, WallTime};
pub use crate::ray::role::Role;

/// One observation.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The row in the recording. Ids grow in the order in which events were received, which can
    /// differ from the order of their times.
    pub id: EventId,
    /// When it happened (not when it was read), as exactly as the source says.
    pub time: BootTime,
    /// Who reports it.
    pub source: Source,
    /// What was seen.
    pub what: Observation,
}

/// Where an event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// An eBPF program: the act itself was observed.
    Kernel,
    /// `/dev/kmsg`.
    Kmsg,
    /// A pidfd and its `PIDFD_INFO_EXIT`.
    Pidfd,
    /// /proc.
    Proc,
    /// A file of the cgroup file system.
    Cgroup,
    /// A log file that Ray's own components write (raylet, `gcs_server`).
    RayLog,
    /// A log file that a worker process writes itself. It can be true about that worker, never
    /// about others.
    WorkerLog,
    /// NVML.
    Nvml,
    /// Ray's GCS, asked by gRPC.
    Gcs,
    /// The recorder itself.
    Recorder,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Observation {
    /// The recorder began; first event of a recording.
    RecordingStarted(RecordingStarted),
    /// The recorder ended as asked; absent after a crash.
    RecordingEnded,
    /// The wall clock at the event's boot time. Written at the start, then each minute and whenever
    /// the wall clock is set.
    Clock {
        /// The wall clock.
        wall: WallTime,
        /// How far the wall clock may be off, where the kernel says so.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<ClockError>,
    },
    /// The state of one probe, at attach and at each change.
    Probe(Probe),
    /// The loss ledger of one hook up to now. The last one counts.
    Ledger(Ledger),
    /// A raylet and its session.
    Cluster(Cluster),
    /// A process as /proc shows it: at attach, soon after exec, or when it first became of
    /// interest.
    Process(Process),
    /// What ties a process to a Ray worker: its command line, or the name of a file that it holds
    /// open.
    Worker(Worker),
    /// A tracked process made a child process (threads are not reported).
    Fork {
        /// The parent.
        parent: ProcessKey,
        /// The new process.
        child: ProcessKey,
    },
    /// A tracked process (or one whose new program is Ray's) replaced its program.
    Exec(Exec),
    /// The title changed: argv as the process itself rewrote it. Ray titles say what runs:
    /// `ray::Class.method`.
    Title {
        /// The process.
        process: ProcessKey,
        /// The new title, trailing NULs removed.
        title: String,
        /// Its memory at that moment, where the kernel reported it.
        #[serde(default)]
        memory: MemorySplit,
    },
    /// A worker ran a method or a task.
    Call(Call),
    /// `signal_generate`: a signal was sent to a tracked process.
    Signal(Signal),
    /// `signal_deliver` with the default action of a core-dumping signal: the process dies of it
    /// now.
    Delivered {
        /// The process.
        process: ProcessKey,
        /// Signal number.
        signal: i32,
        /// `si_code`.
        code: i32,
    },
    /// Another process was seen to trace a tracked process, or wrote into its memory.
    Interference(Interference),
    /// `oom/mark_victim`.
    OomVictim(OomVictim),
    /// A tracked process ended: its last thread exited.
    Exit(Exit),
    /// A parsed line of the kernel log.
    Kmsg(KernelLog),
    /// A parsed record of one of Ray's log files.
    RayLog(RayLog),
    /// A memory cgroup on the path of a tracked process: limits, use and kills.
    Cgroup(CgroupState),
    /// The settings and packages of a driver.
    DriverSettings {
        /// The driver.
        process: ProcessKey,
        /// The `RAY_*` variables of its environment, in the order of their names. Only those that
        /// tune Ray have their values.
        settings: Vec<(String, String)>,
        /// The frameworks that are installed beside Ray, with their versions. Those that the driver
        /// imports from a folder of its own are left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        packages: Vec<(String, String)>,
    },
    /// `/dev/shm` as a raylet sees it.
    SharedMemory(SharedMemory),
    /// A file that is shared memory. Written when its size or its holders changed.
    SharedFile(SharedFile),
    /// A large range of addresses for a new mapping. Mostly, the memory is about to be touched.
    Mapped(Mapped),
    /// The last steps of a dead process's memory, taken in the kernel.
    Steps {
        /// The process.
        process: ProcessKey,
        /// The oldest first.
        steps: Vec<Step>,
    },
    /// Memory of one process.
    Memory(ProcessMemory),
    /// Memory of a process outside Ray while a limit is near; nothing once the process is gone or
    /// small.
    Outside(OutsideMemory),
    /// Memory of the machine.
    Node(NodeMemory),
    /// What a raylet's memory monitor counts, as raytrace reads it.
    Monitor(MonitorCount),
    /// A limit that is about to be hit, or no longer is.
    #[serde(alias = "near")]
    LimitWarning(LimitWarning),
    /// Memory of a GPU, by NVML.
    Gpu(GpuState),
    /// What a Python thread was doing when its process grew, or when its stack was read.
    Stack(PythonStack),
    /// A Python process gave memory back.
    Freed {
        /// The process.
        process: ProcessKey,
        /// The mapping that held the private memory, numbered as in [`PythonStack`]; `None` for all
        /// other memory.
        mapping: Option<u32>,
        /// How much.
        bytes: Bytes,
    },
    /// The stacks of a process cannot be read, and why.
    NoStack {
        /// The process.
        process: ProcessKey,
        /// Why not.
        reason: String,
    },
}

impl Observation {
    /// Returns the process that the event is about: the child of a fork, the target of a signal,
    /// the raylet of a cluster.
    pub fn subject(&self) -> Option<ProcessKey> {
        match self {
            Self::Cluster(cluster) => Some(cluster.raylet),
            Self::Process(process) => Some(process.process),
            Self::Worker(worker) => Some(worker.process),
            Self::Fork { child, .. } => Some(*child),
            Self::Exec(exec) => Some(exec.process),
            Self::Call(call) => Some(call.process),
            Self::Title { process, .. }
            | Self::Delivered { process, .. }
            | Self::DriverSettings { process, .. }
            | Self::Steps { process, .. }
            | Self::Freed { process, .. }
            | Self::NoStack { process, .. } => Some(*process),
            Self::Signal(signal) => Some(signal.target),
            Self::Interference(act) => Some(act.process),
            Self::OomVictim(victim) => Some(victim.victim),
            Self::Exit(exit) => Some(exit.process),
            Self::Mapped(mapped) => Some(mapped.process),
            Self::Memory(sample) => Some(sample.process),
            Self::Outside(outside) => Some(outside.process),
            Self::Monitor(count) => Some(count.raylet),
            Self::Stack(stack) => Some(stack.process),
            Self::RecordingStarted(_)
            | Self::RecordingEnded
            | Self::Clock { .. }
            | Self::Probe(_)
            | Self::Ledger(_)
            | Self::Kmsg(_)
            | Self::RayLog(_)
            | Self::Cgroup(_)
            | Self::SharedMemory(_)
            | Self::SharedFile(_)
            | Self::Node(_)
            | Self::LimitWarning(_)
            | Self::Gpu(_) => None,
        }
    }

    /// Whether an event can change a verdict that was given before.
    pub fn bears_on_verdicts(&self) -> bool {
        match self {
            Self::Signal(_)
            | Self::Delivered { .. }
            | Self::Interference(_)
            | Self::OomVictim(_)
            | Self::Exit(_)
            | Self::Kmsg(_)
            | Self::RayLog(_)
            // Events that describe processes.
            | Self::Cluster(_)
            | Self::Process(_)
            | Self::Worker(_)
            | Self::Fork { .. }
            | Self::Exec(_)
            | Self::Title { .. }
            | Self::Call(_)
            // Events that say what could be seen, and when.
            | Self::RecordingStarted(_)
            | Self::Clock { .. }
            | Self::Probe(_)
            | Self::Ledger(_) => true,
            Self::RecordingEnded
            | Self::Cgroup(_)
            | Self::DriverSettings { .. }
            | Self::SharedMemory(_)
            | Self::SharedFile(_)
            | Self::Mapped(_)
            | Self::Steps { .. }
            | Self::Outside(_)
            | Self::Memory(_)
            | Self::Gpu(_)
            | Self::Node(_)
            | Self::LimitWarning(_)
            | Self::Monitor(_)
            | Self::Stack(_)
            | Self::Freed { .. }
            | Self::NoStack { .. } => false,
        }
    }
}
