//! Reads kernel structs by the offsets of the running kernel.

use aya_ebpf::helpers::{
    bpf_get_current_pid_tgid, bpf_get_current_task, bpf_ktime_get_boot_ns, generated,
};
use raytrace_ebpf::records::{
    ANCESTORS, Ancestor, COMM, EXE_PART, EXE_PARTS, File, Header, Kind, Process,
};

use super::maps::offsets;
use crate::read::{field, read};

/// `si_code` of a signal that the kernel sends by itself.
pub(crate) const SI_KERNEL: i32 = 128;

/// Reads `length` bytes into `to`.
#[inline(always)]
pub(crate) fn read_bytes(to: *mut u8, length: u32, from: u64) {
    // SAFETY: the helper checks the source. The callers pass a destination of `length` bytes.
    unsafe { generated::bpf_probe_read_kernel(to.cast(), length, from as *const _) };
}

/// Reads a NUL-terminated string into `to`.
#[inline(always)]
pub(crate) fn read_string(to: *mut u8, length: u32, from: u64) {
    // SAFETY: the helper checks the source. The callers pass a destination of `length` bytes.
    unsafe { generated::bpf_probe_read_kernel_str(to.cast(), length, from as *const _) };
}

/// Returns the current task.
#[inline(always)]
pub(crate) fn current() -> u64 {
    // SAFETY: the helper takes no arguments and cannot fail.
    unsafe { bpf_get_current_task() }
}

/// Returns the header of a record.
#[inline(always)]
pub(crate) fn header(kind: Kind) -> Header {
    // SAFETY: the helper takes no arguments and cannot fail (Linux ≥ 5.8).
    Header {
        kind: kind as u32,
        reserved: 0,
        time: unsafe { bpf_ktime_get_boot_ns() },
    }
}

#[inline(always)]
pub(crate) fn tgid<const TYPED: bool>(task: u64) -> u32 {
    field::<u32, TYPED>(task, offsets().task_tgid)
}

/// Returns the tgid of the current task.
#[inline(always)]
pub(crate) fn current_tgid() -> u32 {
    (bpf_get_current_pid_tgid() >> 32) as u32
}

/// Returns the process that a task belongs to.
#[inline(always)]
pub(crate) fn process(task: u64) -> Process {
    process_of::<false>(task, leader::<false>(task))
}

/// Returns the same for a caller that knows the leader of the task's thread group. `TYPED` has the
/// same meaning as in [`field`], here and below.
#[inline(always)]
pub(crate) fn process_of<const TYPED: bool>(task: u64, leader: u64) -> Process {
    Process {
        tgid: field::<u32, TYPED>(task, offsets().task_tgid),
        tid: field::<u32, TYPED>(task, offsets().task_pid),
        start: field::<u64, TYPED>(leader, offsets().task_start_boottime),
    }
}

#[inline(always)]
pub(crate) fn signal_struct<const TYPED: bool>(task: u64) -> u64 {
    field::<u64, TYPED>(task, offsets().task_signal)
}

/// Reads the name of a task.
#[inline(always)]
pub(crate) fn comm(task: u64, to: *mut u8) {
    read_bytes(to, COMM as u32, task + u64::from(offsets().task_comm));
}

/// Reads the name of a task's leader.
#[inline(always)]
pub(crate) fn leader_comm(task: u64, to: *mut u8) {
    comm(leader::<false>(task), to);
}

/// Returns the parent of a leader.
#[inline(always)]
pub(crate) fn parent_of<const TYPED: bool>(leader: u64) -> u64 {
    field::<u64, TYPED>(leader, offsets().task_real_parent)
}

/// Reads the tracer of a thread or, if that thread is not traced, of another thread of its process.
/// Writes zeroes if neither is traced.
#[inline(always)]
pub(crate) fn tracer<const TYPED: bool>(thread: u64, other: u64, to: &mut Ancestor) {
    let of_thread = field::<u32, TYPED>(thread, offsets().task_ptrace);
    let of_other = field::<u32, TYPED>(other, offsets().task_ptrace);
    let traced = if of_thread != 0 { thread } else { other };
    to.tgid = 0;
    to.comm = [0; COMM];
    if of_thread | of_other == 0 {
        return;
    }
    let tracer: u64 = read(traced, offsets().task_parent);
    to.tgid = tgid::<false>(tracer);
    leader_comm(tracer, to.comm.as_mut_ptr());
}

/// Returns `si_code`. The siginfo pointer is 0 for `SI_USER` and 1 for `SI_KERNEL`; only higher
/// values are addresses.
#[inline(always)]
pub(crate) fn si_code(info: u64) -> i32 {
    match info {
        0 => 0,
        1 => SI_KERNEL,
        pointer => read(pointer, 8),
    }
}

/// Returns the leader of a thread's group.
#[inline(always)]
pub(crate) fn leader<const TYPED: bool>(task: u64) -> u64 {
    field::<u64, TYPED>(task, offsets().task_group_leader)
}

#[inline(always)]
pub(crate) fn uid(task: u64) -> u32 {
    let cred: u64 = read(task, offsets().task_real_cred);
    read(cred, offsets().cred_uid)
}

/// Returns the real, effective and saved uid.
#[inline(always)]
pub(crate) fn uids(task: u64) -> [u32; 3] {
    let cred: u64 = read(task, offsets().task_real_cred);
    [
        read(cred, offsets().cred_uid),
        read(cred, offsets().cred_euid),
        read(cred, offsets().cred_suid),
    ]
}

/// Returns the addresses of the user namespace that owns a task's mounts, and of its root
/// directory.
///
/// Both are compared with those of another task: without privileges, a user can mount something
/// over a file only in a user namespace of their own. Both are 0 once the task has released its
/// namespaces or its root directory.
#[inline(always)]
pub(crate) fn root(task: u64) -> [u64; 2] {
    let namespaces: u64 = read(task, offsets().task_nsproxy);
    let folders: u64 = read(task, offsets().task_fs);
    if namespaces == 0 || folders == 0 {
        return [0; 2];
    }
    let mounts: u64 = read(namespaces, offsets().nsproxy_mnt_ns);
    [
        read(mounts, offsets().mnt_ns_user_ns),
        read(folders, offsets().fs_root_dentry),
    ]
}

/// Returns the executable of an mm; zeroes if it has none.
#[inline(always)]
pub(crate) fn executable(mm: u64) -> File {
    let mut file = File {
        inode: 0,
        device: 0,
    };
    if mm == 0 {
        return file;
    }
    let opened: u64 = read(mm, offsets().mm_exe_file);
    if opened == 0 {
        return file;
    }
    let inode: u64 = read(opened, offsets().file_inode);
    if inode == 0 {
        return file;
    }
    file.inode = read(inode, offsets().inode_number);
    let system: u64 = read(inode, offsets().inode_super);
    let device: u32 = read(system, offsets().super_device);
    file.device = u64::from(device);
    file
}

/// Returns the start and the end of an mm's command line: `mm_struct.arg_start` and `.arg_end`.
///
/// One read is enough if the fields are adjacent, as in every kernel from 5.8 to 7.3. Both are 0
/// while an exec has not set them yet.
#[inline(always)]
pub(crate) fn argument_range(mm: u64) -> (u64, u64) {
    if mm == 0 {
        return (0, 0);
    }
    let (start, end) = (offsets().mm_arg_start, offsets().mm_arg_end);
    if end == start + 8 {
        let [start, end]: [u64; 2] = read(mm, start);
        return (start, end);
    }
    (read(mm, start), read(mm, end))
}

/// Copies the command line that the running task shows now. Returns the number of valid bytes.
#[inline(always)]
pub(crate) fn arguments((start, end): (u64, u64), to: *mut u8, room: u32) -> u32 {
    let mut length = end.wrapping_sub(start);
    if start == 0 {
        return 0;
    }
    if length > u64::from(room) {
        length = u64::from(room);
    }
    // SAFETY: the callers pass a destination of `room` bytes. The helper checks the source.
    let failed =
        unsafe { generated::bpf_probe_read_user(to.cast(), length as u32, start as *const _) };
    if failed != 0 { 0 } else { length as u32 }
}

/// Returns the pid of a leader in its innermost pid namespace.
#[inline(always)]
pub(crate) fn ns_pid<const TYPED: bool>(leader: u64) -> u32 {
    let pid = field::<u64, TYPED>(leader, offsets().task_thread_pid);
    if pid == 0 {
        return 0;
    }
    let level: u32 = read(pid, offsets().pid_level);
    if level > 32 {
        return 0;
    }
    read(pid, offsets().pid_numbers + level * offsets().upid_size)
}

/// Reads the ancestors of a task by `real_parent`, nearest first.
#[inline(always)]
pub(crate) fn ancestors(task: u64, to: &mut [Ancestor; ANCESTORS]) {
    let mut at = task;
    for ancestor in to.iter_mut() {
        at = parent_of::<false>(leader::<false>(at));
        ancestor.tgid = if at == 0 { 0 } else { tgid::<false>(at) };
        if ancestor.tgid == 0 {
            ancestor.comm = [0; COMM];
        } else {
            leader_comm(at, ancestor.comm.as_mut_ptr());
        }
    }
}

/// Reads the path components of a task's executable, innermost first, up to the root of its mount.
#[inline(always)]
pub(crate) fn exe(task: u64, to: &mut [[u8; EXE_PART]; EXE_PARTS]) {
    let mm: u64 = read(task, offsets().task_mm);
    let mut dentry: u64 = 0;
    if mm != 0 {
        let file: u64 = read(mm, offsets().mm_exe_file);
        if file != 0 {
            dentry = read(file, offsets().file_path_dentry);
        }
    }
    for part in to.iter_mut() {
        part[0] = 0;
        if dentry == 0 {
            continue;
        }
        let up: u64 = read(dentry, offsets().dentry_parent);
        if up == dentry {
            dentry = 0;
            continue;
        }
        let name: u64 = read(dentry, offsets().dentry_name);
        read_string(part.as_mut_ptr(), EXE_PART as u32, name);
        dentry = up;
    }
}

/// Returns the innermost memory cgroup state (css) of a task.
#[inline(always)]
pub(crate) fn memory_css(task: u64) -> u64 {
    let set: u64 = read(task, offsets().task_cgroups);
    if set == 0 {
        return 0;
    }
    read(set, offsets().css_set_memory)
}

#[inline(always)]
pub(crate) fn css_parent(css: u64) -> u64 {
    read(css, offsets().css_parent)
}

/// Returns the directory of a cgroup, a `struct kernfs_node`.
#[inline(always)]
pub(crate) fn css_directory(css: u64) -> u64 {
    let cgroup: u64 = read(css, offsets().css_cgroup);
    read(cgroup, offsets().cgroup_kn)
}

/// Reads the name of a cgroup in its parent directory, with at most `length` bytes; empty for the
/// root.
#[inline(always)]
pub(crate) fn directory_name(directory: u64, to: *mut u8, length: usize) {
    let name: u64 = read(directory, offsets().kernfs_name);
    read_string(to, length as u32, name);
}
