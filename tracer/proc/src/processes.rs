//! Reads processes as /proc shows them.
//!
//! It describes one process, lists all, and finds the files of a Ray session that a process holds
//! open.

use std::{
    collections::HashMap,
    fs::{File, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use procfs::{FromRead as _, ProcessCGroups, process};

use crate::{
    bounded, cgroup_namespace, cgroup_path,
    event::{Process, Role, SlurmJob},
    ids::{BootTime, CLOCK_TICK_NS, Pid, ProcessKey},
    memory,
    ray::identify,
    timed_read,
    users::one_user,
};

/// How many bytes of a command line are kept.
const ARGV_BYTES: u64 = 4096;
/// How many descriptors of one process are read: more than a worker has.
const MOST_DESCRIPTORS: usize = 16_384;

/// The fields of /proc/PID/stat that are used.
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
    /// Start time, truncated to clock ticks.
    pub start: BootTime,
    /// Number of threads that have not ended. The leader counts even if it has ended.
    pub threads: u32,
    /// The wait status of a zombie, where it may be read.
    pub exit_code: Option<i32>,
    /// Whether the leader has begun to exit.
    pub exiting: bool,
}

/// `PF_EXITING` of include/linux/sched.h: set before `sched_process_exit`, never cleared.
const PF_EXITING: u32 = 4;

/// Reads /proc/PID/stat.
pub fn stat(pid: Pid) -> Option<Stat> {
    let bytes = bounded::of_process(pid, "stat", bounded::SMALL).ok()?;
    let stat = process::Stat::from_read(bytes.as_slice()).ok()?;
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

/// Reads the CPU time of a process, in clock ticks.
pub fn cpu_ticks(pid: Pid) -> Option<u64> {
    let bytes = bounded::of_process(pid, "stat", bounded::SMALL).ok()?;
    let stat = process::Stat::from_read(bytes.as_slice()).ok()?;
    Some(stat.utime + stat.stime)
}

/// Returns the key of a running process.
pub fn key(pid: Pid) -> Option<ProcessKey> {
    Some(ProcessKey {
        pid,
        start: stat(pid)?.start,
    })
}

/// Returns all pids in this /proc.
pub fn all() -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid))
        .collect()
}

/// Reads argv, at most 4 KiB of it, without the NULs that pad a rewritten title.
pub fn argv(pid: Pid) -> Vec<String> {
    let read = move || bounded::of_process(pid, "cmdline", ARGV_BYTES).ok();
    let bytes = timed_read::run_optional(pid, read).unwrap_or_default();
    let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else {
        return Vec::new();
    };
    bytes[..=last]
        .split(|byte| *byte == 0)
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

/// Returns the memory cgroup (v1) or cgroup (v2) of a process by its path in the machine; also
/// `None` where that path cannot be known from here.
pub fn cgroup(pid: Pid) -> Option<String> {
    let named = cgroup_namespace::as_shown(pid).map(cgroup_namespace::absolute);
    named.filter(|path| !cgroup_namespace::leads_out(path))
}

/// Returns the Slurm job of a process by its cgroups of all hierarchies: Slurm may limit CPUs, or
/// only find its processes again (the freezer), and leave memory alone.
fn slurm_job(hierarchies: &ProcessCGroups) -> Option<SlurmJob> {
    let paths = hierarchies.0.iter().map(|one| one.pathname.as_str());
    let jobs = paths.filter_map(cgroup_path::slurm);
    let found = jobs.max_by_key(|job| job.step.is_some())?;
    Some(SlurmJob {
        job: found.job,
        step: found.step,
        ..SlurmJob::default()
    })
}

/// Returns the innermost pid of a process, if it differs.
fn ns_pid(pid: Pid) -> Option<Pid> {
    innermost(&memory::status(pid)?).filter(|inner| *inner != pid)
}

/// Returns a thread's id in the process's own pid namespace.
pub fn thread_in_namespace(pid: Pid, tid: Pid) -> Pid {
    let status = bounded::text_of_process(pid, &format!("task/{tid}/status"), bounded::SMALL);
    innermost(&status.unwrap_or_default()).unwrap_or(tid)
}

fn innermost(status: &str) -> Option<Pid> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    let last = line.split_ascii_whitespace().next_back()?;
    last.parse().ok().map(Pid)
}

/// Returns the user of a process; `None` where it has more than one. A set-uid program acts for
/// another user than the one who started it.
pub fn only_user(pid: Pid) -> Option<u32> {
    one_user(&memory::status(pid)?)
}

/// Whether its program takes the rights of the file's owner or group. True where that is not known.
pub fn is_set_id(pid: Pid) -> bool {
    let data = timed_read::run_optional(pid, move || {
        std::fs::metadata(format!("/proc/{pid}/exe")).ok()
    });
    data.is_none_or(|data| data.mode() & (libc::S_ISUID | libc::S_ISGID) != 0)
}

/// Reads everything that can be read about one process. The caller fills in `cluster`.
pub fn describe(pid: Pid) -> Option<Process> {
    let stat = stat(pid)?;
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let argv = argv(pid);
    // The id is valid even where the path above it is not known.
    let hierarchies = cgroup_namespace::hierarchies(pid);
    let shown = hierarchies
        .as_ref()
        .and_then(cgroup_namespace::memory_cgroup);
    let cgroup = shown.map(cgroup_namespace::absolute);
    let named = cgroup.as_deref().and_then(cgroup_path::slurm).is_some();
    let slurm = hierarchies.as_ref().filter(|_| !named).and_then(slurm_job);
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
        container_id: cgroup.as_deref().and_then(cgroup_path::container),
        cgroup: cgroup.filter(|path| !cgroup_namespace::leads_out(path)),
        cluster: None,
        slurm: slurm.map(Box::new),
    })
}

/// Returns the process with pid `ray_pid` in the pid namespace of `raylet`.
pub fn in_namespace(raylet: Pid, ray_pid: Pid) -> Option<Pid> {
    of_namespace(raylet).remove(&ray_pid)
}

/// Returns the processes in the pid namespace of `raylet`, by their pids there.
pub fn of_namespace(raylet: Pid) -> HashMap<Pid, Pid> {
    let namespace = |pid: Pid| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let Some(wanted) = namespace(raylet) else {
        return HashMap::new();
    };
    let inside = all()
        .into_iter()
        .filter(|pid| namespace(*pid).as_ref() == Some(&wanted));
    inside
        .map(|pid| (ns_pid(pid).unwrap_or(pid), pid))
        .collect()
}

/// Returns the Ray log files that a process holds open, by the links of its descriptors.
pub fn open_logs(pid: Pid) -> Vec<PathBuf> {
    let links = descriptors(pid).map(|(_, link)| link);
    links.filter(|path| is_session_log(path)).collect()
}

/// Returns the descriptors of a process, each with its link.
fn descriptors(pid: Pid) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let entries = entries.into_iter().flatten().flatten();
    entries.take(MOST_DESCRIPTORS).filter_map(|entry| {
        let path = entry.path();
        let link = std::fs::read_link(&path).ok()?;
        Some((path, link))
    })
}

/// Whether a process has this file open. Only descriptors whose path `is_it` accepts are examined:
/// a file on another file system may never answer.
pub fn holds_open(pid: Pid, file: File, is_it: impl Fn(&Path) -> bool) -> bool {
    let found = descriptors(pid).filter(|(_, link)| is_it(link));
    let paths: Vec<PathBuf> = found.map(|(path, _)| path).collect();
    let same =
        |data: Metadata, other: &Metadata| (data.dev(), data.ino()) == (other.dev(), other.ino());
    let holds = timed_read::run_optional(pid, move || {
        let wanted = file.metadata().ok()?;
        let mut open = paths.iter().filter_map(|path| std::fs::metadata(path).ok());
        Some(open.any(|data| same(data, &wanted)))
    });
    holds.unwrap_or(false)
}

/// Whether there is such a process. This needs no new descriptor. True where that is not known.
pub fn exists(pid: Pid) -> bool {
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
        cgroup_namespace::memory_cgroup(&ProcessCGroups::from_buf_read(text.as_bytes()).ok()?)
    }

    #[test]
    fn open_file_is_known_by_identity_not_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("python-core-driver-01_1.log");
        let file = File::create(&path).expect("a file");
        let own = Pid(std::process::id());
        let holds = |pid, name: &str| {
            let file = file.try_clone().expect("a descriptor");
            holds_open(pid, file, |path| path.ends_with(name))
        };
        assert!(holds(own, "python-core-driver-01_1.log"));
        assert!(!holds(own, "another.log"));
        assert!(!holds(Pid(1), "python-core-driver-01_1.log"));
        assert!(exists(own) && !exists(Pid(5_000_000)));
    }

    #[test]
    fn set_uid_program_has_no_single_user() {
        assert_eq!(
            one_user("Name:\tx\nUid:\t7\t7\t7\t7\nGid:\t1\t2\t3\t4\n"),
            Some(7)
        );
        for ids in [
            "7\t0\t0\t0",
            "0\t7\t7\t7",
            "7\t7\t0\t7",
            "7\t7\t7\t0",
            "",
            "x\t7\t7\t7",
        ] {
            assert_eq!(one_user(&format!("Uid:\t{ids}\n")), None, "{ids}");
        }
        let own = Pid(std::process::id());
        assert_eq!(only_user(own), Some(rustix::process::getuid().as_raw()));
        assert!(!is_set_id(own) && is_set_id(Pid(5_000_000)));
    }

    #[test]
    fn this_process_is_described() {
        let own = describe(Pid(std::process::id())).expect("own process");
        assert!(!own.argv.is_empty() && own.exe.is_some() && own.uid.is_some());
        assert!(all().contains(&own.process.pid));
    }

    #[test]
    fn memory_cgroup_is_found_in_both_versions() {
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
