//! Parses one-line messages into facts, by the component that writes them.
//!
//! Each message is listed with the Ray versions that print it.

use super::{
    after_effects, gpu_moved,
    line::{Line, id_field, number_field, text_field},
    monitor_kill, step,
};
use crate::{
    ids::{Bytes, HexId, Pid},
    ray::facts::{ExitType, RayFact},
};

/// Parses a line of raylet.out.
pub(super) fn raylet(line: &Line<'_>) -> Option<RayFact> {
    let message = line.message.as_ref();
    workers(line, message)
        .or_else(|| node(message))
        .or_else(|| monitor(message))
        .or_else(|| object_store(message))
}

/// Parses what the raylet says about single workers.
fn workers(line: &Line<'_>, message: &str) -> Option<RayFact> {
    if let Some(rest) = message.strip_prefix("Started worker process with pid ") {
        // ≥ 2.54 with worker_id, ≤ 2.51 with ", the token is T".
        let pid = Pid(number_field(rest, "").or_else(|| number_field(message, "with pid "))?);
        let token = number_field(message, "the token is ");
        return Some(RayFact::WorkerStarted {
            pid,
            worker_id: line.worker_id(),
            token,
        });
    }
    if message.contains("isconnect") {
        return disconnect(line, message);
    }
    if message.starts_with("Killing leased worker because its ")
        || message.starts_with("The leased worker ")
        || (message.starts_with("Failed to send exit request to worker")
            && message.contains("using SIGKILL instead"))
    {
        return owner(line, message);
    }
    if let Some(rest) = message.strip_prefix("Force exiting worker whose job has exited ") {
        // ≥ 2.9
        return Some(RayFact::JobFinished {
            worker_id: id_field(rest, "").or_else(|| line.worker_id())?,
        });
    }
    if message.starts_with("Received KillLocalActor RPC") {
        // ≥ 2.56
        return Some(RayFact::KillActorRequested {
            worker_id: line.worker_id()?,
            actor_id: line.actor_id(),
        });
    }
    if message.starts_with("Worker with PID=") && message.contains("force killing with SIGKILL") {
        // ≥ 2.54
        return Some(RayFact::ForceKilled {
            pid: Pid(number_field(message, "PID=")?),
        });
    }
    if message.contains("have not registered within the timeout") {
        return Some(RayFact::NotRegistered {
            pid: Pid(number_field(message, "worker process(")?),
            alive: !message.contains("The process is dead"),
        });
    }
    if message.starts_with("Stop: sending SIG") {
        // ≥ 2.57
        let signal = if message.contains("SIGKILL") {
            libc::SIGKILL
        } else {
            libc::SIGTERM
        };
        let process_group = Pid(number_field(message, "pgid=")?);
        return Some(RayFact::StopSignal {
            process_group,
            worker_id: line.worker_id(),
            signal,
        });
    }
    None
}

/// ≤ 2.35 `NodeManager::DisconnectClient, disconnect_type=4, …`; 2.44–2.51 `Disconnecting client,
/// graceful=…`; ≥ 2.54 `Disconnecting worker|driver, graceful=…`; `Driver (pid=N) is
/// disconnected.`; ≥ 2.57 `DisconnectClient: sending SIGTERM to pgid=N`.
fn disconnect(line: &Line<'_>, message: &str) -> Option<RayFact> {
    if message.starts_with("DisconnectClient: sending SIGTERM to pgid=") {
        let process_group = Pid(number_field(message, "pgid=")?);
        return Some(RayFact::GroupTerminated {
            process_group,
            worker_id: line.worker_id(),
        });
    }
    if message.starts_with("Driver (pid=") {
        let pid = Pid(number_field(message, "(pid=")?);
        return Some(RayFact::DriverDisconnected {
            pid,
            worker_id: line.worker_id(),
            job_id: line.job_id(),
        });
    }
    let number: u32 = number_field(message, "disconnect_type=")?;
    Some(RayFact::Disconnected {
        worker_id: line.worker_id(),
        exit_type: ExitType::parse(&number.to_string()),
        graceful: text_field(message, "graceful=", ",").map(|graceful| graceful == "true"),
        driver: message.starts_with("Disconnecting driver"),
        job_id: line.job_id(),
    })
}

/// Parses ≥ 2.54 `Killing leased worker because its owner died.|its owner's node died.|its job
/// finished.`; up to 2.51 `The leased worker W is killed because the owner process O died.|the
/// owner node N died.|the job J finished.`; ≥ 2.51 `Failed to send exit request to worker ….
/// Killing it using SIGKILL instead.`, which follows the end of its job or owner.
fn owner(line: &Line<'_>, message: &str) -> Option<RayFact> {
    if let Some(rest) = message.strip_prefix("The leased worker ") {
        let reason = match text_field(rest, "because the ", " ")? {
            "job" => "job finished",
            _ if message.contains("owner node") => "owner's node died",
            _ => "owner died",
        };
        return Some(RayFact::OwnerDied {
            worker_id: id_field(rest, "").or_else(|| line.worker_id())?,
            owner_worker_id: id_field(message, "the owner process "),
            reason: reason.into(),
        });
    }
    let reason = match text_field(message, "because its ", ".") {
        Some(reason) => reason.to_owned(),
        None => "exit request failed".to_owned(),
    };
    let owner_worker_id = id_field(message, "owner_worker_id=");
    Some(RayFact::OwnerDied {
        worker_id: line.worker_id()?,
        owner_worker_id,
        reason,
    })
}

/// Parses what the raylet says about the node and itself.
fn node(message: &str) -> Option<RayFact> {
    if message.starts_with("received SIGTERM") || message.starts_with("Raylet received SIGTERM") {
        // `received SIGTERM. Existing local drain request = None`; 2.9 `Raylet received SIGTERM,
        // shutting down...`
        return Some(RayFact::RayletSigterm);
    }
    if message.contains("Ray agent failed")
        || message.contains("The raylet exited immediately because")
    {
        // `The raylet exited immediately because one Ray agent failed, agent_name =
        // dashboard_agent.`
        let agent = text_field(message, "agent_name = ", ".").unwrap_or("agent");
        return Some(RayFact::AgentFailed {
            agent: agent.trim().to_owned(),
        });
    }
    if begins_shutdown(message) {
        return Some(shutdown(message));
    }
    // 2.9 to 2.60 `[Timeout] Exiting because this node manager has mistakenly been marked as dead
    // by the GCS: …`
    let lost = message.contains("been marked as dead by the")
        || message.contains("marked dead by the GCS")
        || (message.contains("GCS")
            && (message.contains("may have been killed")
                || message.contains("Failed to connect to GCS within")));
    lost.then(|| RayFact::RayletMarkedDead {
        reason: message.chars().take(200).collect(),
    })
}

/// Whether a line is the first of the two lines of a raylet's shutdown (≥ 2.20).
pub(super) fn begins_shutdown(message: &str) -> bool {
    message.contains("graceful shutdown triggered with death info")
}

/// Whether a line is the second of them.
pub(super) fn ends_shutdown(line: &str) -> bool {
    line.trim_start().starts_with("reason_message:")
}

/// `Raylet graceful shutdown triggered with death info: reason: UNEXPECTED_TERMINATION` and on the
/// next line `reason_message: "dashboard_agent failed and raylet fate-shares with it."`.
pub(super) fn shutdown(block: &str) -> RayFact {
    let reason = text_field(block, "reason: ", "\n").unwrap_or("");
    let message = text_field(block, "reason_message: ", "\n");
    RayFact::RayletShutdown {
        reason: reason.split(' ').next().unwrap_or(reason).to_owned(),
        message: message.map(|message| message.trim().trim_matches('"').to_owned()),
    }
}

/// Parses 2.9 to 2.60 `:info_message:Spilled 1080 MiB, 12 objects, write throughput …`, which
/// counts everything since the start and is printed when that has doubled; `Shared memory store
/// full, falling back to allocating from filesystem: N`.
fn object_store(message: &str) -> Option<RayFact> {
    if message.starts_with("Shared memory store full, falling back") {
        return Some(RayFact::ObjectStorePressure { spilled: None });
    }
    let mebibytes: u64 = number_field(message, ":info_message:Spilled ")?;
    Some(RayFact::ObjectStorePressure {
        spilled: Some(Bytes(mebibytes << 20)),
    })
}

/// Parses what the memory monitor says besides its kill records.
fn monitor(message: &str) -> Option<RayFact> {
    if message.contains("MemoryMonitor initialized with usage threshold at") {
        return Some(RayFact::MonitorStarted {
            threshold: Bytes(number_field(message, "threshold at ")?),
            total: Bytes(number_field(message, "system memory bytes: ")?),
            interval_ms: number_field(message, "monitor interval: "),
            user_slice_only: message.contains("user slice memory usage"),
        });
    }
    if message.contains("MemoryMonitor disabled") {
        return Some(RayFact::MonitorDisabled);
    }
    if message.contains("memory usage above threshold, used: ") {
        let used = Bytes(number_field(message, "used: ")?);
        return Some(RayFact::AboveThreshold {
            used,
            threshold: Bytes(number_field(message, "threshold_bytes: ")?),
        });
    }
    if message.starts_with("Worker evicted and process killed to reclaim memory") {
        let (pid, worker_id) = monitor_kill::evicted(message)?;
        return Some(RayFact::MonitorEvicted { pid, worker_id });
    }
    if message.contains("killed due to memory pressure (OOM)") {
        let memory = message.split_whitespace().next()?.parse().ok()?;
        let other = text_field(message, "(OOM), ", " ").and_then(|count| count.parse().ok())?;
        return Some(RayFact::Summary { memory, other });
    }
    None
}

/// Parses a line of `gcs_server.out`.
pub(super) fn gcs(line: &Line<'_>) -> Option<RayFact> {
    let message = line.message.as_ref();
    if let Some(fact) = job(line, message) {
        return Some(fact);
    }
    if message.starts_with("Actor creation task succeeded.") {
        // ≥ 2.44
        return Some(RayFact::ActorState {
            actor_id: line.actor_id()?,
            state: "ALIVE".into(),
            restarts_left: None,
            worker_id: line.worker_id(),
            node_id: line.node_id(),
        });
    }
    if let Some(fact) = node_of_gcs(line, message) {
        return Some(fact);
    }
    if message.starts_with("Reporting worker exit") {
        return Some(RayFact::GcsWorkerExit {
            worker_id: id_field(message, "worker id = ")?,
            exit_type: ExitType::parse(text_field(message, "exit_type = ", ",")?),
            detail: text_field(message, "exit_detail = ", ". Unintentional worker failures")
                .unwrap_or("")
                .to_owned(),
            node_id: id_field(message, "node id = "),
        });
    }
    if message.contains(" is failed on worker ") {
        // ≥ 2.9 `Actor [ID ]is failed on worker W at node N, need_reschedule = 1, …,
        // remaining_restarts = 1, …`
        let restarts: Option<i64> = number_field(message, "remaining_restarts = ");
        let again = message.contains("need_reschedule = 1") && restarts != Some(0);
        let named = message
            .strip_prefix("Actor ")
            .and_then(|rest| id_field(rest, ""));
        return Some(RayFact::ActorState {
            actor_id: line.actor_id().or(named)?,
            state: if again { "RESTARTING" } else { "DEAD" }.into(),
            restarts_left: restarts,
            worker_id: id_field(message, "failed on worker "),
            node_id: id_field(message, " at node "),
        });
    }
    None
}

/// ≥ 2.51 `Registering new node. node_id=N node_name=NAME node_address=A`, `, death reason = R,
/// death message = M node_id=N node_name=NAME`; 2.9 `Registering node info, node id = N, address =
/// A, node name = NAME`, `Removing node, node id = N, node name = NAME, death reason = R, …`.
fn node_of_gcs(line: &Line<'_>, message: &str) -> Option<RayFact> {
    let node_id = || line.node_id().or_else(|| id_field(message, "node id = "));
    let text = |new: &str, old: &str| {
        let found = text_field(message, new, " ").or_else(|| text_field(message, old, ","));
        found.map(|text| text.trim().to_owned())
    };
    if message.starts_with("Registering new node.") || message.starts_with("Registering node info,")
    {
        return Some(RayFact::NodeRegistered {
            node_id: node_id()?,
            name: text(" node_name=", "node name = "),
            address: text(" node_address=", ", address = "),
        });
    }
    if !message.contains("death reason = ") && !message.starts_with("Removing node, node id = ") {
        return None;
    }
    let said = text_field(message, "death message = ", " node_id=");
    Some(RayFact::NodeDied {
        node_id: node_id()?,
        reason: text_field(message, "death reason = ", ",").map(|reason| reason.trim().to_owned()),
        message: said.map(|said| said.trim().to_owned()),
    })
}

/// 2.9 `Adding job, job id = J, driver pid = P`, `Finished marking job state, job id = J`; ≥ 2.51
/// `Registering job. job_id=J driver_pid=P`, `Marking job as finished. job_id=J`.
fn job(line: &Line<'_>, message: &str) -> Option<RayFact> {
    let job_id = || line.job_id().or_else(|| id_field(message, "job id = "));
    if message.starts_with("Registering job.") || message.starts_with("Adding job,") {
        let pid = number_field(message, "driver_pid=");
        return Some(RayFact::JobStarted {
            job_id: job_id()?,
            driver_pid: Pid(pid.or_else(|| number_field(message, "driver pid = "))?),
        });
    }
    let ended = message.starts_with("Marking job as finished.")
        || message.starts_with("Finished marking job state");
    if !ended {
        return None;
    }
    Some(RayFact::JobEnded { job_id: job_id()? })
}

/// Parses core-worker logs: what a worker or driver says about itself and the tasks that it owns.
pub(super) fn core_worker(line: &Line<'_>, worker_id: Option<&HexId>) -> Option<RayFact> {
    let message = line.message.as_ref();
    let worker_id = worker_id.cloned();
    if message.contains("Client::Disconnect, exit_type=") {
        // `RayletClient::` up to 2.5x, `RayletIpcClient::` after.
        return Some(RayFact::SelfDisconnect {
            exit_type: ExitType::parse(text_field(message, "exit_type=", ",")?),
            detail: text_field(message, "exit_detail=", ", has creation_task_exception")?
                .to_owned(),
            worker_id,
        });
    }
    if message.contains("because the local raylet") || message.contains("Raylet is terminated") {
        let raylet_pid = number_field(message, "Raylet pid: ").map(Pid);
        return Some(RayFact::RayletLost {
            raylet_pid,
            worker_id,
        });
    }
    if let Some(rest) =
        message.strip_prefix("Force kill actor request has received. exiting immediately... ")
    {
        return Some(RayFact::ForceKillActor {
            reason: rest.trim().to_owned(),
            worker_id,
        });
    }
    failure_signal(message, worker_id.as_ref()).or_else(|| actor_notice(line, message))
}

/// Parses ≥ 2.9 `received notification on actor, state: RESTARTING, …`, which an actor's owner and
/// its borrowers log.
fn actor_notice(line: &Line<'_>, message: &str) -> Option<RayFact> {
    let rest = message.strip_prefix("received notification on actor, state: ")?;
    let state = rest.split(',').next()?;
    if !matches!(state, "ALIVE" | "RESTARTING" | "DEAD") {
        return None;
    }
    let old = |key: &str| id_field(rest, key);
    Some(RayFact::ActorState {
        actor_id: line.actor_id().or_else(|| old("actor_id: "))?,
        state: state.to_owned(),
        restarts_left: None,
        worker_id: line.worker_id().or_else(|| old("worker_id: ")),
        node_id: line.node_id().or_else(|| old("raylet_id: ")),
    })
}

/// Parses `*** SIGSEGV received at time=…` (abseil's failure handler, every version).
pub(super) fn failure_signal(text: &str, worker_id: Option<&HexId>) -> Option<RayFact> {
    let rest = text.trim_start().strip_prefix("*** ")?;
    let (signal, rest) = rest.split_once(' ')?;
    if !signal.starts_with("SIG") || !rest.starts_with("received at time=") {
        return None;
    }
    Some(RayFact::FailureSignal {
        signal: signal.to_owned(),
        worker_id: worker_id.cloned(),
    })
}

/// Parses markers and the last line of a traceback in what a worker prints.
pub(super) fn worker_output(text: &str, worker_id: Option<&HexId>) -> Option<RayFact> {
    let worker_id = worker_id.cloned();
    if let Some(rest) = text.strip_prefix(':') {
        let (name, value) = rest.split_once(':')?;
        let known = matches!(name, "job_id" | "task_name" | "actor_name");
        return known.then(|| RayFact::Marker {
            name: name.to_owned(),
            value: value.to_owned(),
            worker_id,
        });
    }
    if text.starts_with("*** SIG") {
        return failure_signal(text, worker_id.as_ref());
    }
    if let Some(moved) = gpu_moved::parse(text) {
        return Some(RayFact::GpuMoved { moved, worker_id });
    }
    if let Some(step::Step { step, of }) = step::parse(text) {
        return Some(RayFact::TrainingStep {
            step,
            of,
            worker_id,
        });
    }
    if let Some(said) = after_effects::of_nccl(text) {
        return Some(RayFact::Exception {
            class: "NCCL".into(),
            message: said.chars().take(200).collect(),
            worker_id,
        });
    }
    let (class, message) = text.split_once(": ")?;
    let ends = ["Error", "Exception", "BrokenProcessPool"];
    let exception = ends.iter().any(|end| class.ends_with(end)) || class == "SystemExit";
    let plain = class
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'));
    let message = message.chars().take(200).collect();
    (exception && plain).then(|| RayFact::Exception {
        class: class.to_owned(),
        message,
        worker_id,
    })
}
