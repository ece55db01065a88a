//! The maps: the tracked set, the ring, the ledger and scratch space.
//!
//! All of them are preallocated.

use aya_ebpf::{
    helpers::generated,
    macros::map,
    maps::{Array, HashMap, PerCpuArray, RingBuf},
};
use raytrace_ebpf::records::{
    CALL_ARGUMENTS, COMMANDS_KEPT, Caught, Command, Exec, Exit, Hook, Offsets, Rename, Snapshot,
    Spent, Tracked, USERS, Victim, ledger,
};

/// Offsets in the structs of the running kernel, set before the load.
#[unsafe(no_mangle)]
static OFFSETS: Offsets = Offsets {
    task_tgid: 0,
    task_pid: 0,
    task_flags: 0,
    task_comm: 0,
    task_real_parent: 0,
    task_parent: 0,
    task_ptrace: 0,
    task_group_leader: 0,
    task_signal: 0,
    task_mm: 0,
    task_start_boottime: 0,
    task_real_cred: 0,
    task_cgroups: 0,
    task_pdeath_signal: 0,
    task_exit_code: 0,
    task_pending: 0,
    task_blocked: 0,
    task_thread_pid: 0,
    signal_flags: 0,
    signal_group_exit_code: 0,
    signal_live: 0,
    signal_pending: 0,
    signal_maxrss: 0,
    signal_oom_score_adj: 0,
    cred_uid: 0,
    cred_euid: 0,
    cred_suid: 0,
    task_nsproxy: 0,
    nsproxy_mnt_ns: 0,
    mnt_ns_user_ns: 0,
    task_fs: 0,
    fs_root_dentry: 0,
    file_inode: 0,
    inode_number: 0,
    inode_super: 0,
    super_device: 0,
    task_stack: 0,
    registers_on_stack: 0,
    registers_call: 0,
    registers_arguments: [0; CALL_ARGUMENTS],
    registers_compat_arguments: [0; CALL_ARGUMENTS],
    registers_mode: 0,
    registers_user_mask: 0,
    registers_user: 0,
    registers_compat_mask: 0,
    task_status: 0,
    mm_arg_start: 0,
    mm_arg_end: 0,
    mm_rss_stat: 0,
    mm_hiwater_rss: 0,
    mm_exe_file: 0,
    percpu_counter_size: 0,
    percpu_counter_count: 0,
    percpu_counter_counters: 0,
    file_path_dentry: 0,
    dentry_parent: 0,
    dentry_name: 0,
    css_set_memory: 0,
    css_cgroup: 0,
    css_parent: 0,
    cgroup_kn: 0,
    kernfs_name: 0,
    kernfs_id: 0,
    memcg_css: 0,
    memcg_usage: 0,
    memcg_max: 0,
    memcg_oom_events: 0,
    oom_memcg: 0,
    oom_order: 0,
    oom_constraint: 0,
    pid_level: 0,
    pid_numbers: 0,
    upid_size: 0,
    sigaction_handler: 0,
    task_sighand: 0,
    sighand_actions: 0,
    sigaction_size: 0,
    mm_owner: 0,
    file_private_data: 0,
    vm_write_calls: [0; 3],
    victim_is_task: 0,
    cpus: 0,
    per_cpu_offset: 0,
};

/// Returns the offsets. The read hides their values, so that the compiler cannot fold the zeroes
/// above.
#[inline(always)]
pub(crate) fn offsets() -> &'static Offsets {
    // SAFETY: the static is initialized, and no program writes it. `black_box` hides its value.
    core::hint::black_box(unsafe { &*core::ptr::addr_of!(OFFSETS) })
}

/// 1 if the user chose one cluster: a new raylet is then not tracked automatically. Set before the
/// load.
#[unsafe(no_mangle)]
static ONE_CLUSTER: u32 = 0;

#[inline(always)]
pub(crate) fn one_cluster() -> bool {
    // SAFETY: the static is initialized, and no program writes it.
    core::hint::black_box(unsafe { core::ptr::read_volatile(core::ptr::addr_of!(ONE_CLUSTER)) })
        != 0
}

/// 1 if the kernel provides the user registers of a task (`bpf_task_pt_regs`, 5.15). Set before the
/// load, so that the verifier of an older kernel never reaches the calls.
#[unsafe(no_mangle)]
static HAS_REGISTERS: u32 = 0;

#[inline(always)]
pub(crate) fn has_registers() -> bool {
    // SAFETY: the static is initialized, and no program writes it.
    unsafe { core::ptr::read_volatile(&raw const HAS_REGISTERS) != 0 }
}

/// The tracked processes by tgid: 65,536 × about 112 bytes = 7 MiB of kernel memory.
#[map]
pub(crate) static TRACKED: HashMap<u32, Tracked> = HashMap::with_max_entries(65_536, 0);

/// The ring of all records about deaths: 8 MiB.
///
/// A kill takes about 1.6 KiB and the exit that it causes up to 0.9 KiB. So the records of 3,000
/// processes that are killed at once fit even if nothing is read meanwhile: a `kill` of a process
/// group does not yield the CPU. The reader maps the ring twice.
#[map]
pub(crate) static DEATHS: RingBuf = RingBuf::with_byte_size(8 << 20, 0);

/// Exits that did not fit into the ring: 2,048 × 848 bytes = 1.7 MiB. User space harvests them.
#[map]
pub(crate) static UNSENT: HashMap<u32, Exit> = HashMap::with_max_entries(2_048, 0);

/// The last caught signal of each process that has one: 4,096 × about 176 bytes = 0.7 MiB. Of a
/// process over that, `lost_signal` says that there was one.
#[map]
pub(crate) static CAUGHT: HashMap<u32, Caught> = HashMap::with_max_entries(4_096, 0);

/// Memory and title at the first fatal delivery, for kernels before 6.16: 1,024 × 592 bytes.
#[map]
pub(crate) static SNAPSHOTS: HashMap<u32, Snapshot> = HashMap::with_max_entries(1_024, 0);

/// A SIGKILL that the kernel sent.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct KernelKill {
    /// The target of the signal; 0 if there was no such signal.
    pub(crate) target: u64,
    /// The task that ran when the signal was sent.
    pub(crate) sender: u64,
    /// The tgid of the target.
    pub(crate) tgid: u32,
    /// 1 if the target was tracked.
    pub(crate) is_tracked: u32,
}

/// The last SIGKILL of the kernel on each CPU.
#[map]
pub(crate) static LAST_KILL: PerCpuArray<KernelKill> = PerCpuArray::with_max_entries(1, 0);

/// A call of `out_of_memory`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct OomCall {
    /// The task that called it.
    pub(crate) task: u64,
    /// Its argument, a `struct oom_control` on the stack of that task.
    pub(crate) control: u64,
}

/// The last call of `out_of_memory`. There is one at a time on a machine: its callers hold
/// `oom_lock`.
#[map]
pub(crate) static OOM_CALL: Array<OomCall> = Array::with_max_entries(1, 0);

/// Scratch space for the record of a victim: 10 KiB. There is one, because victims are marked in
/// `out_of_memory`.
#[map]
pub(crate) static VICTIM_SCRATCH: Array<Victim> = Array::with_max_entries(1, 0);

/// The loss ledger: one row for each program.
#[map]
pub(crate) static LEDGER: PerCpuArray<u64> =
    PerCpuArray::with_max_entries(2 * Hook::COUNT as u32 * ledger::COLUMNS, 0);

/// The command lines with which the processes of the machine were started: 4,096 × 408 bytes = 1.6
/// MiB.
#[map]
pub(crate) static COMMANDS: Array<Command> = Array::with_max_entries(COMMANDS_KEPT, 0);

/// Scratch space for an exec record.
#[map]
pub(crate) static EXEC_SCRATCH: PerCpuArray<Exec> = PerCpuArray::with_max_entries(1, 0);

/// Scratch space for an exit record, one slot for each of the two programs.
#[map]
pub(crate) static EXIT_SCRATCH: PerCpuArray<Exit> = PerCpuArray::with_max_entries(2, 0);

/// Scratch space for a rename record.
#[map]
pub(crate) static RENAME_SCRATCH: PerCpuArray<Rename> = PerCpuArray::with_max_entries(1, 0);

/// The records of new names that each user caused: 1,024 × 16 bytes.
#[map]
pub(crate) static USER_RENAMED: HashMap<u32, Spent> = HashMap::with_max_entries(USERS, 0);

/// Those that all users caused.
#[map]
pub(crate) static ALL_RENAMED: Array<Spent> = Array::with_max_entries(1, 0);

/// The records of interference that each user caused: 1,024 × 16 bytes.
#[map]
pub(crate) static USER_INTERFERED: HashMap<u32, Spent> = HashMap::with_max_entries(USERS, 0);

/// Those that all users caused.
#[map]
pub(crate) static ALL_INTERFERED: Array<Spent> = Array::with_max_entries(1, 0);

/// The records of signals with a handler that each user caused: 1,024 × 16 bytes.
#[map]
pub(crate) static USER_SIGNALLED: HashMap<u32, Spent> = HashMap::with_max_entries(USERS, 0);

/// Those that all users caused.
#[map]
pub(crate) static ALL_SIGNALLED: Array<Spent> = Array::with_max_entries(1, 0);

/// Scratch space for a snapshot.
#[map]
pub(crate) static SNAPSHOT_SCRATCH: PerCpuArray<Snapshot> = PerCpuArray::with_max_entries(1, 0);

/// Adds 1 to a column of a row.
#[inline(always)]
fn count_in(row: u32, column: u32) {
    if let Some(counter) = LEDGER.get_ptr_mut(row * ledger::COLUMNS + column) {
        // SAFETY: the pointer is to this CPU's slot of a counter that only one program writes. The
        // kernel does not run this program twice at once on a CPU.
        unsafe { *counter += 1 };
    }
}

/// Adds 1 to a column in the row of a hook's first program.
#[inline(always)]
pub(crate) fn count(hook: Hook, column: u32) {
    count_in(hook.row(), column);
}

/// Counts an event and its outcome for the second program of a hook, as [`count_seen`] does for the
/// first.
#[inline(always)]
pub(crate) fn count_second(hook: Hook, outcome: u32) {
    count_in(hook.second_row(), ledger::SEEN);
    count_in(hook.second_row(), outcome);
}

/// Adds 1 to the number of events that a hook has seen, and 1 to the column of the outcome.
#[inline(always)]
pub(crate) fn count_seen(hook: Hook, outcome: u32) {
    count(hook, ledger::SEEN);
    count(hook, outcome);
}

/// Sends the first `size` bytes of a record in scratch space, and counts the outcome. It does not
/// wake the reader.
#[inline(always)]
pub(crate) unsafe fn send(hook: Hook, record: *mut core::ffi::c_void, size: usize) {
    // SAFETY: the helper reads `size` bytes of the record, which the caller guarantees to exist.
    let sent = unsafe {
        generated::bpf_ringbuf_output(
            core::ptr::addr_of!(DEATHS).cast_mut().cast(),
            record,
            size as u64,
            NO_WAKEUP,
        )
    };
    let outcome = if sent == 0 {
        ledger::SUBMITTED
    } else {
        ledger::RING_FULL
    };
    count(hook, outcome);
}

/// `BPF_RB_NO_WAKEUP`.
pub(crate) const NO_WAKEUP: u64 = 1;
/// `BPF_RB_FORCE_WAKEUP`.
pub(crate) const WAKEUP: u64 = 2;
