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

/// Kinds of records.
pub mod kind {
    /// [`super::Fork`]
    pub const FORK: u32 = 1;
    /// [`super::Exec`]
    pub const EXEC: u32 = 2;
    /// [`super::Signal`]
    pub const SIGNAL: u32 = 3;
    /// [`super::Delivered`]
    pub const DELIVERED: u32 = 4;
    /// [`super::Victim`]
    pub const VICTIM: u32 = 5;
    /// [`super::Exit`]
    pub const EXIT: u32 = 6;
    /// [`super::Rename`]
    pub const RENAME: u32 = 7;
    /// [`super::Mapped`]
    pub const MAPPED: u32 = 8;
    /// [`super::Grew`]
    pub const GREW: u32 = 9;
}

/// Begins every record.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// One of [`kind`].
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
    /// Name after exec.
    pub comm: [u8; COMM],
    /// argv, NUL-separated.
    pub argv: [u8; ARGV],
}

/// An ancestor of a sender.
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
    /// [`GROUP_EXIT`], [`TOOK_EFFECT`], [`SENDER_EXITING`], [`SENDER_KERNEL_THREAD`].
    pub flags: u32,
    /// `signal->group_exit_code`.
    pub group_exit_code: i32,
    /// `pdeath_signal` of the target.
    pub parent_death_signal: i32,
    /// Sender's uid.
    pub sender_uid: u32,
    /// The sender (current).
    pub sender: Process,
    /// Name of the sender's leader.
    pub sender_comm: [u8; COMM],
    /// Its ancestors.
    pub ancestors: [Ancestor; ANCESTORS],
    /// Its executable's path components, innermost first.
    pub exe: [[u8; EXE_PART]; EXE_PARTS],
    /// Its memory cgroup's names, innermost first.
    pub cgroup: [[u8; CGROUP_NAME]; SENDER_CGROUPS],
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
    /// Valid bytes of `title`; −1 when unreadable.
    pub title_length: i32,
    /// Zero.
    pub reserved: u32,
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

/// The hooks, as rows of the ledger.
pub const HOOKS: [&str; 7] = [
    "oom/mark_victim",
    "signal/signal_generate",
    "signal/signal_deliver",
    "sched/sched_process_fork",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
    "task/task_rename",
];

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
    /// Frames of the thread's Python stack that follow in a [`MappedBy`]; 0 where none do.
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
pub struct MappedBy {
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

/// A [`MappedBy`] with the native side of its thread; sent where the ring has room for it and the kernel gives the registers (5.15).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MappedDeep {
    /// What was mapped, and by which lines.
    pub by: MappedBy,
    /// And below those.
    pub native: Native,
}

/// A process whose resident memory grew by much since its last such record, as the thread that ran then says it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Grew {
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

/// A [`Grew`] with the Python stack of its thread.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GrewBy {
    /// What grew.
    pub grew: Grew,
    /// The frames, the running one first.
    pub stack: [PythonFrame; PYTHON_FRAMES],
}

/// A [`GrewBy`] with the native side of its thread, as [`MappedDeep`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GrewDeep {
    /// What grew, and by which lines.
    pub by: GrewBy,
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
    /// Begin of the second in which records are counted.
    pub window: u64,
    /// Mapped without a record of its own.
    pub held_bytes: u64,
    /// How many these are.
    pub held_calls: u32,
    /// Records in this second.
    pub sent: u32,
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
    /// Begin of the second in which records are counted.
    pub window: u64,
    /// Records in this second.
    pub sent: u64,
    /// The steps.
    pub steps: [Step; STEPS],
}

/// The hooks of the object `memory`, as rows of its ledger.
pub const MEMORY_HOOKS: [&str; 2] = ["mmap/vm_unmapped_area", "timer/hrtimer_expire_entry"];

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
