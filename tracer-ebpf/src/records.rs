//! The records that the programs put into the ring, and the offsets that they are given.
//!
//! Each record begins with a [`Header`]. Strings are NUL-terminated when shorter than their field.

/// Length of `task_struct.comm`.
pub const COMM: usize = 16;
/// Ancestors taken of a sender.
pub const ANCESTORS: usize = 6;
/// Path components taken of an executable, innermost first.
pub const EXE_PARTS: usize = 8;
/// Bytes of one path component of an executable.
pub const EXE_PART: usize = 32;
/// Levels of memory cgroups taken, innermost first.
pub const CGROUPS: usize = 12;
/// Bytes of one cgroup name; a container's scope has 77.
pub const CGROUP_NAME: usize = 96;
/// Levels of the sender's cgroup path.
pub const SENDER_CGROUPS: usize = 6;
/// Kernel stack frames at an OOM kill.
pub const FRAMES: usize = 48;
/// Bytes of argv taken at exec.
pub const ARGV: usize = 4096;
/// Bytes of the title taken at exit.
pub const TITLE: usize = 512;
/// Bytes of a sender's command line, as its last exec was given it.
pub const COMMAND: usize = 384;
/// So many command lines of processes are kept.
pub const COMMANDS_KEPT: u32 = 4096;
/// Arguments of a system call that are taken.
pub const CALL_ARGUMENTS: usize = 3;

/// Makes the kinds of records from one list.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident = $number:literal,)*) => {
        /// What a record is.
        #[repr(u32)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$about])* $kind = $number,)*
        }

        impl Kind {
            /// The kind of this number; `None` for one that no program sends.
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
    /// [`Fork`]
    Fork = 1,
    /// [`Exec`]
    Exec = 2,
    /// [`Signal`]
    Signal = 3,
    /// [`Delivered`]
    Delivered = 4,
    /// [`Victim`]
    Victim = 5,
    /// [`Exit`]
    Exit = 6,
    /// [`Rename`]
    Rename = 7,
    /// [`Mapped`]
    Mapped = 8,
    /// [`Growth`]
    Growth = 9,
}

/// Begins every record.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// A [`Kind`].
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
    /// `CLOCK_BOOTTIME`, ns.
    pub time: u64,
}

/// A process: thread group id and start of its leader.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Process {
    /// Thread group id in the initial namespace.
    pub tgid: u32,
    /// The thread concerned.
    pub tid: u32,
    /// `group_leader->start_boottime`.
    pub start: u64,
}

/// A new process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Fork {
    /// Kind and time.
    pub header: Header,
    /// Who forked.
    pub parent: Process,
    /// The child.
    pub child: Process,
}

/// A new program; `argv` is cut to the bytes read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Exec {
    /// Kind and time.
    pub header: Header,
    /// Which.
    pub process: Process,
    /// Parent's tgid.
    pub parent: u32,
    /// Innermost pid.
    pub ns_pid: u32,
    /// Real uid.
    pub uid: u32,
    /// Valid bytes of `argv`.
    pub argv_length: u32,
    /// Its executable.
    pub file: File,
    /// Name after exec.
    pub comm: [u8; COMM],
    /// argv, NUL-separated.
    pub argv: [u8; ARGV],
}

/// A file as the kernel knows it, whatever its name.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// `i_ino`; 0 where there is no file.
    pub inode: u64,
    /// `s_dev` of its file system.
    pub device: u64,
}

/// The command line that a process was given at its last exec, tracked or not.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// The start of the process, against reuse of its pid; 0 while it is written.
    pub start: u64,
    /// How many are about to write it.
    pub writers: u64,
    /// The process.
    pub tgid: u32,
    /// Valid bytes of `argv`.
    pub length: u32,
    /// argv, NUL-separated.
    pub argv: [u8; COMMAND],
}

/// An ancestor of a sender, or a tracer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Ancestor {
    /// tgid; 0 ends the list.
    pub tgid: u32,
    /// Name of the leader.
    pub comm: [u8; COMM],
}

/// The target was in its group exit when the signal came.
pub const GROUP_EXIT: u32 = 1;
/// This signal killed.
pub const TOOK_EFFECT: u32 = 2;
/// The sender was exiting (`PF_EXITING`).
pub const SENDER_EXITING: u32 = 4;
/// The sender is a kernel thread (`PF_KTHREAD`).
pub const SENDER_KERNEL_THREAD: u32 = 8;

/// The sender's last exec was seen: its command line is the one that it was given then.
pub const SENDER_EXEC_SEEN: u32 = 16;
/// The sender has the root folder of the target, and mounts of the same owner.
pub const SENDER_SAME_ROOT: u32 = 32;
/// The running task was in a 32-bit system call.
pub const SENDER_COMPAT: u32 = 64;

/// The running task was in no system call.
pub const NO_CALL: i32 = -1;
/// Which system call the running task was in is not known.
pub const CALL_UNKNOWN: i32 = i32::MIN;

/// `signal_generate`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Signal {
    /// Kind and time.
    pub header: Header,
    /// The target.
    pub target: Process,
    /// Signal number.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// Whether the group was addressed.
    pub group: u32,
    /// `TRACE_SIGNAL_*`.
    pub result: i32,
    /// [`GROUP_EXIT`], [`TOOK_EFFECT`] and those that begin with `SENDER_`.
    pub flags: u32,
    /// `signal->group_exit_code`.
    pub group_exit_code: i32,
    /// `pdeath_signal` of the target.
    pub parent_death_signal: i32,
    /// Sender's real, effective and saved uid.
    pub sender_uids: [u32; 3],
    /// The system call that the running task was in, [`NO_CALL`] or [`CALL_UNKNOWN`].
    pub call: i32,
    /// Valid bytes of `command`.
    pub command_length: u32,
    /// Zero.
    pub reserved: u32,
    /// The call's first arguments.
    pub arguments: [u64; CALL_ARGUMENTS],
    /// The sender's executable.
    pub file: File,
    /// The sender (current).
    pub sender: Process,
    /// Name of the sender's leader.
    pub sender_comm: [u8; COMM],
    /// Its ancestors.
    pub ancestors: [Ancestor; ANCESTORS],
    /// Who traces the target, or the sender where both are one process.
    pub tracer: Ancestor,
    /// Its executable's path components, innermost first.
    pub exe: [[u8; EXE_PART]; EXE_PARTS],
    /// Its memory cgroup's names, innermost first.
    pub cgroup: [[u8; CGROUP_NAME]; SENDER_CGROUPS],
    /// Its command line: the one of its last exec where that was seen, else the one that it shows.
    pub command: [u8; COMMAND],
}

/// `signal_deliver` with the default action of a core-dumping signal.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Delivered {
    /// Kind and time.
    pub header: Header,
    /// Who dies.
    pub process: Process,
    /// Signal number.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
}

/// The memory of a process; −1 where it could not be read.
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
    /// Highest resident size in pages.
    pub peak: i64,
}

/// One memory cgroup of a victim.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Cgroup {
    /// Its name; empty for the root.
    pub name: [u8; CGROUP_NAME],
    /// `memory.usage`, pages.
    pub usage: u64,
    /// `memory.max`, pages.
    pub max: u64,
    /// Whether the invoker is in it too.
    pub shared: u32,
    /// Whether the entry is valid.
    pub valid: u32,
}

/// `mark_victim`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Victim {
    /// Kind and time.
    pub header: Header,
    /// The victim.
    pub victim: Process,
    /// Who asked for memory (current).
    pub invoker: Process,
    /// Its leader's name.
    pub invoker_comm: [u8; COMM],
    /// Address of the victim's mm.
    pub mm: u64,
    /// Whether the kernel's SIGKILL by the same task came just before.
    pub signalled: u32,
    /// `signal->oom_score_adj`.
    pub score_adj: i32,
    /// Its memory.
    pub memory: Memory,
    /// Bytes of `stack` that are valid; negative when it could not be taken.
    pub stack_bytes: i64,
    /// Kernel stack, innermost first.
    pub stack: [u64; FRAMES],
    /// Its memory cgroups, innermost first.
    pub cgroups: [Cgroup; CGROUPS],
}

/// The end of a process; `title` is cut to the bytes read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Exit {
    /// Kind and time.
    pub header: Header,
    /// Which.
    pub process: Process,
    /// Parent's tgid.
    pub parent: u32,
    /// Innermost pid.
    pub ns_pid: u32,
    /// Real uid.
    pub uid: u32,
    /// Wait status.
    pub status: i32,
    /// Address of the mm.
    pub mm: u64,
    /// Its memory.
    pub memory: Memory,
    /// Its leader's name.
    pub comm: [u8; COMM],
    /// Who traces its last thread, or its leader.
    pub tracer: Ancestor,
    /// Valid bytes of `title`; −1 when unreadable.
    pub title_length: i32,
    /// The first bytes at `mm->arg_start`.
    pub title: [u8; TITLE],
}

/// A process set its name, and most often its title with it; `title` is cut to the bytes read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Rename {
    /// Kind and time.
    pub header: Header,
    /// Which; the thread is the one that set its name.
    pub process: Process,
    /// Its memory at that instant.
    pub memory: Memory,
    /// The thread's new name.
    pub comm: [u8; COMM],
    /// Valid bytes of `title`; −1 when unreadable.
    pub title_length: i32,
    /// Zero.
    pub reserved: u32,
    /// The string at `mm->arg_start`.
    pub title: [u8; TITLE],
}

/// What is kept of a tracked process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Tracked {
    /// `start_boottime`; 0 when user space added it before knowing.
    pub start: u64,
}

/// What a process's memory was at its first fatal delivery, for kernels that free it before the exit event.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Snapshot {
    /// Its start, against pid reuse.
    pub start: u64,
    /// Address of the mm.
    pub mm: u64,
    /// Its memory.
    pub memory: Memory,
    /// As in [`Exit`].
    pub title_length: i32,
    /// Zero.
    pub reserved: u32,
    /// As in [`Exit`].
    pub title: [u8; TITLE],
}

/// Makes the hooks of one object from one list: a hook's row of the ledger, its tracepoint, the stems of its programs (one more than the
/// first tells what the first was left out for), and whether verdicts can be proven without it.
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
            /// How many there are.
            pub const COUNT: usize = [$(Self::$hook),*].len();
            /// Each, in the order of their rows.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$hook),*];

            /// Its row of the ledger.
            #[must_use]
            pub const fn row(self) -> u32 {
                self as u32
            }

            /// The row of its second program, which may come between the two halves of an addition of the first one (since Linux 7.0).
            #[must_use]
            #[expect(clippy::cast_possible_truncation, reason = "there are some")]
            pub const fn second_row(self) -> u32 {
                Self::COUNT as u32 + self as u32
            }

            /// Group and name of its tracepoint: `oom/mark_victim`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$hook => $name,)*
                }
            }

            /// The stems of its programs: each stands as `STEM_btf` and as `STEM_raw`.
            #[must_use]
            pub const fn programs(self) -> &'static [&'static str] {
                match self {
                    $(Self::$hook => &$programs,)*
                }
            }

            /// Whether no verdict can be proven without it.
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
        /// Whom the OOM killer chose.
        Victim: "oom/mark_victim", ["victim"], required: true;
        /// A signal was sent.
        Signal: "signal/signal_generate", ["signal_generate"], required: true;
        /// A signal was delivered.
        Deliver: "signal/signal_deliver", ["signal_deliver"], required: false;
        /// A process was made.
        Fork: "sched/sched_process_fork", ["fork", "fork_second"], required: true;
        /// A process runs a new program.
        Exec: "sched/sched_process_exec", ["exec"], required: true;
        /// A process ended.
        Exit: "sched/sched_process_exit", ["exit", "exit_second"], required: true;
        /// A thread changed its name.
        Rename: "task/task_rename", ["rename"], required: false;
    }
}

/// Columns of the ledger.
pub mod ledger {
    /// The program ran.
    pub const SEEN: u32 = 0;
    /// A record went into the ring.
    pub const SUBMITTED: u32 = 1;
    /// Nothing to report.
    pub const FILTERED: u32 = 2;
    /// Lost, no room in the ring (an exit is kept in a map and harvested).
    pub const RING_FULL: u32 = 3;
    /// Lost, no room in a map.
    pub const MAP_FULL: u32 = 4;
    /// How many columns.
    pub const COLUMNS: u32 = 5;
}

/// Offsets of kernel struct fields, from the running kernel's BTF. [`NONE`] where the kernel has no such field.
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
    /// The tracer, where `task_ptrace` is not 0.
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
    pub task_thread_pid: u32,
    pub signal_flags: u32,
    pub signal_group_exit_code: u32,
    pub signal_live: u32,
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
    /// From the stack's lowest address to the registers with which a task left user space, for kernels without
    /// `bpf_task_pt_regs` (before 5.15); 0 where that is not known.
    pub registers_on_stack: u32,
    /// `orig_ax` or `syscallno`; [`NONE`] where the layout of the registers is not known.
    pub registers_call: u32,
    pub registers_arguments: [u32; CALL_ARGUMENTS],
    /// The same for a 32-bit call.
    pub registers_compat_arguments: [u32; CALL_ARGUMENTS],
    /// `cs` (x86-64) or `pstate` (aarch64): under `registers_user_mask` it is `registers_user` where a task left user space.
    pub registers_mode: u32,
    pub registers_user_mask: u32,
    pub registers_user: u32,
    /// The bit of it that says that this was a 32-bit task (aarch64); 0 elsewhere.
    pub registers_compat_mask: u32,
    /// `thread_info.status` (x86-64), which says that the call is a 32-bit one; [`NONE`] elsewhere.
    pub task_status: u32,
    pub mm_arg_start: u32,
    pub mm_arg_end: u32,
    pub mm_rss_stat: u32,
    pub mm_hiwater_rss: u32,
    pub mm_exe_file: u32,
    /// `sizeof(struct percpu_counter)` where `rss_stat` is an array of them (≥ 6.2), else 0.
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
    pub memcg_usage: u32,
    pub memcg_max: u32,
    pub pid_level: u32,
    pub pid_numbers: u32,
    pub upid_size: u32,
    pub sigaction_handler: u32,
    pub task_sighand: u32,
    pub sighand_actions: u32,
    pub sigaction_size: u32,
    /// Whether `mark_victim` has a task as its argument (≥ 6.9 and backports), not a pid.
    pub victim_is_task: u32,
    /// CPUs whose counters are summed; 0 when `__per_cpu_offset` is hidden.
    pub cpus: u32,
    /// Address of `__per_cpu_offset`.
    pub per_cpu_offset: u64,
}

/// A field that this kernel does not have.
pub const NONE: u32 = u32::MAX;

/// A range of addresses for a new mapping.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Mapped {
    /// Kind and time.
    pub header: Header,
    /// Who maps; its start as user space told it.
    pub process: Process,
    /// Where it may lie.
    pub address: u64,
    /// Length of this one.
    pub bytes: u64,
    /// Length of all since the last record, this one included.
    pub all_bytes: u64,
    /// How many these are.
    pub calls: u32,
    /// Frames of the thread's Python stack that follow in a [`MappedWithPython`]; 0 where none do.
    pub frames: u32,
}

/// Python frames that are taken of a stack, the innermost.
pub const PYTHON_FRAMES: usize = 32;

/// A frame of a Python stack, as addresses in its process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PythonFrame {
    /// The code object.
    pub code: u64,
    /// The field that says how far it has run: an address in the code object from 3.11 on, before that an index.
    pub instruction: u64,
}

/// A [`Mapped`] with the Python stack of the thread that asked for the range, taken while it asked.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MappedWithPython {
    /// What was mapped.
    pub mapped: Mapped,
    /// The frames, the running one first.
    pub stack: [PythonFrame; PYTHON_FRAMES],
}

/// Words of the registers that the kernel saves when a thread leaves user space: `struct pt_regs` of x86-64.
pub const REGISTERS: usize = 21;
/// Where in those some stand (arch/x86/include/asm/ptrace.h); `CS` says whether they are user space's.
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

/// Bytes that are taken of a native stack, the innermost, in pieces of [`PIECE`].
pub const NATIVE_STACK: usize = 8192;
/// Bytes of one piece; the first one that cannot be read ends them.
pub const PIECE: usize = 1024;

/// The native side of a thread as it left user space: from it user space finds the C and Rust frames.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Native {
    /// Its registers.
    pub registers: [u64; REGISTERS],
    /// Valid bytes of `stack`; 0 where the registers are not user space's.
    pub bytes: u64,
    /// The stack from the stack pointer upwards.
    pub stack: [u8; NATIVE_STACK],
}

/// A [`MappedWithPython`] with the native side of its thread; sent where the ring has room for it and the kernel gives the registers (5.15).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MappedWithNative {
    /// What was mapped, and by which lines.
    pub by: MappedWithPython,
    /// And below those.
    pub native: Native,
}

/// A process whose resident memory grew by much since its last such record, as the thread that ran then says it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Growth {
    /// Kind and time.
    pub header: Header,
    /// Who grew.
    pub process: Process,
    /// Anonymous memory, in pages.
    pub private: u64,
    /// Shared memory, in pages.
    pub shared: u64,
    /// Frames of the stack that follows.
    pub frames: u32,
    /// 1 where the thread runs no Python, and the stack is the main thread's.
    pub of_main: u32,
}

/// A [`Growth`] with the Python stack of its thread.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GrowthWithPython {
    /// What grew.
    pub growth: Growth,
    /// The frames, the running one first.
    pub stack: [PythonFrame; PYTHON_FRAMES],
}

/// A [`GrowthWithPython`] with the native side of its thread, as [`MappedWithNative`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GrowthWithNative {
    /// What grew, and by which lines.
    pub by: GrowthWithPython,
    /// And below those.
    pub native: Native,
}

/// Where the interpreter of a process keeps its threads, and what lies where in a thread's state and in a frame.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Python {
    /// The start of the process, as user space knows it.
    pub start: u64,
    /// Address of the pointer to the first thread's state.
    pub threads: u64,
    /// In a thread's state: the next one.
    pub next: u32,
    /// Its `pthread_t`.
    pub thread: u32,
    /// Its running frame.
    pub frame: u32,
    /// Where that points to a `_PyCFrame` (3.11, 3.12): the frame in it; else [`NONE`].
    pub inner: u32,
    /// In a frame: its code object.
    pub code: u32,
    /// Its caller.
    pub previous: u32,
    /// How far it has run.
    pub instruction: u32,
    /// Zero.
    pub reserved: u32,
}

/// A process whose memory is watched.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Watched {
    /// Its start, as user space knows it.
    pub start: u64,
    /// Its place among the [`Level`]s, given by user space.
    pub slot: u64,
    /// Begin of the second in which records of mappings are counted.
    pub window: u64,
    /// Mapped without a record of its own.
    pub held_bytes: u64,
    /// How many these are.
    pub held_calls: u32,
    /// Records of mappings in this second.
    pub sent: u32,
    /// Whether the figures below were read once.
    pub is_known: u64,
    /// The counters at their last step, in pages.
    pub last: [i64; MEMBERS],
    /// Private and shared memory, in pages, when a thread was last seen to have grown it.
    pub seen: [i64; 2],
    /// The same when the process was last told to have grown, or before the thread that grows it began to.
    pub told: [i64; 2],
    /// That thread; the main one for threads that run no Python.
    pub grower: u64,
    /// When there was last no growth that no thread was seen to make.
    pub settled: u64,
    /// Begin of the second in which records of growth are counted.
    pub grew_window: u64,
    /// Records of growth in this second.
    pub grew_sent: u64,
}

/// Processes that are watched at most.
pub const WATCHED: usize = 16_384;

/// What a watched process had when it was last looked at. User space reads it without a system call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Level {
    /// Its start, as user space knows it.
    pub start: u64,
    /// Looks at it and mappings of its so far: where this did not move, it hardly ran.
    pub looks: u64,
    /// Its counters, in pages; each may err by a batch for each CPU.
    pub pages: [i64; MEMBERS],
}

/// Steps that are kept of a process; a power of two.
pub const STEPS: usize = 64;
/// Counters of an mm: file, anonymous, swap, shared memory.
pub const MEMBERS: usize = 4;

/// A step of one counter.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// `CLOCK_BOOTTIME`, ns.
    pub time: u64,
    /// The counter's new value in pages, shifted left by two, and the counter's number below.
    pub pages: i64,
}

/// The last steps of a process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    /// Its start, as user space knows it.
    pub start: u64,
    /// Steps so far: the next stands at this number, modulo [`STEPS`].
    pub taken: u64,
    /// The steps.
    pub steps: [Step; STEPS],
}

hooks! {
    /// The hooks of the object `memory`.
    MemoryHook {
        /// A range of addresses was found for a new mapping.
        Mapped: "mmap/vm_unmapped_area", ["mapped"], required: false;
        /// A timer ran out: one tick of a CPU.
        Tick: "timer/hrtimer_expire_entry", ["tick"], required: false;
    }
}

/// Offsets for the object `memory`, as [`Offsets`].
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    missing_docs,
    reason = "each field is named after the kernel's struct and field"
)]
pub struct MemoryOffsets {
    pub task_mm: u32,
    /// Of each member's count below `rss_stat` of `mm_struct`.
    pub mm_counts: [u32; MEMBERS],
    /// `length` of `vm_unmapped_area_info`.
    pub unmapped_length: u32,
    /// `thread.fsbase` of `task_struct` (x86-64): the `pthread_t` of a thread; [`NONE`] elsewhere.
    pub task_thread_pointer: u32,
    /// Faults of the thread that needed no disk.
    pub task_min_flt: u32,
    /// Not a field: whether the kernel gives a task's user registers (`bpf_task_pt_regs`, 5.15), and their layout is known.
    pub has_registers: u32,
}
