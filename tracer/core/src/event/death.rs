//! Defines what the kernel reports about deaths: signals, the OOM killer's choice, exits.

use serde::{Deserialize, Serialize};

use super::MemorySplit;
use crate::ids::{Bytes, Pid, ProcessKey};

/// A signal sent to a tracked process (`signal/signal_generate`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// The target's thread group.
    pub target: ProcessKey,
    /// The target thread, when one thread was addressed.
    pub target_tid: Pid,
    /// Signal number.
    pub signal: i32,
    /// `si_code`: 0 `SI_USER`, 128 `SI_KERNEL`, −6 `SI_TKILL`, −1 `SI_QUEUE`; > 0 a fault.
    pub code: i32,
    /// Whether the whole thread group was addressed. False for a kill by `cgroup.kill`, so it
    /// cannot be used to filter senders.
    pub group: bool,
    /// 0 delivered, 1 ignored, 2 already pending, 3 overflow fail, 4 delivered without its siginfo.
    pub result: i32,
    /// Whether a group exit was under way, read after the signal was queued. The kernel sets the
    /// flag in `complete_signal`, before this event, so this signal itself may have set it: see
    /// `took_effect`.
    pub group_exit: bool,
    /// `signal->group_exit_code` at this moment.
    pub group_exit_code: i32,
    /// Whether this signal killed: the result is 0 or 4, this signal newly set the group-exit flag,
    /// and the code equals the signal. False for a signal that is caught, blocked, ignored or late,
    /// and for a core-dumping one, which [`super::Observation::Delivered`] reports.
    pub took_effect: bool,
    /// The target's `pdeath_signal`.
    pub parent_death_signal: i32,
    /// The task that ran when the signal was sent: its sender, or any task that was on the CPU when
    /// the kernel sent it.
    pub sender: Sender,
    /// The system call that this task was in, which tells the two cases apart. `None` where it is
    /// not known.
    pub call: Option<SystemCall>,
    /// The process that traced the target then, or the sender where both are one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracer: Option<Ancestor>,
}

/// The system call that a task is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemCall {
    /// Its name, or `#NUMBER` for a call that has no bearing on signals. Empty where the task is in
    /// no system call: in user space, or a kernel thread.
    pub name: String,
    /// Its first arguments.
    pub arguments: [i64; 3],
}

/// Identifies a file to the kernel, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileId {
    /// Its inode.
    pub inode: u64,
    /// The kernel's number of its file system (`s_dev`).
    pub device: u64,
}

/// The sender of a signal, read in the kernel at that moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Whether its whole process was, and not this thread alone; `None` in recordings of earlier
    /// versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_exiting: Option<bool>,
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
    /// Effective user id.
    pub effective_uid: Option<u32>,
    /// Saved user id.
    pub saved_uid: Option<u32>,
    /// The executable itself.
    pub file: Option<FileId>,
    /// Its command line, at most 384 bytes: as its last exec received it, or, if that exec was not
    /// seen, as the process showed it then.
    #[serde(default)]
    pub argv: Vec<String>,
    /// Whether that exec was seen. If not, the process may have rewritten `argv`.
    #[serde(default)]
    pub exec_seen: bool,
    /// Whether it has the target's root folder, and its mounts have the same owner. Only then is a
    /// path the same file for both.
    #[serde(default)]
    pub same_root: bool,
}

/// An ancestor of a sender, or a tracer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ancestor {
    /// Its thread group id.
    pub pid: Pid,
    /// Its name.
    pub comm: String,
}

/// `oom/mark_victim` and the state around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OomVictim {
    /// The victim's thread group.
    pub victim: ProcessKey,
    /// The thread that was marked (the kernel may mark a thread, not the leader).
    pub victim_tid: Pid,
    /// Whether the kernel's own SIGKILL (code 128) by the same current task came just before.
    /// Without it, the victim was dying already, and this is no kernel kill.
    pub signalled: bool,
    /// The victim's mm (an opaque number). Processes that share it are killed with it.
    pub mm: u64,
    /// The process that asked for memory. It need not be the cause.
    pub invoker: ProcessKey,
    /// Its name.
    pub invoker_comm: String,
    /// The kernel stack, outermost last, as symbol names without offsets; empty when kallsyms is
    /// hidden.
    pub stack: Vec<String>,
    /// What was short of memory; `None` if that was not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_of: Option<ShortOf>,
    /// The victim's memory cgroups from its own upwards, with use and limit. If the last one is not
    /// the root, not all were read, and the paths lack their beginning.
    pub cgroups: Vec<CgroupLevel>,
    /// `signal->oom_score_adj`.
    pub score_adj: i32,
    /// The victim's memory.
    pub memory: MemorySplit,
}

/// The bytes of a cgroup's name that earlier recordings have at most.
const SHORT_NAME: usize = 95;

impl OomVictim {
    /// Returns whether all cgroups of the victim were read, up to the root.
    pub fn has_all_cgroups(&self) -> bool {
        self.cgroups.last().is_some_and(|root| root.path == "/")
    }

    /// Returns the path of one of the cgroups; `None` if not all of it was read.
    pub fn path<'a>(&self, level: &'a CgroupLevel) -> Option<&'a str> {
        let may_be_cut = |name: &str| level.id == 0 && name.len() >= SHORT_NAME;
        let is_whole = self.has_all_cgroups() && !level.path.split('/').any(may_be_cut);
        is_whole.then_some(&level.path)
    }
}

/// What was short of memory, by the argument of the kernel's `out_of_memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShortOf {
    /// A memory cgroup, at its limit.
    Cgroup {
        /// As in [`CgroupLevel`].
        id: u64,
    },
    /// The machine.
    Machine,
    /// The memory nodes of a cpuset.
    Cpuset,
    /// The memory nodes of a memory policy.
    Mempolicy,
    /// Nothing: the kill was invoked by hand (sysrq `f`).
    ByHand,
}

/// One level of a memory cgroup path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupLevel {
    /// The kernel's number of the cgroup, which no later cgroup gets; 0 if it was not read.
    #[serde(default)]
    pub id: u64,
    /// Path from the root of the memory hierarchy.
    pub path: String,
    /// Bytes charged.
    pub usage: Bytes,
    /// Limit; `None` for no limit.
    pub limit: Option<Bytes>,
    /// How often its own limit was hit and nothing could be reclaimed (`oom` of
    /// `memory.events.local`). The kernel raises it before it chooses a victim.
    #[serde(default)]
    pub oom_events: u64,
}

/// The end of a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// The process.
    pub process: ProcessKey,
    /// The pid in its own pid namespace, when it differs.
    pub ns_pid: Option<Pid>,
    /// Its parent at that moment.
    pub parent: Option<Pid>,
    /// Its name at that moment.
    pub comm: String,
    /// Wait status as `wait(2)` would give it (`code << 8`, or the signal, `0x80` for a core dump);
    /// `None` where it could not be read (procfs mode on older kernels).
    pub status: Option<i32>,
    /// The title at that moment, read in the context of the process: what it was running.
    pub title: Option<String>,
    /// Its memory at that moment, or at its first fatal delivery on kernels that free it earlier.
    pub memory: MemorySplit,
    /// `mm` as in [`OomVictim`].
    pub mm: u64,
    /// Real user id.
    pub uid: Option<u32>,
    /// Whether the exit was found later in the kernel's table, because the ring was full.
    pub harvested: bool,
    /// The process that traced its last thread, or its first one, when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracer: Option<Ancestor>,
    /// Its pending signals when it ended; `None` where they were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingSignals>,
    /// Whether a signal to it, or an act of a tracer or writer on it, was seen and not recorded,
    /// because too many came. `None` where only the ledger says that, of all processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<bool>,
}

/// The signals that were pending when a process ended, which no thread took. Signal 1 is bit 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingSignals {
    /// Those for the whole process.
    pub process: u64,
    /// Those for one thread, when that thread ended. Only signals that end processes are kept, and
    /// newer kernels (6.18) drop them before they report the end of the thread.
    pub threads: u64,
    /// Those that the last thread blocked.
    pub blocked: u64,
}

impl Exit {
    /// Returns the signal that ended it, if one did.
    pub fn signal(&self) -> Option<i32> {
        let signalled = self.status.filter(|status| libc::WIFSIGNALED(*status));
        signalled.map(|status| libc::WTERMSIG(status))
    }

    /// Returns its exit code, if it exited by itself.
    pub fn code(&self) -> Option<i32> {
        let exited = self.status.filter(|status| libc::WIFEXITED(*status));
        exited.map(|status| libc::WEXITSTATUS(status))
    }
}
