//! Finds facts about this machine, and what the recorder may do here.

use std::path::Path;

use crate::{
    bounded,
    event::{Mode, RecordingStarted},
    ids::{Bytes, Pid},
    observe::clock,
};

/// Makes the first event of a recording.
pub fn started(mode: Mode) -> RecordingStarted {
    let uname = rustix::system::uname();
    let info = rustix::system::sysinfo();
    let text = |path: &str| {
        bounded::text(path, bounded::SMALL)
            .map(|text| text.trim().to_owned())
            .unwrap_or_default()
    };
    RecordingStarted {
        raytrace: env!("CARGO_PKG_VERSION").to_owned(),
        host: name(),
        kernel: uname.release().to_string_lossy().into_owned(),
        boot_id: text("/proc/sys/kernel/random/boot_id"),
        memory_bytes: super::memory::node().map_or(Bytes(info.totalram), |node| node.total),
        cpus: std::thread::available_parallelism()
            .map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX)),
        cgroup_version: super::cgroups::Hierarchy::find().map(|found| found.version()),
        mode,
        wall: clock::wall(),
        pid_namespace: namespace("/proc/self/ns/pid"),
        part: None,
        previous: None,
        recorder: super::processes::key(Pid(std::process::id())),
        supervisor: None,
    }
}

/// Returns the node's name: the one that a `DaemonSet` sets, because the host name inside a pod is
/// the pod's, else the host name.
pub fn name() -> String {
    let given = std::env::var("RAYTRACE_NODE_NAME").ok();
    let host = || {
        rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned()
    };
    given.filter(|name| !name.is_empty()).unwrap_or_else(host)
}

/// Returns the inode of a namespace: the number in `pid:[4026531836]`.
fn namespace(path: &str) -> Option<u64> {
    let link = std::fs::read_link(path).ok()?;
    link.to_str()?.split(['[', ']']).nth(1)?.parse().ok()
}

/// Where the recorder runs. This decides what gives it the right to observe signals and exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A pod of Kubernetes.
    Kubernetes,
    /// Another container.
    Container,
    /// The machine itself.
    Host,
}

/// Finds the place by the marks that container runtimes leave.
pub fn place() -> Place {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        Place::Kubernetes
    } else if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        Place::Container
    } else {
        Place::Host
    }
}

/// Returns the command to type in this place for full detail.
pub fn advice(place: Place) -> &'static str {
    match place {
        Place::Kubernetes => {
            "on a machine with kubectl: kubectl debug node/NODE -it --profile=sysadmin --image=IMAGE_WITH_RAYTRACE -- raytrace record"
        }
        Place::Container => {
            "on the host, as root: raytrace record   (or a container with the host's pids and five capabilities, BPF, PERFMON, SYS_PTRACE, DAC_READ_SEARCH and SYSLOG: the command is in docs/usage/container.md)"
        }
        Place::Host => {
            "sudo raytrace record   (or once, for a group, whose members get the right to read every file and process: f=$(command -v raytrace); sudo chgrp GROUP $f; sudo chmod 750 $f; sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_syslog+ep $f)"
        }
    }
}
