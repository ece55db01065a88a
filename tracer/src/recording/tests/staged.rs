//! Observations of a made-up worker, for tests that write recordings.

use crate::{
    event::{
        Exit, LimitOwner, LimitWarning, Mode, Observation, Process, RecordingStarted, Role, Within,
    },
    ids::{Bytes, ProcessKey, WallTime},
};

/// When a recording begins that needs no particular time.
pub(crate) const WALL: WallTime = WallTime(1_795_161_600_000_000_000);

/// Makes the first event of a recording of `node`.
pub(crate) fn started(boot_id: &str, wall: WallTime) -> RecordingStarted {
    RecordingStarted {
        raytrace: "0".into(),
        host: "node".into(),
        kernel: "6.18".into(),
        boot_id: boot_id.into(),
        memory_bytes: Bytes(1 << 30),
        cpus: 2,
        cgroup_version: None,
        mode: Mode::Ebpf,
        wall,
        pid_namespace: None,
        recorder: None,
        supervisor: None,
        part: None,
        previous: None,
    }
}

/// Makes a worker that is alive.
pub(crate) fn worker(process: ProcessKey) -> Observation {
    Observation::Process(Process {
        process,
        ns_pid: None,
        parent: None,
        process_group: None,
        slurm: None,
        comm: "ray::f".into(),
        argv: Vec::new(),
        exe: None,
        uid: None,
        cgroup: None,
        container_id: None,
        cluster: None,
        role: Role::Worker,
    })
}

/// Makes its end by SIGKILL.
pub(crate) fn killed(process: ProcessKey) -> Observation {
    Observation::Exit(Exit {
        process,
        comm: "ray::f".into(),
        status: Some(9),
        ..Exit::default()
    })
}

/// Makes a warning of a limit, or the end of one.
pub(crate) fn warning(limit: LimitOwner, stands: bool) -> Observation {
    Observation::LimitWarning(LimitWarning {
        limit,
        at: Bytes(2),
        used: Bytes(1),
        within: stands.then_some(Within {
            soonest_ms: 60_000,
            latest_ms: 110_000,
        }),
        grower: None,
        victim: None,
        seen_ms: 0,
        at_once: 0,
    })
}
