//! Names cgroups by their paths in the whole machine, even from inside a cgroup namespace.
//!
//! Inside a namespace the kernel shows paths relative to the namespace's root: `/` for the root,
//! `/..` for its parent (`cgroup_namespaces(7)`). If the machine's hierarchy is mounted, as in a
//! `DaemonSet`, this process is found in it, and its position gives the paths of all other cgroups.
//! If not, the recorder enters the machine's own namespace, if it has the right to.

use std::{
    fs::File,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use procfs::{FromBufRead as _, ProcessCGroup, ProcessCGroups};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{bounded, ids::Pid, mounts};

/// The machine's own cgroup and pid namespaces: `PROC_CGROUP_INIT_INO` and `PROC_PID_INIT_INO` of
/// include/uapi/linux/nsfs.h.
const MACHINE_CGROUP_NAMESPACE: &str = "cgroup:[4026531835]";
const MACHINE_PID_NAMESPACE: &str = "pid:[4026531836]";

/// How many cgroups are searched at most.
const MOST: usize = 50_000;

/// The path of the namespace's root; `None` where paths are already the machine's, or cannot be
/// known.
static ROOT: LazyLock<Option<String>> = LazyLock::new(|| {
    let mount = mounts::mount_from_above()?;
    let pid = std::process::id().to_string();
    let place = find(&mount, &pid)?;
    let own = as_shown(Pid(std::process::id()))?;
    Some(without(&place, &own))
});

/// Returns the path of a cgroup in the machine's hierarchy.
pub(super) fn absolute(shown: String) -> String {
    match &*ROOT {
        Some(root) => join(root, &shown),
        None => shown,
    }
}

/// Whether paths start at the machine's root although this process is in a namespace.
pub(super) fn is_known() -> bool {
    ROOT.is_some()
}

fn is_in(kind: &str, namespace: &str) -> bool {
    let own = std::fs::read_link(format!("/proc/self/ns/{kind}"));
    own.is_ok_and(|own| own.as_os_str() == namespace)
}

/// Whether the pids in /proc are the machine's, and pid 1 is its init.
pub(super) fn is_among_all_processes() -> bool {
    is_in("pid", MACHINE_PID_NAMESPACE)
}

/// Whether this process is in the machine's own cgroup namespace.
pub(super) fn is_in_machine_namespace() -> bool {
    is_in("cgroup", MACHINE_CGROUP_NAMESPACE)
}

/// Enters the machine's own namespace, if this process sees the machine's processes and has the
/// right to. From another namespace, their cgroups have no path. Threads that start later are in it
/// too.
pub fn enter_machine_namespace() {
    if is_in_machine_namespace() || !is_among_all_processes() {
        return;
    }
    let entered = File::open("/proc/1/ns/cgroup").and_then(|machines| {
        let kind = Some(LinkNameSpaceType::ControlGroup);
        Ok(move_into_link_name_space(machines.as_fd(), kind)?)
    });
    if let Err(error) = entered {
        tracing::info!("staying in the private cgroup namespace: {error}");
    }
}

/// Whether a path leads out of the namespace from which it was read. Such a path does not name a
/// cgroup.
pub(super) fn leads_out(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// Follows `path` from `root`. `..` in it is the parent.
fn join(root: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in root.split('/').chain(path.split('/')) {
        match part {
            "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Returns `place` without the part that is inside the namespace.
fn without(place: &str, inside: &str) -> String {
    let root = place.strip_suffix(inside.trim_end_matches('/'));
    root.unwrap_or(place).to_owned()
}

/// Returns the cgroup of a process as /proc shows it: relative to the root of this process's cgroup
/// namespace.
pub(super) fn as_shown(pid: Pid) -> Option<String> {
    memory_cgroup(&hierarchies(pid)?)
}

/// Returns the same for each hierarchy.
pub(super) fn hierarchies(pid: Pid) -> Option<ProcessCGroups> {
    let bytes = bounded::of_process(pid, "cgroup", bounded::SMALL).ok()?;
    ProcessCGroups::from_buf_read(bytes.as_slice()).ok()
}

pub(super) fn memory_cgroup(all: &ProcessCGroups) -> Option<String> {
    let v1 = |one: &ProcessCGroup| one.controllers.iter().any(|name| name == "memory");
    let v2 = |one: &ProcessCGroup| one.controllers.is_empty();
    let all = &all.0;
    let found = all
        .iter()
        .find(|one| v1(one))
        .or_else(|| all.iter().find(|one| v2(one)))?;
    Some(found.pathname.clone())
}

/// Finds the cgroup below `mount` that contains this process.
fn find(mount: &Path, pid: &str) -> Option<String> {
    let mut folders: Vec<PathBuf> = vec![mount.to_owned()];
    for _ in 0..MOST {
        let folder = folders.pop()?;
        let members = bounded::text(folder.join("cgroup.procs"), bounded::LARGE);
        let members = members.unwrap_or_default();
        if members.lines().any(|line| line == pid) {
            let below = folder.strip_prefix(mount).ok()?;
            return Some(format!("/{}", below.display()));
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(below.map(|entry| entry.path()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_up_and_down_from_the_root() {
        let root = "/kubepods.slice/kubepods-pod1.slice/cri-containerd-a.scope";
        for (shown, path) in [
            ("/", root),
            (
                "/../cri-containerd-b.scope",
                "/kubepods.slice/kubepods-pod1.slice/cri-containerd-b.scope",
            ),
            (
                "/../../kubepods-pod2.slice/x",
                "/kubepods.slice/kubepods-pod2.slice/x",
            ),
            ("/../../../user.slice", "/user.slice"),
            ("/../../..", "/"),
        ] {
            assert_eq!(join(root, shown), path, "{shown}");
        }
    }

    #[test]
    fn only_parent_steps_lead_out() {
        assert!(leads_out("/..") && leads_out("/../x"));
        assert!(!leads_out("/") && !leads_out("/a..b/...c"));
    }

    /// The process may be in a cgroup below its namespace's root.
    #[test]
    fn root_is_the_place_without_the_inner_path() {
        assert_eq!(without("/pod/container/inner", "/inner"), "/pod/container");
        assert_eq!(without("/pod/container", "/"), "/pod/container");
    }

    #[test]
    fn process_is_found_by_its_pid_in_the_tree() {
        let folder = tempfile::tempdir().expect("a folder");
        let deep = folder.path().join("a/b");
        std::fs::create_dir_all(&deep).expect("folders");
        std::fs::write(folder.path().join("cgroup.procs"), "1\n").expect("a file");
        std::fs::write(deep.join("cgroup.procs"), "12\n345\n").expect("a file");
        assert_eq!(find(folder.path(), "345").as_deref(), Some("/a/b"));
        assert_eq!(find(folder.path(), "34"), None);
    }
}
