//! The maps: the tracked set, the ring, the ledger, and scratch space; all preallocated.

use aya_ebpf::{
    helpers::generated,
    macros::map,
    maps::{Array, HashMap, PerCpuArray, RingBuf},
};
use raytrace_ebpf::records::{
    CALL_ARGUMENTS, COMMANDS_KEPT, Command, Exec, Exit, Hook, Offsets, Rename, Snapshot, Tracked,
    ledger,
};

/// Offsets in this kernel's structs, set before the load.
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
    task_thread_pid: 0,
    signal_flags: 0,
    signal_group_exit_code: 0,
    signal_live: 0,
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
    memcg_usage: 0,
    memcg_max: 0,
    pid_level: 0,
    pid_numbers: 0,
    upid_size: 0,
    sigaction_handler: 0,
    task_sighand: 0,
    sighand_actions: 0,
    sigaction_size: 0,
    victim_is_task: 0,
    cpus: 0,
    per_cpu_offset: 0,
};

/// The offsets, read so that the compiler cannot fold the zeros above.
#[inline(always)]
pub(crate) fn offsets() -> &'static Offsets {
    // SAFETY: the static is initialised and never written by programs; black_box hides its value.
    core::hint::black_box(unsafe { &*core::ptr::addr_of!(OFFSETS) })
}

/// 1 where one cluster was chosen: a raylet that starts is then not taken up by itself. Set before the load.
#[unsafe(no_mangle)]
static ONE_CLUSTER: u32 = 0;

#[inline(always)]
pub(crate) fn one_cluster() -> bool {
    // SAFETY: as above.
    core::hint::black_box(unsafe { core::ptr::read_volatile(core::ptr::addr_of!(ONE_CLUSTER)) })
        != 0
}

/// 1 where the kernel gives a task's user registers (`bpf_task_pt_regs`, 5.15). Set before the load, so that the verifier of an older
/// kernel never comes to the calls.
#[unsafe(no_mangle)]
static HAS_REGISTERS: u32 = 0;

#[inline(always)]
pub(crate) fn has_registers() -> bool {
    // SAFETY: the static is initialised and never written by programs.
    unsafe { core::ptr::read_volatile(&raw const HAS_REGISTERS) != 0 }
}

/// Tracked processes by tgid: 65,536 × about 64 bytes = 4 MiB of kernel memory.
#[map]
pub(crate) static TRACKED: HashMap<u32, Tracked> = HashMap::with_max_entries(65_536, 0);

/// The ring for everything about deaths: 8 MiB. A kill takes some 1.6 KiB of it and the end that it causes up
/// to 0.8, so that 3,000 processes which are killed at one moment find room though nobody reads meanwhile:
/// `kill` of a process group gives the processor to nobody. Its reader maps it twice.
#[map]
pub(crate) static DEATHS: RingBuf = RingBuf::with_byte_size(8 << 20, 0);

/// Exits that found no room in the ring; user space harvests them: 2,048 × 720 bytes = 1.4 MiB.
#[map]
pub(crate) static UNSENT: HashMap<u32, Exit> = HashMap::with_max_entries(2_048, 0);

/// Memory and title at the first fatal delivery, for kernels before 6.16: 1,024 × 592 bytes.
#[map]
pub(crate) static SNAPSHOTS: HashMap<u32, Snapshot> = HashMap::with_max_entries(1_024, 0);

/// A SIGKILL that the kernel sent.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct KernelKill {
    /// The task it was for, 0 where there was none, and the one that ran.
    pub(crate) target: u64,
    pub(crate) sender: u64,
    /// The target's process, and 1 where that was tracked.
    pub(crate) tgid: u32,
    pub(crate) is_tracked: u32,
}

/// The last one of each CPU.
#[map]
pub(crate) static LAST_KILL: PerCpuArray<KernelKill> = PerCpuArray::with_max_entries(1, 0);

/// The loss ledger: a row a program.
#[map]
pub(crate) static LEDGER: PerCpuArray<u64> =
    PerCpuArray::with_max_entries(2 * Hook::COUNT as u32 * ledger::COLUMNS, 0);

/// What processes of the machine were started as: 4,096 × 408 bytes = 1.6 MiB.
#[map]
pub(crate) static COMMANDS: Array<Command> = Array::with_max_entries(COMMANDS_KEPT, 0);

/// Where an exec record is put together.
#[map]
pub(crate) static EXEC_SCRATCH: PerCpuArray<Exec> = PerCpuArray::with_max_entries(1, 0);

/// Where an exit record is put together, a slot for each of the two programs.
#[map]
pub(crate) static EXIT_SCRATCH: PerCpuArray<Exit> = PerCpuArray::with_max_entries(2, 0);

/// Where a rename record is put together.
#[map]
pub(crate) static RENAME_SCRATCH: PerCpuArray<Rename> = PerCpuArray::with_max_entries(1, 0);

/// Where a snapshot is put together.
#[map]
pub(crate) static SNAPSHOT_SCRATCH: PerCpuArray<Snapshot> = PerCpuArray::with_max_entries(1, 0);

/// Adds one to a column of a row.
#[inline(always)]
fn count_in(row: u32, column: u32) {
    if let Some(counter) = LEDGER.get_ptr_mut(row * ledger::COLUMNS + column) {
        // SAFETY: the pointer is this CPU's own slot, of one program alone, which the kernel does not run twice at once on a CPU.
        unsafe { *counter += 1 };
    }
}

/// Adds one to a column of the row of a hook's first program.
#[inline(always)]
pub(crate) fn count(hook: Hook, column: u32) {
    count_in(hook.row(), column);
}

/// What [`count_seen`] does, for the second program of a hook.
#[inline(always)]
pub(crate) fn count_second(hook: Hook, outcome: u32) {
    count_in(hook.second_row(), ledger::SEEN);
    count_in(hook.second_row(), outcome);
}

/// Adds one to what a hook has seen, and to the column of what became of it.
#[inline(always)]
pub(crate) fn count_seen(hook: Hook, outcome: u32) {
    count(hook, ledger::SEEN);
    count(hook, outcome);
}

/// Sends the first `size` bytes of a record that was put together in scratch space, and counts it. Nobody is woken.
///
/// # Safety
/// `record` points to at least `size` bytes.
#[inline(always)]
pub(crate) unsafe fn send(hook: Hook, record: *mut core::ffi::c_void, size: usize) {
    // SAFETY: the helper copies `size` bytes, which the caller answers for.
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

/// `BPF_RB_NO_WAKEUP`
pub(crate) const NO_WAKEUP: u64 = 1;
/// `BPF_RB_FORCE_WAKEUP`
pub(crate) const WAKEUP: u64 = 2;
