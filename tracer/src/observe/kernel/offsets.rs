//! Which fields the eBPF programs read, by name, with the alternative names of other kernels.

use raytrace_ebpf::records::{NONE, Offsets};

use super::{attach::KernelError, btf::Btf};

/// CPUs that the programs sum at most (`MAX_CPUS` there).
const MAX_CPUS: u32 = 256;

/// The offsets on the kernel that `btf` describes.
pub(super) fn find(btf: &Btf, per_cpu_offset: Option<u64>) -> Result<Offsets, KernelError> {
    let need = |structure: &'static str, field: &'static str| {
        btf.offset(structure, field)
            .ok_or(KernelError::NoField { structure, field })
    };
    let either = |structure: &'static str, field: &'static str, other: &'static str| {
        btf.offset(structure, field)
            .map_or_else(|| need(structure, other), Ok)
    };
    let optional = |structure, field| btf.offset(structure, field).unwrap_or(NONE);
    let batched = btf.is_array("mm_struct", "rss_stat");
    let css = need("mem_cgroup", "css")?;
    let memory =
        btf.enumerator("cgroup_subsys_id", "memory_cgrp_id")
            .ok_or(KernelError::NoField {
                structure: "cgroup_subsys_id",
                field: "memory_cgrp_id",
            })?;
    let per_cpu_offset = per_cpu_offset.unwrap_or(0);
    Ok(Offsets {
        task_tgid: need("task_struct", "tgid")?,
        task_pid: need("task_struct", "pid")?,
        task_flags: need("task_struct", "flags")?,
        task_comm: need("task_struct", "comm")?,
        task_real_parent: need("task_struct", "real_parent")?,
        task_group_leader: need("task_struct", "group_leader")?,
        task_signal: need("task_struct", "signal")?,
        task_mm: need("task_struct", "mm")?,
        task_start_boottime: either("task_struct", "start_boottime", "real_start_time")?,
        task_real_cred: need("task_struct", "real_cred")?,
        task_cgroups: need("task_struct", "cgroups")?,
        task_pdeath_signal: need("task_struct", "pdeath_signal")?,
        task_exit_code: need("task_struct", "exit_code")?,
        task_thread_pid: need("task_struct", "thread_pid")?,
        signal_flags: need("signal_struct", "flags")?,
        signal_group_exit_code: need("signal_struct", "group_exit_code")?,
        signal_live: need("signal_struct", "live")?,
        signal_maxrss: need("signal_struct", "maxrss")?,
        signal_oom_score_adj: need("signal_struct", "oom_score_adj")?,
        cred_uid: need("cred", "uid")?,
        cred_euid: need("cred", "euid")?,
        cred_suid: need("cred", "suid")?,
        task_nsproxy: need("task_struct", "nsproxy")?,
        nsproxy_mnt_ns: need("nsproxy", "mnt_ns")?,
        mnt_ns_user_ns: need("mnt_namespace", "user_ns")?,
        task_fs: need("task_struct", "fs")?,
        fs_root_dentry: need("fs_struct", "root.dentry")?,
        file_inode: need("file", "f_inode")?,
        inode_number: need("inode", "i_ino")?,
        inode_super: need("inode", "i_sb")?,
        super_device: need("super_block", "s_dev")?,
        task_stack: optional("task_struct", "stack"),
        mm_arg_start: need("mm_struct", "arg_start")?,
        mm_arg_end: need("mm_struct", "arg_end")?,
        mm_rss_stat: need("mm_struct", "rss_stat")?,
        mm_hiwater_rss: need("mm_struct", "hiwater_rss")?,
        mm_exe_file: need("mm_struct", "exe_file")?,
        percpu_counter_size: if batched {
            btf.size("percpu_counter").unwrap_or(0)
        } else {
            0
        },
        percpu_counter_count: optional("percpu_counter", "count"),
        percpu_counter_counters: optional("percpu_counter", "counters"),
        file_path_dentry: need("file", "f_path.dentry")?,
        dentry_parent: need("dentry", "d_parent")?,
        dentry_name: need("dentry", "d_name.name")?,
        css_set_memory: need("css_set", "subsys")? + memory * 8,
        css_cgroup: need("cgroup_subsys_state", "cgroup")?,
        css_parent: need("cgroup_subsys_state", "parent")?,
        cgroup_kn: need("cgroup", "kn")?,
        kernfs_name: need("kernfs_node", "name")?,
        memcg_usage: need("mem_cgroup", "memory.usage")? - css,
        memcg_max: need("mem_cgroup", "memory.max")? - css,
        pid_level: need("pid", "level")?,
        pid_numbers: need("pid", "numbers")? + need("upid", "nr")?,
        upid_size: btf.size("upid").ok_or(KernelError::NoField {
            structure: "upid",
            field: "nr",
        })?,
        sigaction_handler: need("k_sigaction", "sa.sa_handler")?,
        victim_is_task: u32::from(
            btf.first_argument_is_pointer("mark_victim")
                .unwrap_or(false),
        ),
        cpus: if per_cpu_offset == 0 {
            0
        } else {
            possible_cpus().min(MAX_CPUS)
        },
        per_cpu_offset,
        ..registers(btf)
    })
}

/// Where the registers of a task lie with which it left user space, and which of them say what it asked for; nothing else is filled in.
fn registers(btf: &Btf) -> Offsets {
    let found = of_x86_64(btf).or_else(|| of_aarch64(btf));
    found.unwrap_or(Offsets {
        registers_call: NONE,
        task_status: NONE,
        ..Offsets::default()
    })
}

/// `ptrace.h`, `syscall.h` and `page_64_types.h` of arch/x86/include/asm.
fn of_x86_64(btf: &Btf) -> Option<Offsets> {
    let of = |field| btf.offset("pt_regs", field);
    Some(Offsets {
        registers_on_stack: STACK_OF_X86_64.checked_sub(btf.size("pt_regs")?)?,
        registers_call: of("orig_ax")?,
        registers_arguments: [of("di")?, of("si")?, of("dx")?],
        registers_compat_arguments: [of("bx")?, of("cx")?, of("dx")?],
        registers_mode: of("cs")?,
        registers_user_mask: 3,
        registers_user: 3,
        task_status: btf.offset("task_struct", "thread_info.status")?,
        ..Offsets::default()
    })
}

/// `ptrace.h`, `syscall.h` and `memory.h` of arch/arm64/include/asm.
fn of_aarch64(btf: &Btf) -> Option<Offsets> {
    let of = |field| btf.offset("pt_regs", field);
    let registers = of("regs")?;
    let arguments = [of("orig_x0")?, registers + 8, registers + 16];
    let page = u32::try_from(rustix::param::page_size()).ok()?;
    let stack = STACK_OF_AARCH64.max(page);
    Some(Offsets {
        registers_on_stack: stack.checked_sub(btf.size("pt_regs")?)?,
        registers_call: of("syscallno")?,
        registers_arguments: arguments,
        registers_compat_arguments: arguments,
        registers_mode: of("pstate")?,
        registers_user_mask: 0xf,
        registers_user: 0,
        registers_compat_mask: 0x10,
        task_status: NONE,
        ..Offsets::default()
    })
}

/// `THREAD_SIZE` without KASAN. Nothing lies above the registers on the kernels that need it: what FRED keeps there came with 6.9.
const STACK_OF_X86_64: u32 = 16 << 10;
/// The same; a page where those are larger.
const STACK_OF_AARCH64: u32 = 16 << 10;

/// Possible CPUs, whose counters must all be summed.
fn possible_cpus() -> u32 {
    aya::util::nr_cpus()
        .ok()
        .and_then(|cpus| u32::try_from(cpus).ok())
        .unwrap_or(1)
}
