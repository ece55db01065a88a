//! The records that the programs write into the rings, and the offsets that they receive.
//!
//! Each record begins with a [`Header`]. A string is NUL-terminated if it is shorter than its
//! field.

/// The length of `task_struct.comm`.
pub const COMM: usize = 16;
/// The number of ancestors that are read of a sender.
pub const ANCESTORS: usize = 6;
/// The number of path components that are read of an executable, innermost first.
pub const EXE_PARTS: usize = 8;
/// The bytes of one path component of an executable.
pub const EXE_PART: usize = 32;
/// The number of memory cgroup levels that are read of a victim, innermost first.
pub const CGROUPS: usize = 32;
/// The bytes of one of their names. A file's name has at most 255 (`NAME_MAX`).
pub const CGROUP_NAME: usize = 256;
/// The bytes of one name in the sender's cgroup path; that of a container's scope has 77.
pub const SENDER_CGROUP_NAME: usize = 96;
/// The number of levels that are read of the sender's cgroup path.
pub const SENDER_CGROUPS: usize = 6;
/// The number of kernel stack frames that are read at an OOM kill.
pub const FRAMES: usize = 48;
/// The bytes of argv that are read at an exec.
pub const ARGV: usize = 4096;
/// The bytes of the title that are read at an exit.
pub const TITLE: usize = 512;
/// The bytes of a sender's command line, as of its last exec.
pub const COMMAND: usize = 384;
/// The number of slots for command lines of processes.
pub const COMMANDS_KEPT: u32 = 4096;
/// The number of arguments that are read of a system call.
pub const CALL_ARGUMENTS: usize = 3;

/// Declares the kinds of records from one list.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident = $number:literal,)*) => {
        /// The kind of a record.
        #[repr(u32)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$about])* $kind = $number,)*
        }

        impl Kind {
            /// Returns the kind with this number; `None` for a number that no program sends.
            #[must_use]
            pub const fn of(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// A [`Fork`].
    Fork = 1,
    /// An [`Exec`].
    Exec = 2,
    /// A [`Signal`].
    Signal = 3,
    /// A [`Delivered`].
    Delivered = 4,
    /// A [`Victim`].
    Victim = 5,
    /// An [`Exit`].
    Exit = 6,
    /// A [`Rename`].
    Rename = 7,
    /// A [`Mapped`].
    Mapped = 8,
    /// A [`Growth`].
    Growth = 9,
    /// An [`Interference`]: a tracer was seen at a stop of the process, or as it attached.
    Traced = 10,
    /// An [`Interference`]: a tracer has attached.
    Attached = 11,
    /// An [`Interference`]: a write into `/proc/PID/mem`.
    MemoryWritten = 12,
    /// An [`Interference`]: `process_vm_writev` into the process.
    VmWritten = 13,
    /// An [`Interference`]: a tracer was seen as the process was created.
    TracedAtFork = 14,
    /// An [`Interference`]: a tracer was seen as the process started a program.
    TracedAtExec = 15,
    /// An [`Interference`]: the process has asked its parent to trace it.
    TraceMe = 16,
}

/// The header of every record.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// A [`Kind`].
    pub kind: u32,
    /// Always 0.
    pub reserved: u32,
    /// The time by `CLOCK_BOOTTIME`, in ns.
    pub time: u64,
}

/// A process: its thread group id and the start time of its leader.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Process {
    /// The thread group id in the initial pid namespace.
    pub tgid: u32,
    /// The thread that the record is about.
    pub tid: u32,
    /// `group_leader->start_boottime`.
    pub start: u64,
}

/// A new process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Fork {
    /// Kind and time of the record.
    pub header: Header,
    /// The process that forks.
    pub parent: Process,
    /// The child.
    pub child: Process,
}

/// A process that runs a new program. `argv` is cut to the bytes that were read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Exec {
    /// Kind and time of the record.
    pub header: Header,
    /// The process.
    pub process: Process,
    /// The parent's tgid.
    pub parent: u32,
    /// The pid in the innermost pid namespace.
    pub ns_pid: u32,
    /// The real uid.
    pub uid: u32,
    /// The number of valid bytes of `argv`.
    pub argv_length: u32,
    /// The executable of the process.
    pub file: File,
    /// The name after the exec.
    pub comm: [u8; COMM],
    /// argv, NUL-separated.
    pub argv: [u8; ARGV],
}

/// The identity of a file in the kernel, whatever its name.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// `i_ino`; 0 if there is no file.
    pub inode: u64,
    /// `s_dev` of its file system.
    pub device: u64,
}

/// The command line of a process's last exec, whether the process is tracked or not.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// The start time of the process, which detects a reused pid; 0 while the slot is being
    /// written.
    pub start: u64,
    /// The number of writers that are using this slot.
    pub writers: u64,
    /// The tgid of the process.
    pub tgid: u32,
    /// The number of valid bytes of `argv`.
    pub length: u32,
    /// argv, NUL-separated.
    pub argv: [u8; COMMAND],
}

/// An ancestor of a sender, or a tracer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Ancestor {
    /// The tgid; 0 ends the list.
    pub tgid: u32,
    /// The name of the leader.
    pub comm: [u8; COMM],
}

/// Flag: the target was in a group exit when the signal was sent.
pub const GROUP_EXIT: u32 = 1;
/// Flag: this signal killed the target.
pub const TOOK_EFFECT: u32 = 2;
/// Flag: the sender was exiting (`PF_EXITING`).
pub const SENDER_EXITING: u32 = 4;
/// Flag: the sender is a kernel thread (`PF_KTHREAD`).
pub const SENDER_KERNEL_THREAD: u32 = 8;

/// Flag: the sender's last exec was seen, so its command line is the one of that exec.
pub const SENDER_EXEC_SEEN: u32 = 16;
/// Flag: the sender has the same root directory as the target, and its mounts have the same owner.
pub const SENDER_SAME_ROOT: u32 = 32;
/// Flag: the running task was in a 32-bit system call.
pub const SENDER_COMPAT: u32 = 64;
/// Flag: the sender was exiting with its whole process, not this thread alone.
pub const SENDER_PROCESS_EXITING: u32 = 128;

/// Signals that programs catch in order to end: HUP INT QUIT TERM.
pub const ENDING: [u32; 4] = [1, 2, 3, 15];

/// The value of `call` if the running task was in no system call.
pub const NO_CALL: i32 = -1;
/// The value of `call` if the running task's system call is not known.
pub const CALL_UNKNOWN: i32 = i32::MIN;

/// An event of `signal_generate`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Signal {
    /// Kind and time of the record.
    pub header: Header,
    /// The target.
    pub target: Process,
    /// The signal number.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// Whether the signal was sent to the thread group.
    pub group: u32,
    /// `TRACE_SIGNAL_*`.
    pub result: i32,
    /// [`GROUP_EXIT`], [`TOOK_EFFECT`], and the flags that begin with `SENDER_`.
    pub flags: u32,
    /// `signal->group_exit_code`.
    pub group_exit_code: i32,
    /// `pdeath_signal` of the target.
    pub parent_death_signal: i32,
    /// The sender's real, effective and saved uid.
    pub sender_uids: [u32; 3],
    /// The system call that the running task was in, [`NO_CALL`] or [`CALL_UNKNOWN`].
    pub call: i32,
    /// The number of valid bytes of `command`.
    pub command_length: u32,
    /// Always 0.
    pub reserved: u32,
    /// The first arguments of the system call.
    pub arguments: [u64; CALL_ARGUMENTS],
    /// The sender's executable.
    pub file: File,
    /// The sender (the current task).
    pub sender: Process,
    /// The name of the sender's leader.
    pub sender_comm: [u8; COMM],
    /// The sender's ancestors.
    pub ancestors: [Ancestor; ANCESTORS],
    /// The tracer of the target, or of the sender if both are the same process.
    pub tracer: Ancestor,
    /// The path components of the sender's executable, innermost first.
    pub exe: [[u8; EXE_PART]; EXE_PARTS],
    /// The names of the sender's memory cgroups, innermost first.
    pub cgroup: [[u8; SENDER_CGROUP_NAME]; SENDER_CGROUPS],
    /// The sender's command line: that of its last exec if that was seen, else the one that it
    /// shows now.
    pub command: [u8; COMMAND],
}

/// An event of `signal_deliver`: a core-dumping, quiet or real-time signal takes its default
/// action.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Delivered {
    /// Kind and time of the record.
    pub header: Header,
    /// The process that dies.
    pub process: Process,
    /// The signal number.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
}

/// Another process traces a process, or has written into its memory. The kind of the record says
/// which of them.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Interference {
    /// Kind and time of the record.
    pub header: Header,
    /// The process that is traced or written into.
    pub process: Process,
    /// The other process.
    pub by: Process,
    /// The real uid of the other process.
    pub uid: u32,
    /// The name of its leader.
    pub comm: [u8; COMM],
    /// Always 0.
    pub reserved: u32,
}

/// The last signal from outside that a process caught, of those that `signal_generate` does not
/// report: signals that rarely end a process with a handler.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Caught {
    /// When it was sent; 0 if there was none.
    pub time: u64,
    /// The process and the thread that it was sent to.
    pub target: Process,
    /// The sender (the current task).
    pub sender: Process,
    /// As in [`Signal`].
    pub arguments: [u64; CALL_ARGUMENTS],
    /// The signal number.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// As in [`Signal`].
    pub group: u32,
    /// As in [`Signal`].
    pub result: i32,
    /// As in [`Signal`].
    pub call: i32,
    /// [`SENDER_COMPAT`] or 0.
    pub flags: u32,
    /// The sender's real, effective and saved uid.
    pub sender_uids: [u32; 3],
    /// Always 0.
    pub reserved: u32,
    /// The name of the sender's leader.
    pub sender_comm: [u8; COMM],
}

/// The memory of a process. A value is −1 if it could not be read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// File pages.
    pub file: i64,
    /// Anonymous pages.
    pub anon: i64,
    /// Swap entries.
    pub swap: i64,
    /// Shared memory pages.
    pub shmem: i64,
    /// The highest resident size, in pages.
    pub peak: i64,
}

/// One memory cgroup of a victim.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Cgroup {
    /// `kernfs_node.id`: the inode number of its directory, which no later cgroup gets.
    pub id: u64,
    /// `memory.usage`, in pages.
    pub usage: u64,
    /// `memory.max`, in pages.
    pub max: u64,
    /// `memory_events_local[MEMCG_OOM]`: how often an allocation met this cgroup's own limit and
    /// nothing could be reclaimed. It is raised before the kernel chooses a victim.
    pub oom_events: u64,
    /// The name; empty for the root.
    pub name: [u8; CGROUP_NAME],
}

/// The value of `order` and `constraint` if `out_of_memory` was not seen.
pub const NOT_SEEN: i32 = i32::MIN;
/// The value of `order` if the kill was invoked by hand (sysrq `f`): `is_sysrq_oom`.
pub const BY_HAND: i32 = -1;

/// What was short of memory: the kernel's `struct oom_control`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct OomControl {
    /// `kernfs_node.id` of `memcg`, the cgroup at its limit; 0 if it was no cgroup.
    pub memcg: u64,
    /// `order`; [`BY_HAND`], or [`NOT_SEEN`].
    pub order: i32,
    /// `constraint`: an `enum oom_constraint`.
    pub constraint: i32,
}

/// An event of `mark_victim`. `cgroups` is cut to the levels that were read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Victim {
    /// Kind and time of the record.
    pub header: Header,
    /// The victim.
    pub victim: Process,
    /// The process that requested memory (the current task).
    pub invoker: Process,
    /// The name of the invoker's leader.
    pub invoker_comm: [u8; COMM],
    /// The address of the victim's mm.
    pub mm: u64,
    /// Whether the kernel, in the same task, sent the victim a SIGKILL just before.
    pub signalled: u32,
    /// `signal->oom_score_adj`.
    pub score_adj: i32,
    /// The victim's memory.
    pub memory: Memory,
    /// The number of valid bytes of `stack`; negative if the stack could not be read.
    pub stack_bytes: i64,
    /// The kernel stack, innermost frame first.
    pub stack: [u64; FRAMES],
    /// What was short of memory.
    pub control: OomControl,
    /// The number of valid entries of `cgroups`.
    pub levels: u64,
    /// The victim's memory cgroups, innermost first.
    pub cgroups: [Cgroup; CGROUPS],
}

/// The end of a process. `title` is cut to the bytes that were read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Exit {
    /// Kind and time of the record.
    pub header: Header,
    /// The process.
    pub process: Process,
    /// The parent's tgid.
    pub parent: u32,
    /// The pid in the innermost pid namespace.
    pub ns_pid: u32,
    /// The real uid.
    pub uid: u32,
    /// The wait status.
    pub status: i32,
    /// The address of the mm.
    pub mm: u64,
    /// The memory of the process.
    pub memory: Memory,
    /// The name of its leader.
    pub comm: [u8; COMM],
    /// The tracer of the process's last thread, or of its leader if that thread has none.
    pub tracer: Ancestor,
    /// The number of valid bytes of `title`; −1 if it is unreadable.
    pub title_length: i32,
    /// The signals that were pending for the process. Signal 1 is bit 0, here and below.
    pub pending: u64,
    /// Those of [`ENDING`] that were pending for one thread when that thread ended.
    pub thread_pending: u64,
    /// The signals that the last thread blocked.
    pub blocked: u64,
    /// 1 if a signal to the process, or an act of a tracer or writer, was seen and not recorded.
    pub lost: u32,
    /// Always 0.
    pub reserved: u32,
    /// A signal that was caught and not reported when it was sent.
    pub caught: Caught,
    /// The first bytes at `mm->arg_start`.
    pub title: [u8; TITLE],
}

/// A new name of a process, which mostly comes with a new title. `title` is cut to the bytes that
/// were read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Rename {
    /// Kind and time of the record.
    pub header: Header,
    /// The process; the thread is the one whose name was set.
    pub process: Process,
    /// The memory of the process at that moment.
    pub memory: Memory,
    /// The thread's new name.
    pub comm: [u8; COMM],
    /// The number of valid bytes of `title`; −1 if it is unreadable.
    pub title_length: i32,
    /// The number of new names of this process since its last record that were over a budget.
    pub over: u32,
    /// The string at `mm->arg_start`.
    pub title: [u8; TITLE],
}

/// The entry of a tracked process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Tracked {
    /// `start_boottime`; 0 if user space added the process before it knew the time.
    pub start: u64,
    /// For each of [`ENDING`], whether it was pending for a thread that has ended. Threads of
    /// several CPUs write it, each whole bytes.
    pub thread_pending: [u8; ENDING.len()],
    /// The number of new names since the last record of one that were over a budget.
    pub over: u32,
    /// The records of new names.
    pub renames: Spent,
    /// The records of interference.
    pub interfered: Interfered,
    /// 1 if there is a [`Caught`] signal of the process.
    pub has_caught: u8,
    /// 1 if a signal to the process was seen and not recorded.
    pub lost_signal: u8,
    /// 1 if an act of a tracer or writer was seen and not recorded. A child has it of its parent.
    pub lost_interference: u8,
    /// Always 0.
    pub reserved: [u8; 5],
}

/// The last records of interference with a process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Interfered {
    /// The other process of the last record.
    pub by: u32,
    /// The number of the period of the records.
    pub period: u32,
    /// The kinds of records about that process in this period. Kind 1 is bit 1.
    pub kinds: u32,
    /// The records in this period.
    pub sent: u32,
}

impl Interfered {
    /// Nothing.
    pub const NONE: Self = Self {
        by: 0,
        period: 0,
        kinds: 0,
        sent: 0,
    };
}

/// The most records of interference with one process in 4.3 s (`1 << PROCESS_SHIFT` ns). One record
/// of a kind and another process is enough for a verdict in that time.
pub const PROCESS_INTERFERENCES: u32 = 32;
/// The most records of interference by processes of one user in `1 << PERIOD_SHIFT` ns: 480 a
/// second. What is over is marked at the process that it was done to.
pub const USER_INTERFERENCES: u32 = 64;
/// As above, by processes of all users.
pub const ALL_INTERFERENCES: u32 = 128;
/// The most records in `1 << PROCESS_SHIFT` ns of signals that one user sent and that did not end
/// their target at once: 745 a second on average. A raylet that ends sends one to each worker at
/// once. Of a process, the last one that is over is reported with its exit, as a [`Caught`].
pub const USER_SIGNALS: u32 = 3_200;
/// As above, that all users sent. The buffer has room for 5,400.
pub const ALL_SIGNALS: u32 = 4_400;

/// The records that a process or a user may still cause: so many in each period.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// The number of the period.
    pub period: u32,
    /// The records in it.
    pub sent: u32,
    /// For a user, how many were over the budget so far.
    pub over: u64,
}

impl Spent {
    /// Nothing.
    pub const NONE: Self = Self {
        period: 0,
        sent: 0,
        over: 0,
    };
}

/// A period is `1 << PERIOD_SHIFT` ns, 134 ms.
pub const PERIOD_SHIFT: u32 = 27;
/// The most records of new names of a process in 4.3 s (`1 << PROCESS_SHIFT` ns), 800 a second. A
/// worker that runs 400 tasks a second sets 800 names. An actor that takes the calls of a whole step
/// at once sets two names for each of them: 256 within 0.2 s in a small run of verl 0.9.1. A record
/// costs the reader about 0.3 µs.
pub const PROCESS_RENAMES: u32 = 3_440;
/// The length of that period, as an exponent.
pub const PROCESS_SHIFT: u32 = 32;
/// The most records of new names of one user in one period. They are 24,000 a second, and those of
/// all 32,000.
pub const USER_RENAMES: u32 = 3_200;
/// As above, of all users.
pub const ALL_RENAMES: u32 = 4_300;
/// The most users that have a budget of their own. Further users share what is left of the whole.
pub const USERS: u32 = 1_024;

impl Tracked {
    /// Creates the entry of a process of which no thread has ended.
    #[must_use]
    pub const fn new(start: u64) -> Self {
        Self {
            start,
            thread_pending: [0; ENDING.len()],
            over: 0,
            renames: Spent::NONE,
            interfered: Interfered::NONE,
            has_caught: 0,
            lost_signal: 0,
            lost_interference: 0,
            reserved: [0; 5],
        }
    }
}

/// The memory of a process at its first fatal delivery, for kernels that free it before the exit
/// event.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Snapshot {
    /// The start time of the process, which detects a reused pid.
    pub start: u64,
    /// The address of the mm.
    pub mm: u64,
    /// The memory of the process.
    pub memory: Memory,
    /// As in [`Exit`].
    pub title_length: i32,
    /// Always 0.
    pub reserved: u32,
    /// As in [`Exit`].
    pub title: [u8; TITLE],
}

/// The group of hooks at the exit of a kernel function.
pub const AT_EXIT: &str = "fexit/";
/// The group of hooks at the entry of a kernel function.
pub const AT_ENTRY: &str = "fentry/";

/// Declares the hooks of one object from one list.
///
/// Each hook has a row of the ledger, a tracepoint, the stems of its programs, and whether verdicts
/// can be proven without it. A second program reports what the first one was skipped for. A name
/// that begins with [`AT_EXIT`] or [`AT_ENTRY`] is that of a function.
macro_rules! hooks {
    ($(#[$about:meta])* $hooks:ident {
        $($(#[$what:meta])* $hook:ident: $name:literal, $programs:expr, required: $required:literal;)*
    }) => {
        $(#[$about])*
        #[repr(u32)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $hooks {
            $($(#[$what])* $hook,)*
        }

        impl $hooks {
            /// The number of hooks.
            pub const COUNT: usize = [$(Self::$hook),*].len();
            /// All hooks, in the order of their rows.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$hook),*];

            /// Returns the hook's row of the ledger.
            #[must_use]
            pub const fn row(self) -> u32 {
                self as u32
            }

            /// Returns the row of the hook's second program. It has a separate row because, since
            /// Linux 7.0, it may run in the middle of an addition by the first program.
            #[must_use]
            #[expect(clippy::cast_possible_truncation, reason = "there are some")]
            pub const fn second_row(self) -> u32 {
                Self::COUNT as u32 + self as u32
            }

            /// Returns the group and the name of the hook's tracepoint, such as `oom/mark_victim`,
            /// or its function.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$hook => $name,)*
                }
            }

            /// Returns the stems of the hook's programs. Each stem of a tracepoint has the programs
            /// `STEM_btf` and `STEM_raw`.
            #[must_use]
            pub const fn programs(self) -> &'static [&'static str] {
                match self {
                    $(Self::$hook => &$programs,)*
                }
            }

            /// Returns whether no verdict can be proven without the hook.
            #[must_use]
            pub const fn is_required(self) -> bool {
                match self {
                    $(Self::$hook => $required,)*
                }
            }
        }
    };
}

hooks! {
    /// The hooks of the object `deaths`.
    Hook {
        /// The OOM killer has chosen a victim.
        Victim: "oom/mark_victim", ["victim"], required: true;
        /// A signal was sent.
        Signal: "signal/signal_generate", ["signal_generate"], required: true;
        /// A signal was delivered.
        Deliver: "signal/signal_deliver", ["signal_deliver"], required: false;
        /// A process was created.
        Fork: "sched/sched_process_fork", ["fork", "fork_second"], required: true;
        /// A process runs a new program.
        Exec: "sched/sched_process_exec", ["exec"], required: true;
        /// A process ended.
        Exit: "sched/sched_process_exit", ["exit", "exit_second"], required: true;
        /// A thread changed its name.
        Rename: "task/task_rename", ["rename"], required: false;
        /// A tracer has attached.
        Attach: "fexit/ptrace_attach", ["ptrace_attach"], required: false;
        /// A process asks its parent to trace it.
        TraceMe: "fexit/security_ptrace_traceme", ["ptrace_traceme"], required: false;
        /// `/proc/PID/mem` was written.
        MemoryWrite: "fentry/mem_write", ["mem_write"], required: false;
        /// The memory of another process may be accessed.
        MemoryAccess: "fexit/mm_access", ["mm_access"], required: false;
    }
}

/// The columns of the ledger.
pub mod ledger {
    /// The program ran.
    pub const SEEN: u32 = 0;
    /// A record was written into the ring.
    pub const SUBMITTED: u32 = 1;
    /// There was nothing to report.
    pub const FILTERED: u32 = 2;
    /// The record did not fit into the ring and was lost. An exit is kept in a map and harvested.
    pub const RING_FULL: u32 = 3;
    /// The record was lost because a map was full.
    pub const MAP_FULL: u32 = 4;
    /// The number of columns.
    pub const COLUMNS: u32 = 5;
}

/// Offsets of kernel struct fields, from the BTF of the running kernel. An offset is [`NONE`] if
/// the kernel has no such field.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    missing_docs,
    reason = "each field is named after the kernel's struct and field"
)]
pub struct Offsets {
    pub task_tgid: u32,
    pub task_pid: u32,
    pub task_flags: u32,
    pub task_comm: u32,
    pub task_real_parent: u32,
    /// The tracer, if `task_ptrace` is not 0.
    pub task_parent: u32,
    pub task_ptrace: u32,
    pub task_group_leader: u32,
    pub task_signal: u32,
    pub task_mm: u32,
    pub task_start_boottime: u32,
    pub task_real_cred: u32,
    pub task_cgroups: u32,
    pub task_pdeath_signal: u32,
    pub task_exit_code: u32,
    /// The first 64 signals of `pending.signal`.
    pub task_pending: u32,
    pub task_blocked: u32,
    pub task_thread_pid: u32,
    pub signal_flags: u32,
    pub signal_group_exit_code: u32,
    pub signal_live: u32,
    /// The first 64 signals of `shared_pending.signal`.
    pub signal_pending: u32,
    pub signal_maxrss: u32,
    pub signal_oom_score_adj: u32,
    pub cred_uid: u32,
    pub cred_euid: u32,
    pub cred_suid: u32,
    pub task_nsproxy: u32,
    pub nsproxy_mnt_ns: u32,
    pub mnt_ns_user_ns: u32,
    pub task_fs: u32,
    pub fs_root_dentry: u32,
    pub file_inode: u32,
    pub inode_number: u32,
    pub inode_super: u32,
    pub super_device: u32,
    pub task_stack: u32,
    /// The distance from the lowest address of the kernel stack to the registers with which a task
    /// left user space, for kernels without `bpf_task_pt_regs` (before 5.15); 0 if it is not known.
    pub registers_on_stack: u32,
    /// `orig_ax` or `syscallno`; [`NONE`] if the layout of the registers is not known.
    pub registers_call: u32,
    pub registers_arguments: [u32; CALL_ARGUMENTS],
    /// The same for a 32-bit system call.
    pub registers_compat_arguments: [u32; CALL_ARGUMENTS],
    /// `cs` (x86-64) or `pstate` (aarch64). Masked with `registers_user_mask`, it is
    /// `registers_user` if the task came from user space.
    pub registers_mode: u32,
    pub registers_user_mask: u32,
    pub registers_user: u32,
    /// The bit of `registers_mode` that is set for a 32-bit task (aarch64); 0 elsewhere.
    pub registers_compat_mask: u32,
    /// `thread_info.status` (x86-64), which says whether the call is a 32-bit one; [`NONE`]
    /// elsewhere.
    pub task_status: u32,
    pub mm_arg_start: u32,
    pub mm_arg_end: u32,
    pub mm_rss_stat: u32,
    pub mm_hiwater_rss: u32,
    pub mm_exe_file: u32,
    /// `sizeof(struct percpu_counter)` if `rss_stat` is an array of them (≥ 6.2), else 0.
    pub percpu_counter_size: u32,
    pub percpu_counter_count: u32,
    pub percpu_counter_counters: u32,
    pub file_path_dentry: u32,
    pub dentry_parent: u32,
    pub dentry_name: u32,
    /// `subsys[memory_cgrp_id]` in `css_set`.
    pub css_set_memory: u32,
    pub css_cgroup: u32,
    pub css_parent: u32,
    pub cgroup_kn: u32,
    pub kernfs_name: u32,
    pub kernfs_id: u32,
    /// `css` of `mem_cgroup`. The other offsets in it count from there.
    pub memcg_css: u32,
    pub memcg_usage: u32,
    pub memcg_max: u32,
    /// `memory_events_local[MEMCG_OOM]`.
    pub memcg_oom_events: u32,
    pub oom_memcg: u32,
    pub oom_order: u32,
    pub oom_constraint: u32,
    pub pid_level: u32,
    pub pid_numbers: u32,
    pub upid_size: u32,
    pub sigaction_handler: u32,
    pub task_sighand: u32,
    pub sighand_actions: u32,
    pub sigaction_size: u32,
    pub mm_owner: u32,
    pub file_private_data: u32,
    /// Not offsets: the numbers of `process_vm_writev`, for programs of 64 bits, of x32 and of 32
    /// bits; 0 if there is none.
    pub vm_write_calls: [i32; 3],
    /// Whether the argument of `mark_victim` is a task (≥ 6.9 and backports) and not a pid.
    pub victim_is_task: u32,
    /// The number of CPUs whose counters are summed; 0 if `__per_cpu_offset` is hidden.
    pub cpus: u32,
    /// The address of `__per_cpu_offset`.
    pub per_cpu_offset: u64,
}

/// The offset of a field that this kernel does not have.
pub const NONE: u32 = u32::MAX;

/// A range of addresses for a new mapping.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Mapped {
    /// Kind and time of the record.
    pub header: Header,
    /// The process that maps. Its start time is the one that user space reported.
    pub process: Process,
    /// The address that the kernel found for the mapping.
    pub address: u64,
    /// The length of this mapping.
    pub bytes: u64,
    /// The total length of all mappings since the last record, including this one.
    pub all_bytes: u64,
    /// The number of these mappings.
    pub calls: u32,
    /// The number of Python frames of the thread that follow in a [`MappedWithPython`]; 0 if there
    /// are none.
    pub frames: u32,
}

/// The number of frames that are read of a Python stack, innermost first.
pub const PYTHON_FRAMES: usize = 32;

/// A frame of a Python stack, as addresses in its process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PythonFrame {
    /// The code object.
    pub code: u64,
    /// The field that says how far the frame has run: an address in the code object since 3.11, an
    /// index before.
    pub instruction: u64,
}

/// A [`Mapped`] with the Python stack of the thread that requested the range, read during the
/// request.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MappedWithPython {
    /// The mapping.
    pub mapped: Mapped,
    /// The frames, the running one first.
    pub stack: [PythonFrame; PYTHON_FRAMES],
}

/// The number of words in the registers that the kernel saves when a thread leaves user space:
/// `struct pt_regs` of x86-64.
pub const REGISTERS: usize = 21;
/// Indexes of some of these registers (arch/x86/include/asm/ptrace.h). `CS` says whether the
/// registers are those of user space.
pub mod register {
    #![expect(missing_docs, reason = "each is named after the register")]
    pub const R15: usize = 0;
    pub const R14: usize = 1;
    pub const R13: usize = 2;
    pub const R12: usize = 3;
    pub const RBP: usize = 4;
    pub const RBX: usize = 5;
    pub const RIP: usize = 16;
    pub const CS: usize = 17;
    pub const RSP: usize = 19;
}

/// The bytes that are read of a native stack, innermost first, in pieces of [`PIECE`].
pub const NATIVE_STACK: usize = 8192;
/// The bytes of one piece. The first piece that cannot be read ends the stack.
pub const PIECE: usize = 1024;

/// The native side of a thread as it left user space. User space finds the C and Rust frames from
/// it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Native {
    /// The registers of the thread.
    pub registers: [u64; REGISTERS],
    /// The number of valid bytes of `stack`; 0 if the registers are not those of user space.
    pub bytes: u64,
    /// The stack, upwards from the stack pointer.
    pub stack: [u8; NATIVE_STACK],
}

/// A [`MappedWithPython`] with the native side of its thread. It is sent if the ring has room for
/// it and the kernel provides the registers (5.15).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MappedWithNative {
    /// The mapping, and the Python frames that caused it.
    pub by: MappedWithPython,
    /// The native side of the same thread.
    pub native: Native,
}

/// Growth of a process's resident memory by 16 MiB or more since its last such record, found while
/// the growing thread ran.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Growth {
    /// Kind and time of the record.
    pub header: Header,
    /// The process that grew.
    pub process: Process,
    /// The growth of anonymous memory, in pages.
    pub private: u64,
    /// The growth of shared memory, in pages.
    pub shared: u64,
    /// The number of frames in the stack that follows.
    pub frames: u32,
    /// 1 if the thread runs no Python and the stack is that of the main thread.
    pub of_main: u32,
}

/// A [`Growth`] with the Python stack of its thread.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GrowthWithPython {
    /// The growth.
    pub growth: Growth,
    /// The frames, the running one first.
    pub stack: [PythonFrame; PYTHON_FRAMES],
}

/// A [`GrowthWithPython`] with the native side of its thread, as in [`MappedWithNative`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GrowthWithNative {
    /// The growth, and the Python frames that caused it.
    pub by: GrowthWithPython,
    /// The native side of the same thread.
    pub native: Native,
}

/// Where the interpreter of a process keeps its threads, and the offsets of fields in a thread
/// state and in a frame.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Python {
    /// The start time of the process, as user space knows it.
    pub start: u64,
    /// The address of the pointer to the first thread state.
    pub threads: u64,
    /// The offset of the next thread state in a thread state.
    pub next: u32,
    /// The offset of the `pthread_t` in a thread state.
    pub thread: u32,
    /// The offset of the running frame in a thread state.
    pub frame: u32,
    /// The offset of the frame in a `_PyCFrame`, if `frame` points to one (3.11, 3.12); else
    /// [`NONE`].
    pub inner: u32,
    /// The offset of the code object in a frame.
    pub code: u32,
    /// The offset of the caller in a frame.
    pub previous: u32,
    /// The offset of the field in a frame that says how far the frame has run.
    pub instruction: u32,
    /// Always 0.
    pub reserved: u32,
}

/// A process whose memory is watched.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Watched {
    /// The start time of the process, as user space knows it.
    pub start: u64,
    /// The slot of its [`Level`], which user space chose.
    pub slot: u64,
    /// The start of the second in which records of mappings are counted.
    pub window: u64,
    /// The bytes that were mapped without their own record.
    pub held_bytes: u64,
    /// The number of these mappings.
    pub held_calls: u32,
    /// The number of records of mappings in this second.
    pub sent: u32,
    /// Whether the figures below were read at least once.
    pub is_known: u64,
    /// The counters at their last step, in pages.
    pub last: [i64; MEMBERS],
    /// Private and shared memory, in pages, when growth was last assigned to a thread.
    pub seen: [i64; 2],
    /// The same when growth of the process was last reported, or before `grower` began to grow it.
    pub told: [i64; 2],
    /// The thread that last grew the process; the main thread for threads that run no Python.
    pub grower: u64,
    /// The last time when no growth was left to assign to a thread.
    pub settled: u64,
    /// The start of the second in which records of growth are counted.
    pub grew_window: u64,
    /// The number of records of growth in this second.
    pub grew_sent: u64,
}

/// The maximum number of watched processes.
pub const WATCHED: usize = 16_384;

/// The memory of a watched process at its last check. User space reads it without a system call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Level {
    /// The start time of the process, as user space knows it.
    pub start: u64,
    /// The number of checks of the process plus the number of its large mappings so far. If it has
    /// not changed, the process has hardly run.
    pub looks: u64,
    /// The counters of the process, in pages. Each may be off by a batch for each CPU.
    pub pages: [i64; MEMBERS],
}

/// The number of steps that are kept of a process; a power of two.
pub const STEPS: usize = 64;
/// The number of counters of an mm: file, anonymous, swap and shared memory.
pub const MEMBERS: usize = 4;

/// A step of one counter.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The time by `CLOCK_BOOTTIME`, in ns.
    pub time: u64,
    /// The new value of the counter in pages, shifted left by two bits, with the number of the
    /// counter in the two low bits.
    pub pages: i64,
}

/// The last steps of a process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    /// The start time of the process, as user space knows it.
    pub start: u64,
    /// The number of steps so far. The next one has this index, modulo [`STEPS`].
    pub taken: u64,
    /// The steps.
    pub steps: [Step; STEPS],
}

hooks! {
    /// The hooks of the object `memory`.
    MemoryHook {
        /// The kernel found a range of addresses for a new mapping.
        Mapped: "mmap/vm_unmapped_area", ["mapped"], required: false;
        /// A timer of a CPU expired, mostly its tick.
        Tick: "timer/hrtimer_expire_entry", ["tick"], required: false;
    }
}

/// Offsets for the object `memory`, as in [`Offsets`].
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    missing_docs,
    reason = "each field is named after the kernel's struct and field"
)]
pub struct MemoryOffsets {
    pub task_mm: u32,
    /// The offset of each counter of `rss_stat` in `mm_struct`.
    pub mm_counts: [u32; MEMBERS],
    /// `length` of `vm_unmapped_area_info`.
    pub unmapped_length: u32,
    /// `thread.fsbase` of `task_struct` (x86-64), the `pthread_t` of a thread; [`NONE`] elsewhere.
    pub task_thread_pointer: u32,
    /// The number of the thread's page faults that needed no disk.
    pub task_min_flt: u32,
    /// Not an offset: whether the kernel provides the user registers of a task (`bpf_task_pt_regs`,
    /// 5.15) and their layout is known.
    pub has_registers: u32,
}
