//! Processes as /proc shows them: one, all, and the files of a Ray session that one holds open.

use std::{
    fs::{File, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use procfs::{ProcessCGroup, ProcessCGroups};

use crate::{
    event::{Process, Role},
    ids::{BootTime, CLOCK_TICK_NS, Pid, ProcessKey},
    observe::{container, memory},
    ray::identify,
};

/// Bytes of a command line that are kept.
const ARGV_BYTES: usize = 4096;

/// The parts of /proc/PID/stat that are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Name of the leader.
    pub comm: String,
    /// State letter.
    pub state: char,
    /// Parent.
    pub parent: Pid,
    /// Process group.
    pub process_group: Pid,
    /// Start, truncated to clock ticks.
    pub start: BootTime,
    /// Threads that have not ended, the leader counted even if it has.
    pub threads: u32,
    /// The wait status of a zombie, where it may be read.
    pub exit_code: Option<i32>,
    /// The leader has begun to exit.
    pub exiting: bool,
}

/// `PF_EXITING` of include/linux/sched.h: set before `sched_process_exit`, never taken back.
const PF_EXITING: u32 = 4;

/// /proc/PID/stat.
#[must_use]
pub fn stat(pid: Pid) -> Option<Stat> {
    let stat = open(pid)?.stat().ok()?;
    let number = |pid: i32| u32::try_from(pid).ok().map(Pid);
    Some(Stat {
        parent: number(stat.ppid)?,
        process_group: number(stat.pgrp).unwrap_or(Pid(0)),
        start: BootTime(stat.starttime * CLOCK_TICK_NS),
        state: stat.state,
        threads: u32::try_from(stat.num_threads).unwrap_or(1),
        exit_code: stat.exit_code,
        exiting: stat.flags & PF_EXITING != 0,
        comm: stat.comm,
    })
}

fn open(pid: Pid) -> Option<procfs::process::Process> {
    procfs::process::Process::new(pid.0.cast_signed()).ok()
}

/// The identity of a running process.
#[must_use]
pub fn key(pid: Pid) -> Option<ProcessKey> {
    Some(ProcessKey {
        pid,
        start: stat(pid)?.start,
    })
}

/// All pids of this /proc.
#[must_use]
pub fn all() -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid))
        .collect()
}

/// argv, at most 4 KiB of it, without the NULs that pad a rewritten title.
#[must_use]
pub fn argv(pid: Pid) -> Vec<String> {
    let Ok(bytes) = std::fs::read(format!("/proc/{pid}/cmdline")) else {
        return Vec::new();
    };
    let bytes = &bytes[..bytes.len().min(ARGV_BYTES)];
    let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else {
        return Vec::new();
    };
    bytes[..=last]
        .split(|byte| *byte == 0)
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

/// The memory cgroup (v1) or cgroup (v2) of a process.
#[must_use]
pub fn cgroup(pid: Pid) -> Option<String> {
    memory_cgroup(open(pid)?.cgroups().ok()?)
}

fn memory_cgroup(all: ProcessCGroups) -> Option<String> {
    let v1 = |one: &ProcessCGroup| one.controllers.iter().any(|name| name == "memory");
    let v2 = |one: &ProcessCGroup| one.controllers.is_empty();
    let all = all.0;
    let found = all
        .iter()
        .find(|one| v1(one))
        .or_else(|| all.iter().find(|one| v2(one)))?;
    Some(found.pathname.clone())
}

/// The innermost pid of a process, where that is another one.
fn ns_pid(pid: Pid) -> Option<Pid> {
    innermost(&memory::status(pid)?).filter(|inner| *inner != pid)
}

/// A thread as its own pid namespace numbers it.
#[must_use]
pub fn thread_in_namespace(pid: Pid, tid: Pid) -> Pid {
    let status = std::fs::read(format!("/proc/{pid}/task/{tid}/status"));
    let status = status.unwrap_or_default();
    innermost(&String::from_utf8_lossy(&status)).unwrap_or(tid)
}

fn innermost(status: &str) -> Option<Pid> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    let last = line.split_ascii_whitespace().next_back()?;
    last.parse().ok().map(Pid)
}

/// One process with everything that can be read of it; `cluster` is the caller's to fill.
#[must_use]
pub fn describe(pid: Pid) -> Option<Process> {
    let stat = stat(pid)?;
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let argv = argv(pid);
    let cgroup = cgroup(pid);
    let exe = std::fs::read_link(folder.join("exe")).ok();
    Some(Process {
        process: ProcessKey {
            pid,
            start: stat.start,
        },
        ns_pid: ns_pid(pid),
        parent: (stat.parent.0 != 0).then_some(stat.parent),
        process_group: Some(stat.process_group),
        role: identify::role(&stat.comm, &argv).unwrap_or(Role::Other),
        comm: stat.comm,
        argv,
        exe: exe.map(|path| path.to_string_lossy().into_owned()),
        uid: std::fs::metadata(&folder).ok().map(|data| data.uid()),
        container_id: cgroup.as_deref().and_then(container::id),
        cgroup,
        cluster: None,
    })
}

/// The process that has `ray_pid` in the pid namespace of `raylet`.
#[must_use]
pub fn in_namespace(raylet: Pid, ray_pid: Pid) -> Option<Pid> {
    let namespace = |pid: Pid| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let wanted = namespace(raylet)?;
    all().into_iter().find(|pid| {
        namespace(*pid).as_ref() == Some(&wanted)
            && describe(*pid).is_some_and(|process| process.ns_pid.unwrap_or(*pid) == ray_pid)
    })
}

/// The log files of Ray's that a process holds open, by the links of its descriptors.
#[must_use]
pub fn open_logs(pid: Pid) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let links = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|path| is_session_log(path)).collect()
}

/// Whether a process has this very file open.
#[must_use]
pub fn holds_open(pid: Pid, file: &File) -> bool {
    let same =
        |data: Metadata, other: &Metadata| (data.dev(), data.ino()) == (other.dev(), other.ino());
    let Ok(wanted) = file.metadata() else {
        return false;
    };
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut open = entries
        .flatten()
        .filter_map(|entry| std::fs::metadata(entry.path()).ok());
    open.any(|data| same(data, &wanted))
}

/// Whether there is such a process, which needs no descriptor to be known; true where that cannot be told.
#[must_use]
pub fn is_there(pid: Pid) -> bool {
    let found = std::fs::metadata(format!("/proc/{pid}"));
    !found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn is_session_log(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    name.starts_with("worker-") || name.starts_with("python-core-")
}

#[cfg(test)]
mod tests {
    use procfs::FromBufRead as _;

    use super::*;

    fn cgroup_of(text: &str) -> Option<String> {
        memory_cgroup(ProcessCGroups::from_buf_read(text.as_bytes()).ok()?)
    }

    #[test]
    fn a_file_is_held_open_by_whoever_has_it_and_by_nobody_for_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("python-core-driver-01_1.log");
        let file = File::create(&path).expect("a file");
        let own = Pid(std::process::id());
        assert!(holds_open(own, &file));
        assert!(!holds_open(Pid(1), &file));
        assert!(is_there(own) && !is_there(Pid(5_000_000)));
    }

    #[test]
    fn this_process_is_described() {
        let own = describe(Pid(std::process::id())).expect("own process");
        assert!(!own.argv.is_empty() && own.exe.is_some() && own.uid.is_some());
        assert!(all().contains(&own.process.pid));
    }

    #[test]
    fn the_memory_cgroup_is_found_in_both_hierarchies() {
        assert_eq!(
            cgroup_of("4:memory:/job\n3:cpu,cpuacct:/x\n0::/\n").as_deref(),
            Some("/job")
        );
        assert_eq!(
            cgroup_of("0::/user.slice/a:b\n").as_deref(),
            Some("/user.slice/a:b")
        );
        assert_eq!(cgroup_of(""), None);
    }
}
