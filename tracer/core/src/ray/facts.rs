//! Defines what Ray's logs say, as data, in one vocabulary for Ray 2.1 to 2.60.
//!
//! `ray::log` makes these facts, `judge` reads them. Pids are those that Ray prints, in its own pid
//! namespace.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{Bytes, HexId, Pid},
    ray::gcs::GcsRow,
};

/// One record of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "snake_case")]
pub enum RayFact {
    /// The raylet's memory monitor chose workers and kills them.
    /// ≤ 2.54 `Killing worker with task …`; ≥ 2.55 `Killing N worker(s), kill details: …`.
    MonitorKill(MonitorKill),
    /// ≤ 2.54, about 250 ms after the kill: `Worker evicted and process killed to reclaim memory.
    /// worker pid: N …`.
    MonitorEvicted {
        /// The worker that was killed.
        pid: Pid,
        /// Its worker id, where printed.
        worker_id: Option<HexId>,
    },
    /// `Node memory usage above threshold, used: …`; printed at most every 5 s, not per kill.
    AboveThreshold {
        /// What the monitor counted.
        used: Bytes,
        /// Its threshold.
        threshold: Bytes,
    },
    /// `… MemoryMonitor initialized with usage threshold at N bytes (…), total system memory bytes:
    /// …`.
    MonitorStarted {
        /// Threshold.
        threshold: Bytes,
        /// What the monitor takes as the machine's memory.
        total: Bytes,
        /// `monitor interval`, where printed (≥ 2.56).
        interval_ms: Option<u64>,
        /// Whether it watches the user cgroup only.
        user_slice_only: bool,
    },
    /// `… disabled. Specify RAY_memory_monitor_refresh_ms > 0 …`.
    MonitorDisabled,
    /// `Started worker process with pid N worker_id=…` (≥ 2.54) or `…, the token is T` (≤ 2.51).
    WorkerStarted {
        /// Pid of the process.
        pid: Pid,
        /// Worker id (≥ 2.54).
        worker_id: Option<HexId>,
        /// Startup token (≤ 2.51). The worker's command line has it as `--startup-token`.
        token: Option<u64>,
    },
    /// The raylet drops a worker or driver: `Disconnecting worker|driver|client, graceful=…,
    /// disconnect_type=N`.
    Disconnected {
        /// The worker; not printed up to 2.35.
        worker_id: Option<HexId>,
        /// `WorkerExitType`.
        exit_type: ExitType,
        /// Whether the worker asked to be disconnected; `None` up to 2.35.
        graceful: Option<bool>,
        /// Whether it is a driver (≥ 2.54).
        driver: bool,
        /// Its job, where printed (≥ 2.54).
        job_id: Option<HexId>,
    },
    /// `Driver (pid=N) is disconnected.`
    DriverDisconnected {
        /// The driver.
        pid: Pid,
        /// Its worker id.
        worker_id: Option<HexId>,
        /// Its job.
        job_id: Option<HexId>,
    },
    /// `Killing leased worker because its owner died.` (or its node, or its job finished; ≥ 2.54)
    /// and `The leased worker … is killed because the owner process … died.` (older).
    OwnerDied {
        /// The worker.
        worker_id: HexId,
        /// The owner, where printed.
        owner_worker_id: Option<HexId>,
        /// `owner died`, `owner's node died`, `job finished`, or `exit request failed`.
        reason: String,
    },
    /// `Force exiting worker whose job has exited …`.
    JobFinished {
        /// The worker.
        worker_id: HexId,
    },
    /// `Received KillLocalActor RPC worker_id=… actor_id=…` (≥ 2.56): `ray.kill` or out of scope.
    KillActorRequested {
        /// The worker.
        worker_id: HexId,
        /// The actor.
        actor_id: Option<HexId>,
    },
    /// `Worker with PID=N did not exit after 5000ms, force killing with SIGKILL.`
    ForceKilled {
        /// The worker.
        pid: Pid,
    },
    /// `DisconnectClient: sending SIGTERM to pgid=N worker_id=…` (≥ 2.57). It follows every
    /// non-graceful disconnect, so it is no reason by itself.
    GroupTerminated {
        /// Process group.
        process_group: Pid,
        /// The worker.
        worker_id: Option<HexId>,
    },
    /// `Stop: sending SIGTERM|SIGKILL to pgid=N worker_id=…` (≥ 2.57): the raylet shuts down.
    StopSignal {
        /// Process group.
        process_group: Pid,
        /// The worker.
        worker_id: Option<HexId>,
        /// 15 or 9.
        signal: i32,
    },
    /// `received SIGTERM. Existing local drain request = …`: the raylet was told to stop.
    RayletSigterm,
    /// `Raylet graceful shutdown triggered with death info: reason: … reason_message: …`.
    RayletShutdown {
        /// `EXPECTED_TERMINATION`, `UNEXPECTED_TERMINATION`, …
        reason: String,
        /// `dashboard_agent failed and raylet fate-shares with it.` and the like.
        message: Option<String>,
    },
    /// `The raylet exited immediately because one Ray agent failed, agent_name = ….`
    AgentFailed {
        /// `dashboard_agent`, `runtime_env_agent`.
        agent: String,
    },
    /// The raylet ends because the GCS marked it dead, or because it lost the GCS.
    RayletMarkedDead {
        /// The words of the line.
        reason: String,
    },
    /// `Some workers of the worker process(PID) have not registered within the timeout. The process
    /// is still alive, …|is dead, …`
    NotRegistered {
        /// The process.
        pid: Pid,
        /// Whether it was alive and is killed for not registering; older recordings do not say.
        #[serde(default = "alive")]
        alive: bool,
    },
    /// The worker's own last words, in its core-worker log:
    /// `Raylet[Ipc]Client::Disconnect, exit_type=…, exit_detail=…, has creation_task_exception…`.
    SelfDisconnect {
        /// Its exit type.
        exit_type: ExitType,
        /// Its reason.
        detail: String,
        /// Worker id and pid, from the file's name.
        worker_id: Option<HexId>,
    },
    /// `Shutting down the core worker because the local raylet failed. … Raylet pid: N` (worker
    /// log).
    RayletLost {
        /// The raylet.
        raylet_pid: Option<Pid>,
        /// The worker whose log says so, from the file's name.
        worker_id: Option<HexId>,
    },
    /// `Force kill actor request has received. exiting immediately... REASON` (worker log).
    ForceKillActor {
        /// The reason.
        reason: String,
        /// The worker whose log says so.
        worker_id: Option<HexId>,
    },
    /// `gcs_server.out`: `Reporting worker exit, worker id = …, exit_type = …, exit_detail = …`.
    GcsWorkerExit {
        /// The worker.
        worker_id: HexId,
        /// Its exit type.
        exit_type: ExitType,
        /// The detail: often a list of guesses, never a finding.
        detail: String,
        /// The node that it ran on.
        node_id: Option<HexId>,
    },
    /// The GCS knows a node: `Registering new node. node_id=… node_name=… node_address=…` (≥ 2.51),
    /// `Registering node info, node id = …, address = …, node name = …` (2.9).
    NodeRegistered {
        /// The node.
        node_id: HexId,
        /// `--node-name`, else its address.
        name: Option<String>,
        /// Its address.
        address: Option<String>,
    },
    /// The GCS considers a node dead: it was drained, ended as asked, or no longer answers.
    NodeDied {
        /// The node.
        node_id: HexId,
        /// `UNEXPECTED_TERMINATION`, `EXPECTED_TERMINATION`, `AUTOSCALER_DRAIN_PREEMPTED`, … (≥
        /// 2.9).
        reason: Option<String>,
        /// `health check failed due to missing too many heartbeats`, …
        message: Option<String>,
    },
    /// A marker in `worker-….out`: `:job_id:`, `:task_name:`, `:actor_name:`.
    Marker {
        /// `job_id`, `task_name`, `actor_name`.
        name: String,
        /// Its value.
        value: String,
        /// The worker whose log says so, from the file's name.
        worker_id: Option<HexId>,
    },
    /// A failed attempt of a task, as its owner (driver or worker) logs it, with the retries that
    /// are left.
    TaskFailed {
        /// The task, where printed.
        task_id: Option<HexId>,
        /// `ErrorType`, as printed: `OUT_OF_MEMORY`, `WORKER_DIED`, `ACTOR_DIED`, …
        error: String,
        /// Whether Ray will retry it.
        will_retry: Option<bool>,
        /// Retries left; −1 for no limit.
        retries_left: Option<i64>,
        /// The task's name. The victim that ran it is found by this name, because Ray does not
        /// print its worker.
        task_name: Option<String>,
        /// The job.
        job_id: Option<HexId>,
    },
    /// The GCS knows a job's driver.
    JobStarted {
        /// The job.
        job_id: HexId,
        /// Its driver.
        driver_pid: Pid,
    },
    /// The GCS marks a job as finished: its driver is gone.
    JobEnded {
        /// The job.
        job_id: HexId,
    },
    /// An actor's state as the GCS or an owner logs it.
    ActorState {
        /// The actor.
        actor_id: HexId,
        /// `DEAD`, `RESTARTING`, `ALIVE`.
        state: String,
        /// Restarts left, where printed.
        restarts_left: Option<i64>,
        /// The worker that it ran in, where printed.
        worker_id: Option<HexId>,
        /// That worker's node, where printed.
        node_id: Option<HexId>,
    },
    /// `SIGNAL received at time=…` from the failure handler (worker log).
    FailureSignal {
        /// `SIGSEGV`, `SIGABRT`, …
        signal: String,
        /// The worker whose log says so.
        worker_id: Option<HexId>,
    },
    /// The last exception of a worker or driver, from its .err or the job driver's log.
    Exception {
        /// `torch.OutOfMemoryError`, `RuntimeError`, …
        class: String,
        /// Its first line.
        message: String,
        /// The worker whose log says so.
        worker_id: Option<HexId>,
    },
    /// The process that one of Ray's exceptions names as gone, as a driver or worker prints it:
    /// `actor_id: …` and `pid: …` below `ActorDiedError` (2.1 to 2.60), `(actor ID: …, pid=…)` of
    /// `OutOfMemoryError`.
    DiedInException {
        /// The actor.
        actor_id: Option<HexId>,
        /// Its pid in Ray's pid namespace.
        pid: Option<Pid>,
        /// The worker whose log says so; `None` for a driver.
        worker_id: Option<HexId>,
    },
    /// The resolved configuration that a framework printed: only the keys that bear on memory.
    Configuration {
        /// Flat keys with their values.
        settings: Vec<(String, String)>,
        /// The worker that printed it.
        worker_id: Option<HexId>,
    },
    /// GPU memory around an offload or a sleep, as a worker prints it.
    GpuMoved {
        /// What was moved.
        moved: GpuMoved,
        /// The worker that printed it.
        worker_id: Option<HexId>,
    },
    /// The last training step that a framework printed as done.
    TrainingStep {
        /// Its number, from 1.
        step: u64,
        /// The total number of steps.
        of: Option<u64>,
        /// The worker that printed it.
        worker_id: Option<HexId>,
    },
    /// `:info_message:Spilled 1080 MiB, 12 objects, …` (the sum since the raylet started), or that
    /// the object store is full.
    ObjectStorePressure {
        /// How much the raylet has spilled since it started.
        spilled: Option<Bytes>,
    },
    /// `N Workers (tasks / actors) killed due to memory pressure (OOM), M Workers crashed due to
    /// other reasons …`.
    Summary {
        /// Workers killed for memory.
        memory: u64,
        /// Workers that crashed for other reasons.
        other: u64,
    },
    /// A row of a GCS table, which the recorder asked for.
    Gcs(GcsRow),
}

/// Whom a record is about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct About {
    /// Workers and drivers, by their ids.
    pub workers: Vec<HexId>,
    /// Processes, by their pids in Ray's pid namespace.
    pub pids: Vec<Pid>,
    /// Jobs that it names.
    pub jobs: Vec<HexId>,
    /// Whether it is about the node only.
    pub node: bool,
}

impl RayFact {
    /// Returns whether the raylet or the GCS recorded by it that Ray was ending a worker. An exit of
    /// the worker's own code is none.
    pub(crate) fn shows_an_end_by_ray(&self) -> bool {
        match self {
            Self::MonitorKill(_)
            | Self::KillActorRequested { .. }
            | Self::OwnerDied { .. }
            | Self::JobFinished { .. }
            | Self::ForceKilled { .. }
            | Self::NotRegistered { .. }
            | Self::StopSignal { .. } => true,
            Self::Disconnected { exit_type, .. } | Self::GcsWorkerExit { exit_type, .. } => {
                *exit_type == ExitType::IntendedSystemExit
            }
            _ => false,
        }
    }

    /// Returns whom the fact is about. For a kill record, these are the workers that were killed.
    pub fn about(&self) -> About {
        let of = |worker: &Option<HexId>| About {
            workers: worker.iter().cloned().collect(),
            ..About::default()
        };
        let of_job = |job: &Option<HexId>| About {
            jobs: job.iter().cloned().collect(),
            ..About::default()
        };
        match self {
            Self::MonitorKill(kill) => {
                let killed = kill.selected.iter();
                About {
                    workers: killed
                        .clone()
                        .filter_map(|one| one.worker_id.clone())
                        .collect(),
                    pids: killed.clone().filter_map(|one| one.pid).collect(),
                    jobs: killed.filter_map(|one| one.job_id.clone()).collect(),
                    node: false,
                }
            }
            Self::MonitorEvicted { pid, worker_id }
            | Self::WorkerStarted { pid, worker_id, .. } => About {
                pids: vec![*pid],
                ..of(worker_id)
            },
            Self::DriverDisconnected {
                pid,
                worker_id,
                job_id,
            } => About {
                pids: vec![*pid],
                jobs: job_id.iter().cloned().collect(),
                ..of(worker_id)
            },
            Self::ForceKilled { pid } | Self::NotRegistered { pid, .. } => About {
                pids: vec![*pid],
                ..About::default()
            },
            Self::GroupTerminated {
                process_group,
                worker_id,
            }
            | Self::StopSignal {
                process_group,
                worker_id,
                ..
            } => About {
                pids: vec![*process_group],
                ..of(worker_id)
            },
            Self::ActorState {
                actor_id,
                worker_id,
                ..
            } => About {
                jobs: actor_id.job_of_actor().into_iter().collect(),
                ..of(worker_id)
            },
            Self::Disconnected { worker_id, .. }
            | Self::SelfDisconnect { worker_id, .. }
            | Self::RayletLost { worker_id, .. }
            | Self::ForceKillActor { worker_id, .. }
            | Self::Marker { worker_id, .. }
            | Self::FailureSignal { worker_id, .. }
            | Self::Exception { worker_id, .. }
            | Self::Configuration { worker_id, .. }
            | Self::GpuMoved { worker_id, .. }
            | Self::TrainingStep { worker_id, .. }
            | Self::DiedInException { worker_id, .. } => of(worker_id),
            Self::OwnerDied { worker_id, .. }
            | Self::JobFinished { worker_id }
            | Self::KillActorRequested { worker_id, .. }
            | Self::GcsWorkerExit { worker_id, .. } => of(&Some(worker_id.clone())),
            Self::TaskFailed { job_id, .. } => of_job(job_id),
            Self::Gcs(GcsRow::Actor(actor)) => of_job(&actor.job_id),
            Self::JobStarted { job_id, .. } | Self::JobEnded { job_id } => {
                of_job(&Some(job_id.clone()))
            }
            Self::Gcs(GcsRow::Job(job)) => of_job(&Some(job.job_id.clone())),
            Self::AboveThreshold { .. }
            | Self::MonitorStarted { .. }
            | Self::MonitorDisabled
            | Self::RayletSigterm
            | Self::RayletShutdown { .. }
            | Self::AgentFailed { .. }
            | Self::RayletMarkedDead { .. }
            | Self::NodeRegistered { .. }
            | Self::NodeDied { .. }
            | Self::ObjectStorePressure { .. }
            | Self::Summary { .. }
            | Self::Gcs(GcsRow::Node(_)) => About {
                node: true,
                ..About::default()
            },
            Self::Gcs(GcsRow::PlacementGroup(_)) => About::default(),
        }
    }
}

/// GPU memory around an offload or a sleep, as the process prints it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "point", rename_all = "snake_case")]
pub enum GpuMoved {
    /// `Before vllm offload in sharding manager: 66.48 GB / 79.10 GB.`
    Before {
        /// What follows `Before`.
        what: String,
        /// In use on the device.
        used: Bytes,
        /// The device's total.
        total: Bytes,
    },
    /// `After vllm offload in sharding manager: …`.
    After {
        /// What follows `After`.
        what: String,
        /// In use on the device.
        used: Bytes,
        /// The device's total.
        total: Bytes,
    },
    /// vLLM: `sleep freed 34.06 GiB memory in total, of which 7.56 GiB is backed up in CPU …`.
    Slept {
        /// Freed on the GPU.
        freed: Bytes,
        /// The part of it that was copied to the host.
        to_host: Bytes,
    },
}

/// `WorkerExitType` of Ray's common.proto; the numbers are the same from 2.9.3 to 2.60.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExitType {
    /// 0
    SystemError,
    /// 1
    IntendedSystemExit,
    /// 2
    UserError,
    /// 3
    IntendedUserExit,
    /// 4
    NodeOutOfMemory,
    /// A number or name that this version does not know.
    Other,
}

impl ExitType {
    /// Returns whether Ray or the user's code asked for the exit.
    pub(crate) fn is_intended(self) -> bool {
        matches!(self, Self::IntendedSystemExit | Self::IntendedUserExit)
    }

    /// Parses a number or a name. Up to 2.2, an error of the system was an
    /// `UNEXPECTED_SYSTEM_EXIT`.
    pub fn parse(text: &str) -> Self {
        match text {
            "0" | "SYSTEM_ERROR" | "UNEXPECTED_SYSTEM_EXIT" => Self::SystemError,
            "1" | "INTENDED_SYSTEM_EXIT" => Self::IntendedSystemExit,
            "2" | "USER_ERROR" => Self::UserError,
            "3" | "INTENDED_USER_EXIT" => Self::IntendedUserExit,
            "4" | "NODE_OUT_OF_MEMORY" => Self::NodeOutOfMemory,
            _ => Self::Other,
        }
    }
}

/// A kill record of Ray's memory monitor.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MonitorKill {
    /// The workers that were chosen: those "Selected to kill", or all that older versions list.
    /// Empty where no grammar knows the record's words.
    pub selected: Vec<Candidate>,
    /// The workers that were considered and spared (≥ 2.56).
    pub spared: Vec<Candidate>,
    /// What the monitor counted, exact where the record says bytes.
    pub used: Option<Bytes>,
    /// Its threshold.
    pub threshold: Option<Bytes>,
    /// What it takes as the machine's memory.
    pub total: Option<Bytes>,
    /// The node.
    pub node_id: Option<HexId>,
    /// Why these workers were chosen, in the record's words.
    pub policy: Option<String>,
    /// `Top 10 memory users`, biggest first.
    pub top: Vec<TopUser>,
}

impl MonitorKill {
    /// Whether a grammar knew the record's words. A record that is understood names at least one
    /// worker that was killed.
    pub(crate) fn is_understood(&self) -> bool {
        !self.selected.is_empty()
    }

    /// Returns what the record says about a killed worker; `None` where it does not list that
    /// worker, or the worker's id is not known.
    pub fn of_worker(&self, worker: Option<&HexId>) -> Option<&Candidate> {
        let worker = Some(worker?);
        let mut selected = self.selected.iter();
        selected.find(|one| one.worker_id.as_ref() == worker)
    }
}

/// A worker in a kill record.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Candidate {
    /// Its pid in Ray's pid namespace.
    pub pid: Option<Pid>,
    /// Its worker id.
    pub worker_id: Option<HexId>,
    /// Its job.
    pub job_id: Option<HexId>,
    /// Its actor.
    pub actor_id: Option<HexId>,
    /// The task name *of its lease*, which can differ from the task that it runs.
    pub task_name: Option<String>,
    /// Memory that Ray counted (USS), rounded by Ray to 0.01 GiB.
    pub used: Option<Bytes>,
}

/// A line of `Top 10 memory users`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopUser {
    /// Pid in Ray's namespace.
    pub pid: Pid,
    /// Memory, rounded by Ray to 0.01 GiB.
    pub used: Bytes,
    /// Command or title, cut off by Ray.
    pub command: String,
}

/// Rows of the first releases do not say whether the process was alive.
fn alive() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_without_worker_id_matches_no_worker() {
        let row = |worker_id: Option<HexId>| Candidate {
            worker_id,
            ..Candidate::default()
        };
        let known = HexId::parse("00ff").expect("hex");
        let kill = MonitorKill {
            selected: vec![row(None), row(Some(known.clone()))],
            ..MonitorKill::default()
        };
        assert_eq!(kill.of_worker(None), None);
        assert_eq!(kill.of_worker(Some(&known)), Some(&kill.selected[1]));
    }
}
