//! The [`Event`]: one thing that was observed, with its time and its source; never an opinion.
//!
//! Every stage shares this type: observers make events, the recording keeps them, `judge` reads them. Nothing
//! here does I/O. A field that the observer could not read is `None`, never a guess.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{BootTime, Bytes, EventId, HexId, Pid, ProcessKey, WallTime},
    ray::facts::RayFact,
};

/// One observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The row in the recording; ids grow in the order in which events were received, which is not always
    /// that of their times.
    pub id: EventId,
    /// When it happened (not when it was read), as exactly as the source says.
    pub time: BootTime,
    /// Who says so.
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
    /// A log file that a worker process writes itself: true about the worker at most, never about others.
    WorkerLog,
    /// Text handed to `explain`.
    Text,
    /// NVML.
    Nvml,
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
    /// The wall clock at the event's boot time; written at the start, then each minute and at each step.
    Clock {
        /// The wall clock.
        wall: WallTime,
    },
    /// The state of one probe, at attach and at each change.
    Probe(Probe),
    /// The loss ledger of one hook so far; the last one counts.
    Ledger(Ledger),
    /// A raylet and its session.
    Cluster(Cluster),
    /// A process as /proc shows it: at attach, soon after exec, or when it was first of interest.
    Process(Process),
    /// What ties a process to a Ray worker: a file name that it holds open, or its command line.
    Worker(Worker),
    /// A tracked process made a child process (threads are not reported).
    Fork {
        /// Who forked.
        parent: ProcessKey,
        /// The new process.
        child: ProcessKey,
    },
    /// A tracked process (or one whose new program is Ray's) replaced its program.
    Exec(Exec),
    /// The title (argv as the process itself rewrote it) changed; Ray titles say what runs: `ray::Class.method`.
    Title {
        /// Whose.
        process: ProcessKey,
        /// The new title, trailing NULs removed.
        title: String,
    },
    /// `signal_generate`: a signal was sent to a tracked process.
    Signal(Signal),
    /// `signal_deliver` with the default action for a core-dumping signal: the process dies of it now.
    Delivered {
        /// Whose.
        process: ProcessKey,
        /// Signal number.
        signal: i32,
        /// `si_code`.
        code: i32,
    },
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
    /// The `RAY_*` variables of a driver's environment, values included.
    DriverSettings {
        /// The driver.
        process: ProcessKey,
        /// In order of their names.
        settings: Vec<(String, String)>,
    },
    /// `/dev/shm` as a raylet sees it.
    SharedMemory(SharedMemory),
    /// Memory of one process.
    Memory(ProcessMemory),
    /// Memory of the machine.
    Node(NodeMemory),
}

/// Facts about the machine and the recorder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordingStarted {
    /// raytrace's version.
    pub raytrace: String,
    /// Node name.
    pub host: String,
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// `MemTotal`.
    pub memory_bytes: Bytes,
    /// Logical CPUs online.
    pub cpus: u32,
    /// How it observes.
    pub mode: Mode,
    /// The wall clock at the event's boot time.
    pub wall: WallTime,
    /// The pid namespace of the recorder (inode number), where readable.
    pub pid_namespace: Option<u64>,
}

/// How a recording observes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// eBPF programs are attached: acts are observed.
    Ebpf,
    /// No privilege: pidfds, /proc, cgroup counters and logs.
    Procfs,
}

/// One hook or file that the recorder wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// `oom/mark_victim`, `/dev/kmsg`, …
    pub name: String,
    /// Whether it works.
    pub state: ProbeState,
    /// Why it does not, or which fall-back serves.
    pub reason: Option<String>,
    /// Whether verdicts can be proven without it (`--strict` fails when such a one is missing).
    pub required: bool,
}

/// Whether a probe works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeState {
    /// Attached.
    Ok,
    /// Attached by a fall-back that sees less.
    Degraded,
    /// Not there; `reason` says why.
    Missing,
}

/// The loss ledger of one hook: `seen = submitted + filtered + ring_full + map_full`, `received = written + dropped`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// The hook, as the probe's name.
    pub hook: String,
    /// Times the program ran to the point where it counts.
    pub seen: u64,
    /// Records put into the ring.
    pub submitted: u64,
    /// Events that the program chose not to report (not tracked, not fatal).
    pub filtered: u64,
    /// Lost: no room in the ring.
    pub ring_full: u64,
    /// Lost: no room in a map.
    pub map_full: u64,
    /// Lost: the program could not run because another one ran on that CPU; `None` where the kernel does not count.
    pub recursion_misses: Option<u64>,
    /// Records that user space took out of the ring.
    pub received: u64,
    /// Of these, handed to the recording.
    pub written: u64,
    /// Of these, dropped because a queue was full.
    pub dropped: u64,
}

impl Ledger {
    /// Events that are known to have been lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ring_full + self.map_full + self.dropped + self.recursion_misses.unwrap_or(0)
    }
}

/// A raylet and the session that it serves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// The raylet; it names the cluster on this machine.
    pub raylet: ProcessKey,
    /// The raylet's pid in its own pid namespace: the one that Ray's logs name.
    pub raylet_ns_pid: Pid,
    /// Session name, `session_2026-11-21_00-11-24_…`.
    pub session: Option<String>,
    /// The session's folder as the raylet sees it.
    pub session_dir: Option<String>,
    /// Ray's version, from the installed package's metadata beside the raylet's executable.
    pub ray_version: Option<String>,
    /// `--node_id` (or from the log).
    pub node_id: Option<HexId>,
    /// `--gcs-address`.
    pub gcs_address: Option<String>,
    /// Whether this node runs the GCS (`--head`).
    pub head: bool,
    /// `--object_store_memory`.
    pub object_store_bytes: Option<Bytes>,
    /// The container that the raylet runs in, from its cgroup path.
    pub container_id: Option<String>,
    /// The `RAY_*` variables of the raylet's environment, values included; no other variable is read.
    pub settings: Vec<(String, String)>,
    /// Seconds east of UTC of the raylet's local time, which its logs use (from its TZ and zone files).
    pub log_utc_offset_s: Option<i32>,
}

/// A process as /proc shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Which.
    pub process: ProcessKey,
    /// The pid in the innermost pid namespace (`NSpid`), when it differs.
    pub ns_pid: Option<Pid>,
    /// Parent.
    pub parent: Option<Pid>,
    /// Process group.
    pub process_group: Option<Pid>,
    /// Name of the leader thread, 15 bytes at most.
    pub comm: String,
    /// argv, at most 4 KiB of it; empty for kernel threads and when unreadable.
    pub argv: Vec<String>,
    /// Path of the executable.
    pub exe: Option<String>,
    /// Real user id.
    pub uid: Option<u32>,
    /// Path of its memory cgroup (v2: of its cgroup).
    pub cgroup: Option<String>,
    /// Container id, from the cgroup path.
    pub container_id: Option<String>,
    /// The raylet whose descendant or part it is.
    pub cluster: Option<ProcessKey>,
    /// Which part of Ray it plays, as far as its command line says.
    pub role: Role,
}

/// What a process is to Ray.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A worker of Ray's (tasks and actors run in it).
    Worker,
    /// A program that called `ray.init()`.
    Driver,
    /// `raylet`.
    Raylet,
    /// `gcs_server`.
    Gcs,
    /// The dashboard.
    Dashboard,
    /// The dashboard agent or runtime-env agent.
    Agent,
    /// A process that a worker or driver started.
    Descendant,
    /// Tracked for another reason (an ancestor of the raylet, a wrapped command).
    Other,
}

/// What ties a process to a Ray worker id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// The process.
    pub process: ProcessKey,
    /// Its worker id; a driver has one too.
    pub worker_id: HexId,
    /// Job id, where a file name or marker says it.
    pub job_id: Option<HexId>,
    /// The actor's class, from a `:actor_name:` marker or the title.
    pub actor_class: Option<String>,
    /// Whether it is the worker of a driver.
    pub driver: bool,
    /// Where this stands: a path or `argv`.
    pub from: String,
}

/// A new program in a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exec {
    /// Which.
    pub process: ProcessKey,
    /// Its parent at that moment.
    pub parent: Option<Pid>,
    /// The pid in its own pid namespace, when it differs.
    pub ns_pid: Option<Pid>,
    /// Name after exec.
    pub comm: String,
    /// argv as read in the kernel, at most 4 KiB.
    pub argv: Vec<String>,
    /// Real user id.
    pub uid: Option<u32>,
}

/// A signal sent to a tracked process (`signal/signal_generate`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// The target's thread group.
    pub target: ProcessKey,
    /// The target thread, when one thread was addressed.
    pub target_tid: Pid,
    /// Signal number.
    pub signal: i32,
    /// `si_code`: 0 `SI_USER`, 128 `SI_KERNEL`, −6 `SI_TKILL`, −1 `SI_QUEUE`; > 0 a fault.
    pub code: i32,
    /// Whether the whole group was addressed. (0 for the memory cgroup's own `cgroup.kill`: no filter for senders.)
    pub group: bool,
    /// 0 delivered, 1 ignored, 2 already pending, 3 overflow fail, 4 delivered without its siginfo.
    pub result: i32,
    /// Whether the target was already dying of a group exit before this signal; `None` when not knowable.
    /// The kernel sets it in `complete_signal`, before this event, so it says "now", see `took_effect`.
    pub group_exit: bool,
    /// `signal->group_exit_code` at this moment.
    pub group_exit_code: i32,
    /// The act that killed: result 0 or 4, the group-exit flag newly set by this very signal and the code
    /// equal to it. False for caught, blocked, ignored and late ones, and for core-dumping ones, whose
    /// [`Observation::Delivered`] tells.
    pub took_effect: bool,
    /// The target's `pdeath_signal`.
    pub parent_death_signal: i32,
    /// Who ran when it was sent: the sender for `SI_USER`, `SI_TKILL`, `SI_QUEUE`; for `SI_KERNEL` whoever
    /// happened to be on the CPU.
    pub sender: Sender,
}

/// Who sent a signal, taken in the kernel at that moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The sending process.
    pub process: ProcessKey,
    /// The sending thread.
    pub tid: Pid,
    /// Name of the process (its leader thread).
    pub comm: String,
    /// Real user id in the initial user namespace.
    pub uid: u32,
    /// `PF_EXITING`: the sender is in its own exit (parent-death signals are sent then).
    pub exiting: bool,
    /// `PF_KTHREAD`.
    pub kernel_thread: bool,
    /// Path of the executable inside its own mount, from its dentries; `None` for kernel threads.
    pub exe: Option<String>,
    /// Path of its memory cgroup (v1) or cgroup (v2), innermost last.
    pub cgroup: Option<String>,
    /// Its ancestors, nearest first, at most six.
    pub ancestors: Vec<Ancestor>,
    /// Container id, from its cgroup path.
    pub container_id: Option<String>,
}

/// An ancestor of a sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ancestor {
    /// Its thread group id.
    pub pid: Pid,
    /// Its name.
    pub comm: String,
}

/// `oom/mark_victim` with what stood around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OomVictim {
    /// The victim's thread group.
    pub victim: ProcessKey,
    /// The thread that was marked (the kernel may mark a thread, not the leader).
    pub victim_tid: Pid,
    /// Whether the kernel's own SIGKILL (code 128) by the same current task came just before. Without it
    /// the victim was dying already: not a kernel kill.
    pub signalled: bool,
    /// The victim's mm (an opaque number): processes that share it are killed with it.
    pub mm: u64,
    /// Who asked for the memory: not guilty for that.
    pub invoker: ProcessKey,
    /// Its name.
    pub invoker_comm: String,
    /// The kernel stack, outermost last, as symbol names without offsets; empty when kallsyms is hidden.
    pub stack: Vec<String>,
    /// The victim's memory cgroups from its own up to the root, with use and limit.
    pub cgroups: Vec<CgroupLevel>,
    /// `signal->oom_score_adj`.
    pub score_adj: i32,
    /// The victim's memory.
    pub memory: MemorySplit,
}

/// One level of a memory cgroup path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupLevel {
    /// Path from the root of the memory hierarchy.
    pub path: String,
    /// Bytes charged.
    pub usage: Bytes,
    /// Limit; `None` for no limit.
    pub limit: Option<Bytes>,
    /// Whether the process that asked for memory is in it too: only such a level can have been the limit.
    pub shared_with_invoker: bool,
}

/// A process's memory, as the kernel counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemorySplit {
    /// Anonymous pages.
    pub anon: Option<Bytes>,
    /// File pages.
    pub file: Option<Bytes>,
    /// Shared memory that it has mapped and touched.
    pub shmem: Option<Bytes>,
    /// Swap entries.
    pub swap: Option<Bytes>,
    /// Highest resident size.
    pub peak: Option<Bytes>,
}

impl MemorySplit {
    /// Resident memory, if any part is known.
    #[must_use]
    pub fn resident(&self) -> Option<Bytes> {
        let parts = [self.anon, self.file, self.shmem];
        parts
            .iter()
            .any(Option::is_some)
            .then(|| Bytes(parts.iter().flatten().map(|part| part.0).sum()))
    }
}

/// The end of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// Which.
    pub process: ProcessKey,
    /// The pid in its own pid namespace, when it differs.
    pub ns_pid: Option<Pid>,
    /// Its parent at that moment.
    pub parent: Option<Pid>,
    /// Its name at that moment.
    pub comm: String,
    /// Wait status as `wait(2)` would give it (`code << 8`, or the signal, `0x80` for a core dump); `None`
    /// where it could not be had (procfs mode on older kernels).
    pub status: Option<i32>,
    /// The title at that instant, read in its own context: what it was running.
    pub title: Option<String>,
    /// Its memory at that instant, or at its first fatal delivery on kernels that free it first.
    pub memory: MemorySplit,
    /// `mm` as in [`OomVictim`].
    pub mm: u64,
    /// Real user id.
    pub uid: Option<u32>,
    /// Whether it was found in the kernel's table later, because the ring was full.
    pub harvested: bool,
}

impl Exit {
    /// The signal that ended it, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status
            .map(|status| status & 0x7f)
            .filter(|signal| *signal != 0)
    }

    /// Its exit code, if it exited by itself.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status
            .filter(|status| status & 0x7f == 0)
            .map(|status| (status >> 8) & 0xff)
    }
}

/// A parsed line of the kernel log. Pids are those of the initial namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum KernelLog {
    /// `NAME invoked oom-killer: gfp_mask=…, order=…, oom_score_adj=…`
    Invoked {
        /// Who asked for memory.
        comm: String,
        /// The request.
        gfp_mask: String,
    },
    /// `oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=…,task_memcg=…,task=…,pid=…,uid=…`
    OomKill {
        /// `CONSTRAINT_MEMCG`, `CONSTRAINT_NONE`, `CONSTRAINT_CPUSET`, `CONSTRAINT_MEMORY_POLICY`.
        constraint: String,
        /// The cgroup at its limit; `None` for a global one.
        oom_memcg: Option<String>,
        /// The victim's cgroup.
        task_memcg: Option<String>,
        /// The victim's name; may hold any character.
        comm: String,
        /// The victim.
        pid: Pid,
        /// Its user.
        uid: u32,
    },
    /// `Killed process …`, with `Memory cgroup out of memory:` or `Out of memory:` before it.
    Killed {
        /// The victim.
        pid: Pid,
        /// Its name.
        comm: String,
        /// Whether the line says "Memory cgroup out of memory".
        memcg: bool,
        /// `anon-rss`.
        anon: Bytes,
        /// `file-rss`.
        file: Bytes,
        /// `shmem-rss`; `None` before Linux 4.4.
        shmem: Option<Bytes>,
        /// `oom_score_adj`; `None` before Linux 5.4.
        score_adj: Option<i32>,
    },
    /// `Tasks in … are going to be killed due to memory.oom.group set`
    OomGroup {
        /// The cgroup whose every process dies.
        cgroup: String,
    },
    /// `NAME[PID]: segfault at …` and the like.
    Fault {
        /// Who.
        comm: String,
        /// Thread id.
        pid: Pid,
        /// The line.
        text: String,
    },
}

/// A parsed record of one of Ray's logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RayLog {
    /// The cluster whose session holds the file; `None` in `explain`.
    pub cluster: Option<ProcessKey>,
    /// File name below the session's `logs` folder.
    pub file: String,
    /// Local time as printed, nanoseconds since 1970 without zone; `None` where the line has none.
    pub local_time: Option<i64>,
    /// The record's first line, at most 300 bytes: the evidence that is shown.
    pub text: String,
    /// What it says.
    pub fact: RayFact,
}

/// The file system at `/dev/shm`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedMemory {
    /// The raylet in whose mounts it was looked at.
    pub raylet: ProcessKey,
    /// Its size.
    pub total: Bytes,
    /// In use.
    pub used: Bytes,
}

/// A memory cgroup's figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupState {
    /// Path from the root of the memory hierarchy.
    pub path: String,
    /// Bytes charged.
    pub usage: Bytes,
    /// Limit; `None` for no limit.
    pub limit: Option<Bytes>,
    /// Kills by its OOM killer so far; `None` where the file is not readable.
    pub oom_kills: Option<u64>,
}

/// Memory of one process, sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMemory {
    /// Which.
    pub process: ProcessKey,
    /// Its memory; `peak` only where /proc/PID/status was read.
    pub memory: MemorySplit,
}

/// Memory of the machine and what Ray's monitor makes of it, sampled.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeMemory {
    /// `MemTotal`.
    pub total: Bytes,
    /// `MemAvailable`.
    pub available: Bytes,
    /// `MemFree`.
    pub free: Bytes,
    /// `Shmem`.
    pub shmem: Bytes,
    /// `SwapTotal` − `SwapFree`.
    pub swap_used: Bytes,
}
