//! The stored form of observations and their sources, and what is dropped first from a full queue.

use serde::{Deserialize, Serialize};

use super::{Stored, stored, stored_as};
use crate::{
    event,
    ids::{self, Bytes, WallTime},
};

stored_as! {
    Source => event::Source,
    Observation => event::Observation,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Source", rename_all = "kebab-case")]
pub(super) enum Source {
    Kernel,
    Kmsg,
    Pidfd,
    Proc,
    Cgroup,
    RayLog,
    WorkerLog,
    Nvml,
    Gcs,
    Recorder,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Observation", tag = "kind", rename_all = "snake_case")]
pub(super) enum Observation {
    RecordingStarted(#[serde(with = "stored")] event::RecordingStarted),
    RecordingEnded,
    Clock {
        wall: WallTime,
        #[serde(default, with = "stored", skip_serializing_if = "Option::is_none")]
        error: Option<event::ClockError>,
    },
    Probe(#[serde(with = "stored")] event::Probe),
    Ledger(#[serde(with = "stored")] event::Ledger),
    Cluster(#[serde(with = "stored")] event::Cluster),
    Process(#[serde(with = "stored")] event::Process),
    Worker(#[serde(with = "stored")] event::Worker),
    Fork {
        #[serde(with = "stored")]
        parent: ids::ProcessKey,
        #[serde(with = "stored")]
        child: ids::ProcessKey,
    },
    Exec(#[serde(with = "stored")] event::Exec),
    Title {
        #[serde(with = "stored")]
        process: ids::ProcessKey,
        title: String,
        #[serde(default, with = "stored")]
        memory: event::MemorySplit,
    },
    Call(#[serde(with = "stored")] event::Call),
    Signal(#[serde(with = "stored")] event::Signal),
    Delivered {
        #[serde(with = "stored")]
        process: ids::ProcessKey,
        signal: i32,
        code: i32,
    },
    OomVictim(#[serde(with = "stored")] event::OomVictim),
    Exit(#[serde(with = "stored")] event::Exit),
    Kmsg(#[serde(with = "stored")] event::KernelLog),
    RayLog(#[serde(with = "stored")] event::RayLog),
    Cgroup(#[serde(with = "stored")] event::CgroupState),
    DriverSettings {
        #[serde(with = "stored")]
        process: ids::ProcessKey,
        settings: Vec<(String, String)>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        packages: Vec<(String, String)>,
    },
    SharedMemory(#[serde(with = "stored")] event::SharedMemory),
    SharedFile(#[serde(with = "stored")] event::SharedFile),
    Mapped(#[serde(with = "stored")] event::Mapped),
    Steps {
        #[serde(with = "stored")]
        process: ids::ProcessKey,
        #[serde(with = "stored")]
        steps: Vec<event::Step>,
    },
    Memory(#[serde(with = "stored")] event::ProcessMemory),
    Outside(#[serde(with = "stored")] event::OutsideMemory),
    Node(#[serde(with = "stored")] event::NodeMemory),
    Monitor(#[serde(with = "stored")] event::MonitorCount),
    #[serde(alias = "near")]
    LimitWarning(#[serde(with = "stored")] event::LimitWarning),
    Gpu(#[serde(with = "stored")] event::GpuState),
    Stack(#[serde(with = "stored")] event::PythonStack),
    Freed {
        #[serde(with = "stored")]
        process: ids::ProcessKey,
        mapping: Option<u32>,
        bytes: Bytes,
    },
    NoStack {
        #[serde(with = "stored")]
        process: ids::ProcessKey,
        reason: String,
    },
}

/// How much an event matters when a queue is full, the least first. `Urgent` must be on disk at
/// once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::recording) enum Priority {
    Sample,
    LogRecord,
    Lifecycle,
    Death,
    Urgent,
}

impl Priority {
    pub(in crate::recording) fn of(what: &event::Observation) -> Self {
        use event::Observation as What;
        match what {
            // A call that is recorded while it runs, because a process may die in it.
            What::Call(call) if call.ended.is_none() => Self::Lifecycle,
            What::Memory(_)
            | What::Node(_)
            | What::Monitor(_)
            | What::Cgroup(_)
            | What::Mapped(_)
            | What::Stack(_)
            | What::Freed { .. }
            | What::Call(_)
            | What::Gpu(_)
            | What::SharedFile(_) => Self::Sample,
            What::RayLog(_) => Self::LogRecord,
            What::Fork { .. } | What::Exec(_) | What::Title { .. } => Self::Lifecycle,
            // A normal exit can wait for its batch.
            What::Exit(exit) if exit.status == Some(0) => Self::Lifecycle,
            // A file without its first event cannot be read.
            What::Exit(_) | What::OomVictim(_) | What::RecordingStarted(_) => Self::Urgent,
            // The first of these frame a recording, which cannot be judged without them; the others
            // say what ended a process, which is the purpose of the file.
            What::RecordingEnded
            | What::Clock { .. }
            | What::Probe(_)
            | What::Ledger(_)
            | What::Cluster(_)
            | What::Process(_)
            | What::Worker(_)
            | What::Signal(_)
            | What::Delivered { .. }
            | What::Kmsg(_)
            | What::DriverSettings { .. }
            | What::SharedMemory(_)
            | What::Steps { .. }
            | What::Outside(_)
            | What::LimitWarning(_)
            | What::NoStack { .. } => Self::Death,
        }
    }
}
