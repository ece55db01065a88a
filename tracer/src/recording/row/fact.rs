//! The stored form of what Ray's logs say.

use serde::{Deserialize, Serialize};

use super::{Stored, stored, stored_as};
use crate::{
    ids::{Bytes, HexId, Pid},
    ray,
};

stored_as! {
    RayFact => ray::facts::RayFact,
    GpuMoved => ray::facts::GpuMoved,
    ExitType => ray::facts::ExitType,
    MonitorKill => ray::facts::MonitorKill,
    Candidate => ray::facts::Candidate,
    TopUser => ray::facts::TopUser,
}

#[derive(Serialize, Deserialize)]
#[serde(
    remote = "ray::facts::RayFact",
    tag = "says",
    rename_all = "snake_case"
)]
pub(super) enum RayFact {
    MonitorKill(#[serde(with = "stored")] ray::facts::MonitorKill),
    MonitorEvicted {
        pid: Pid,
        worker_id: Option<HexId>,
    },
    AboveThreshold {
        used: Bytes,
        threshold: Bytes,
    },
    MonitorStarted {
        threshold: Bytes,
        total: Bytes,
        interval_ms: Option<u64>,
        user_slice_only: bool,
    },
    MonitorDisabled,
    WorkerStarted {
        pid: Pid,
        worker_id: Option<HexId>,
        token: Option<u64>,
    },
    Disconnected {
        worker_id: Option<HexId>,
        #[serde(with = "stored")]
        exit_type: ray::facts::ExitType,
        graceful: Option<bool>,
        driver: bool,
        job_id: Option<HexId>,
    },
    DriverDisconnected {
        pid: Pid,
        worker_id: Option<HexId>,
        job_id: Option<HexId>,
    },
    OwnerDied {
        worker_id: HexId,
        owner_worker_id: Option<HexId>,
        reason: String,
    },
    JobFinished {
        worker_id: HexId,
    },
    KillActorRequested {
        worker_id: HexId,
        actor_id: Option<HexId>,
    },
    ForceKilled {
        pid: Pid,
    },
    GroupTerminated {
        process_group: Pid,
        worker_id: Option<HexId>,
    },
    StopSignal {
        process_group: Pid,
        worker_id: Option<HexId>,
        signal: i32,
    },
    RayletSigterm,
    RayletShutdown {
        reason: String,
        message: Option<String>,
    },
    AgentFailed {
        agent: String,
    },
    RayletMarkedDead {
        reason: String,
    },
    NotRegistered {
        pid: Pid,
        #[serde(default = "alive")]
        alive: bool,
    },
    SelfDisconnect {
        #[serde(with = "stored")]
        exit_type: ray::facts::ExitType,
        detail: String,
        worker_id: Option<HexId>,
    },
    RayletLost {
        raylet_pid: Option<Pid>,
        worker_id: Option<HexId>,
    },
    ForceKillActor {
        reason: String,
        worker_id: Option<HexId>,
    },
    GcsWorkerExit {
        worker_id: HexId,
        #[serde(with = "stored")]
        exit_type: ray::facts::ExitType,
        detail: String,
        #[serde(default)]
        node_id: Option<HexId>,
    },
    NodeRegistered {
        node_id: HexId,
        name: Option<String>,
        address: Option<String>,
    },
    NodeDied {
        node_id: HexId,
        reason: Option<String>,
        message: Option<String>,
    },
    Marker {
        name: String,
        value: String,
        worker_id: Option<HexId>,
    },
    TaskFailed {
        task_id: Option<HexId>,
        error: String,
        will_retry: Option<bool>,
        retries_left: Option<i64>,
        task_name: Option<String>,
        job_id: Option<HexId>,
    },
    JobStarted {
        job_id: HexId,
        driver_pid: Pid,
    },
    JobEnded {
        job_id: HexId,
    },
    ActorState {
        actor_id: HexId,
        state: String,
        restarts_left: Option<i64>,
        worker_id: Option<HexId>,
        #[serde(default)]
        node_id: Option<HexId>,
    },
    FailureSignal {
        signal: String,
        worker_id: Option<HexId>,
    },
    Exception {
        class: String,
        message: String,
        worker_id: Option<HexId>,
    },
    Configuration {
        settings: Vec<(String, String)>,
        worker_id: Option<HexId>,
    },
    GpuMoved {
        #[serde(with = "stored")]
        moved: ray::facts::GpuMoved,
        worker_id: Option<HexId>,
    },
    DiedInException {
        actor_id: Option<HexId>,
        pid: Option<Pid>,
        worker_id: Option<HexId>,
    },
    TrainingStep {
        step: u64,
        of: Option<u64>,
        worker_id: Option<HexId>,
    },
    ObjectStorePressure {
        spilled: Option<Bytes>,
    },
    Summary {
        memory: u64,
        other: u64,
    },
    Gcs(#[serde(with = "stored")] ray::gcs::GcsRow),
}

#[derive(Serialize, Deserialize)]
#[serde(
    remote = "ray::facts::GpuMoved",
    tag = "point",
    rename_all = "snake_case"
)]
pub(super) enum GpuMoved {
    Before {
        what: String,
        used: Bytes,
        total: Bytes,
    },
    After {
        what: String,
        used: Bytes,
        total: Bytes,
    },
    Slept {
        freed: Bytes,
        to_host: Bytes,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ray::facts::ExitType", rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum ExitType {
    SystemError,
    IntendedSystemExit,
    UserError,
    IntendedUserExit,
    NodeOutOfMemory,
    Other,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ray::facts::MonitorKill")]
pub(super) struct MonitorKill {
    #[serde(with = "stored")]
    selected: Vec<ray::facts::Candidate>,
    #[serde(with = "stored")]
    spared: Vec<ray::facts::Candidate>,
    used: Option<Bytes>,
    threshold: Option<Bytes>,
    total: Option<Bytes>,
    node_id: Option<HexId>,
    policy: Option<String>,
    #[serde(with = "stored")]
    top: Vec<ray::facts::TopUser>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ray::facts::Candidate")]
pub(super) struct Candidate {
    pid: Option<Pid>,
    worker_id: Option<HexId>,
    job_id: Option<HexId>,
    actor_id: Option<HexId>,
    task_name: Option<String>,
    used: Option<Bytes>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ray::facts::TopUser")]
pub(super) struct TopUser {
    pid: Pid,
    used: Bytes,
    command: String,
}

fn alive() -> bool {
    true
}
