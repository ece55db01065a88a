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
    })
}

/// Possible CPUs, whose counters must all be summed.
fn possible_cpus() -> u32 {
    aya::util::nr_cpus()
        .ok()
        .and_then(|cpus| u32::try_from(cpus).ok())
        .unwrap_or(1)
}
