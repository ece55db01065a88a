//! Tests what became of tasks, actors, jobs and the raylet itself.
//!
//! The lines are those that the named Ray versions print.

use super::*;

fn raylet(message: &str) -> RayFact {
    let line =
        format!("[2026-11-21 07:13:40,454 I 24724 24724] (raylet) node_manager.cc:1: {message}");
    one(FileKind::Raylet, &line)
}

fn gcs(message: &str) -> RayFact {
    let line = format!(
        "[2026-11-21 07:13:40,454 I 24636 24636] (gcs_server) gcs_job_manager.cc:1: {message}"
    );
    one(FileKind::Gcs, &line)
}

fn id(text: &str) -> HexId {
    HexId(text.to_owned())
}

/// Ray 2.60.0: two tasks fail at once, one is retried, the other is not; 2.9.3 and 2.51.1 print the
/// same.
const TWO_TASKS: &str = "\
[2026-11-21 07:13:26,587 W 24823 24839] task_manager.cc:1678: Task attempt c8ef failed with error OUT_OF_MEMORY Fail immediately? 0, status RpcError: RPC error: Socket closed rpc_code: 14, error info null
[2026-11-21 07:13:26,588 I 24823 24839] task_manager.cc:1557: task c8ef retries left: 1, oom retries left: -1, task failed due to oom: 1
[2026-11-21 07:13:26,588 W 24823 24839] task_manager.cc:1678: Task attempt 1631 failed with error WORKER_DIED Fail immediately? 0, status RpcError: RPC error: Socket closed rpc_code: 14, error info null
[2026-11-21 07:13:26,588 I 24823 24839] task_manager.cc:1557: task 1631 retries left: 0, oom retries left: -1, task failed due to oom: 0
[2026-11-21 07:13:26,588 I 24823 24839] task_manager.cc:1565: Attempting to resubmit task c8ef for attempt number: 0
[2026-11-21 07:13:26,588 I 24823 24839] core_worker.cc:5147: Will resubmit task after a 0ms delay: Type=NORMAL_TASK, Language=PYTHON, Resources: {CPU: 1, }, task_id=c8ef, task_name=hog, job_id=01000000, num_args=2
[2026-11-21 07:13:26,588 I 24823 24839] task_manager.cc:1572: No retries left for task 1631, not going to resubmit.
[2026-11-21 07:13:26,588 I 24823 24839] task_manager.cc:1649: Task failed: RpcError: RPC error: Socket closed rpc_code: 14: Type=NORMAL_TASK, Language=PYTHON, task_id=1631, task_name=die, job_id=01000000, num_args=0";

/// A task that was killed for memory has a retry budget of its own.
#[test]
fn failed_task_has_error_type_and_retry_budget() {
    let expected = |task: &str, error: &str, will_retry, left, name: &str| RayFact::TaskFailed {
        task_id: Some(id(task)),
        error: error.into(),
        will_retry: Some(will_retry),
        retries_left: Some(left),
        task_name: Some(name.into()),
        job_id: Some(id("01000000")),
    };
    assert_eq!(
        facts(FileKind::CoreWorker, TWO_TASKS),
        [
            expected("c8ef", "OUT_OF_MEMORY", true, -1, "hog"),
            expected("1631", "WORKER_DIED", false, 0, "die"),
        ]
    );
}

#[test]
fn raylet_shutdown_has_reason_and_message() {
    // 2.54 to 2.60
    let text = "[2026-11-21 00:40:39,695 I 1515 1540] (raylet) main.cc:481: Raylet graceful shutdown triggered with death info: reason: UNEXPECTED_TERMINATION\nreason_message: \"dashboard_agent failed and raylet fate-shares with it.\"\n";
    assert_eq!(
        one(FileKind::Raylet, text),
        RayFact::RayletShutdown {
            reason: "UNEXPECTED_TERMINATION".into(),
            message: Some("dashboard_agent failed and raylet fate-shares with it.".into())
        }
    );
}

#[test]
fn raylet_reports_that_it_is_marked_dead() {
    // 2.9 to 2.60
    let fact = raylet(
        "[Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS: GCS failed to check the health of this node for 5 times.",
    );
    assert!(matches!(fact, RayFact::RayletMarkedDead { .. }), "{fact:?}");
    // 2.9
    assert_eq!(
        raylet("Raylet received SIGTERM, shutting down..."),
        RayFact::RayletSigterm
    );
}

#[test]
fn leased_workers_die_with_their_job_or_owner() {
    let died = |reason: &str| RayFact::OwnerDied {
        worker_id: id("ab"),
        owner_worker_id: None,
        reason: reason.into(),
    };
    // 2.51
    assert_eq!(
        raylet("The leased worker ab is killed because the job 01000000 finished."),
        died("job finished")
    );
    // 2.51
    assert_eq!(
        raylet("The leased worker is killed because the owner node died. worker_id=ab"),
        // The id follows the message.
        died("owner's node died")
    );
    // ≥ 2.51
    assert_eq!(
        raylet(
            "Failed to send exit request to worker : RpcError: RPC error: Socket closed rpc_code: 14. Killing it using SIGKILL instead. worker_id=ab"
        ),
        died("exit request failed")
    );
}

#[test]
fn gcs_log_has_starts_and_ends_of_jobs() {
    let started = RayFact::JobStarted {
        job_id: id("01000000"),
        driver_pid: Pid(24823),
    };
    let ended = RayFact::JobEnded {
        job_id: id("01000000"),
    };
    // ≥ 2.51
    assert_eq!(
        gcs("Registering job. job_id=01000000 driver_pid=24823"),
        started
    );
    assert_eq!(gcs("Marking job as finished. job_id=01000000"), ended);
    // 2.9
    assert_eq!(
        gcs("Adding job, job id = 01000000, driver pid = 24823"),
        started
    );
    assert_eq!(gcs("Finished marking job state, job id = 01000000"), ended);
}

#[test]
fn restarted_actor_names_its_new_worker() {
    let alive = RayFact::ActorState {
        actor_id: id("549e"),
        state: "ALIVE".into(),
        restarts_left: None,
        worker_id: Some(id("c041")),
        node_id: Some(id("4c96")),
    };
    // ≥ 2.51, gcs_server.out
    assert_eq!(
        gcs(
            "Actor creation task succeeded. actor_id=549e worker_id=c041 job_id=01000000 node_id=4c96"
        ),
        alive
    );
    let notice = |text: &str| {
        one(
            FileKind::CoreWorker,
            &format!(
                "[2026-11-21 07:13:32,731 I 24823 24839] actor_manager.cc:236: received notification on actor, state: {text}"
            ),
        )
    };
    // 2.60, core-driver log
    assert_eq!(
        notice(
            "ALIVE, ip address: 192.0.2.2, port: 11396, num_restarts: 1, death context type=CONTEXT_NOT_SET actor_id=549e worker_id=c041 node_id=4c96"
        ),
        alive
    );
    // 2.9
    assert_eq!(
        notice(
            "ALIVE, actor_id: 549e, ip address: 192.0.2.2, port: 10008, worker_id: c041, raylet_id: 81fa, num_restarts: 1, death context type=CONTEXT_NOT_SET"
        ),
        RayFact::ActorState {
            actor_id: id("549e"),
            state: "ALIVE".into(),
            restarts_left: None,
            worker_id: Some(id("c041")),
            node_id: Some(id("81fa")),
        }
    );
}

#[test]
fn json_fields_of_other_workers_are_not_its_own() {
    let line = r#"{"asctime":"2026-11-21 00:33:16,655","levelname":"I","message":"Killing leased worker because its owner died.","component":"raylet","filename":"node_manager.cc","lineno":1050,"owner_worker_id":"cd","worker_id":"ab"}"#;
    assert_eq!(
        one(FileKind::Raylet, line),
        RayFact::OwnerDied {
            worker_id: id("ab"),
            owner_worker_id: Some(id("cd")),
            reason: "owner died".into()
        }
    );
}

#[test]
fn crash_is_read_from_worker_output() {
    // Every version, worker-….err
    let text = "*** SIGSEGV received at time=1795245212 on cpu 1 ***\nPC: @     0x7f6430a5a267  (unknown)  kill";
    assert_eq!(
        one(FileKind::WorkerOutput, text),
        RayFact::FailureSignal {
            signal: "SIGSEGV".into(),
            worker_id: HexId::parse("aa")
        }
    );
}

#[test]
fn gcs_log_has_node_names_and_deaths() {
    let registered = |node: &str, name: &str, address: &str| RayFact::NodeRegistered {
        node_id: id(node),
        name: Some(name.into()),
        address: Some(address.into()),
    };
    // ≥ 2.51
    assert_eq!(
        gcs("Registering new node. node_id=3bfb node_name=gpu-04 node_address=10.0.0.4"),
        registered("3bfb", "gpu-04", "10.0.0.4")
    );
    // 2.9
    assert_eq!(
        gcs("Registering node info, node id = 3bfb, address = 10.0.0.4, node name = gpu-04"),
        registered("3bfb", "gpu-04", "10.0.0.4")
    );
    let died = |message: Option<&str>| RayFact::NodeDied {
        node_id: id("3bfb"),
        reason: Some("UNEXPECTED_TERMINATION".into()),
        message: message.map(str::to_owned),
    };
    // 2.60
    assert_eq!(
        gcs(
            ", death reason = UNEXPECTED_TERMINATION, death message = health check failed due to missing too many heartbeats node_id=3bfb node_name=gpu-04"
        ),
        died(Some(
            "health check failed due to missing too many heartbeats"
        ))
    );
}
