//! Watches tracked processes without privilege, by a pidfd for each.
//!
//! The wait status comes from `PIDFD_GET_INFO`, if the kernel has it. Mirrors
//! include/uapi/linux/pidfd.h of Linux 6.15: `PIDFD_INFO_EXIT` gives the status of another
//! process's child, without privilege, once the child has been reaped.

use std::{
    collections::HashMap,
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{PidfdFlags, pidfd_open},
};

use super::{Processes, sweep::is_dead};
use crate::{
    ids::{BootTime, Pid, ProcessKey, SECOND_NS},
    observe::processes,
};

/// The most processes that are watched. Each costs a descriptor.
const MAX_WATCHED: usize = 8192;
/// The status is available once the parent has reaped the process. If the process is not a zombie,
/// the status is given up this long after its end.
const REAP_NS: i64 = SECOND_NS;
/// A busy raylet may reap late. A process that is a zombie for longer than this has a parent that
/// does not reap.
const ZOMBIE_NS: i64 = 30 * SECOND_NS;
/// `_IOWR(PIDFS_IOCTL_MAGIC 0xFF, 11, struct pidfd_info)` with the first size of that struct, 64
/// bytes.
const PIDFD_GET_INFO: libc::c_ulong = 0xC040_FF0B;
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// `struct pidfd_info`, first version.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

struct WatchedProcess {
    process: ProcessKey,
    fd: OwnedFd,
    ended: Option<BootTime>,
}

/// All watched processes.
#[derive(Default)]
pub(super) struct Pidfds {
    watched: HashMap<Pid, WatchedProcess>,
}

impl Pidfds {
    pub(super) fn watch(&mut self, process: ProcessKey) {
        if self.watched.len() >= MAX_WATCHED || self.watched.contains_key(&process.pid) {
            return;
        }
        let Some(pid) = i32::try_from(process.pid.0)
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        else {
            return;
        };
        if let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) {
            self.watched.insert(
                process.pid,
                WatchedProcess {
                    process,
                    fd,
                    ended: None,
                },
            );
        }
    }

    /// Whether the process has ended and its parent has yet to reap it. Its end is then reported
    /// from here.
    pub(super) fn waits_for(&self, process: ProcessKey) -> bool {
        let watched = self.watched.get(&process.pid);
        watched.is_some_and(|own| own.ended.is_some() && own.process.same(process))
    }

    /// Returns the processes that have ended, each once, with the wait status if the kernel gives
    /// it.
    fn ended(&mut self, now: BootTime) -> Vec<(ProcessKey, BootTime, Option<i32>)> {
        let mut done = Vec::new();
        for watched in self.watched.values_mut() {
            if watched.ended.is_none() && readable(&watched.fd) {
                watched.ended = Some(now);
            }
            let Some(ended) = watched.ended else { continue };
            let status = status(&watched.fd);
            let waited = now.since(ended);
            let has_time = |process| waited <= ZOMBIE_NS && is_zombie(process);
            if status.is_some() || (waited > REAP_NS && !has_time(watched.process)) {
                done.push((watched.process, ended, status));
            }
        }
        for (process, ..) in &done {
            self.watched.remove(&process.pid);
        }
        done
    }
}

fn is_zombie(process: ProcessKey) -> bool {
    let stat = processes::stat(process.pid);
    stat.is_some_and(|stat| {
        is_dead(&stat)
            && ProcessKey {
                start: stat.start,
                ..process
            }
            .same(process)
    })
}

fn readable(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(
        &mut fds,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )
    .is_ok_and(|ready| ready > 0)
}

fn status(fd: &OwnedFd) -> Option<i32> {
    let mut info = Info {
        mask: PIDFD_INFO_EXIT,
        ..Info::default()
    };
    // SAFETY: the request's size is that of `Info`, which the kernel fills; it lives through the
    // call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (result == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

impl Processes {
    /// In procfs mode, returns the processes that have ended, with the time and the wait status.
    pub(in crate::collect) fn ended(
        &mut self,
        now: BootTime,
    ) -> Vec<(ProcessKey, BootTime, Option<i32>)> {
        let pidfds = self.watchers.pidfds.as_mut();
        pidfds.map_or_else(Vec::new, |pidfds| pidfds.ended(now))
    }
}
