//! Finds the offsets of kernel fields: those that several hooks read, and those of each hook.
//!
//! A field that has another name on some kernels is searched by both names.

use raytrace_ebpf::records::{Hook, Offsets};

use super::{error::KernelError, fields::Fields, hooks};

/// The most CPUs that the programs sum over (`MAX_CPUS` there).
const MAX_CPUS: u32 = 512;

/// Returns the offsets for the kernel that `fields` describes.
pub(super) fn find(
    fields: &Fields<'_>,
    per_cpu_offset: Option<u64>,
) -> Result<Offsets, KernelError> {
    let mut offsets = shared(fields, per_cpu_offset.unwrap_or(0))?;
    for hook in Hook::ALL {
        (hooks::of(hook).offsets)(fields, &mut offsets)?;
    }
    Ok(offsets)
}

fn shared(fields: &Fields<'_>, per_cpu_offset: u64) -> Result<Offsets, KernelError> {
    let need = |structure, field| fields.need(structure, field);
    let optional = |structure, field| fields.optional(structure, field);
    let btf = fields.btf;
    let batched = btf.is_array("mm_struct", "rss_stat");
    let memory =
        btf.enumerator("cgroup_subsys_id", "memory_cgrp_id")
            .ok_or(KernelError::NoField {
                structure: "cgroup_subsys_id",
                field: "memory_cgrp_id",
            })?;
    Ok(Offsets {
        task_tgid: need("task_struct", "tgid")?,
        task_pid: need("task_struct", "pid")?,
        task_flags: need("task_struct", "flags")?,
        task_comm: need("task_struct", "comm")?,
        task_real_parent: need("task_struct", "real_parent")?,
        task_parent: need("task_struct", "parent")?,
        task_ptrace: need("task_struct", "ptrace")?,
        task_group_leader: need("task_struct", "group_leader")?,
        task_signal: need("task_struct", "signal")?,
        task_mm: need("task_struct", "mm")?,
        task_start_boottime: fields.either("task_struct", "start_boottime", "real_start_time")?,
        task_real_cred: need("task_struct", "real_cred")?,
        task_cgroups: need("task_struct", "cgroups")?,
        task_thread_pid: need("task_struct", "thread_pid")?,
        signal_flags: need("signal_struct", "flags")?,
        signal_group_exit_code: need("signal_struct", "group_exit_code")?,
        signal_maxrss: need("signal_struct", "maxrss")?,
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
        pid_level: need("pid", "level")?,
        pid_numbers: need("pid", "numbers")? + need("upid", "nr")?,
        upid_size: btf.size("upid").ok_or(KernelError::NoField {
            structure: "upid",
            field: "nr",
        })?,
        cpus: if per_cpu_offset == 0 {
            0
        } else {
            possible_cpus().min(MAX_CPUS)
        },
        per_cpu_offset,
        // Fields of a single hook are found by that hook.
        ..Offsets::default()
    })
}

/// Returns the number of possible CPUs; the counters of all of them must be summed.
fn possible_cpus() -> u32 {
    aya::util::nr_cpus()
        .ok()
        .and_then(|cpus| u32::try_from(cpus).ok())
        .unwrap_or(1)
}
