//! Each message format, as the named Ray versions print it.

mod fates;

use super::*;
use crate::{
    ids::{Bytes, Pid},
    ray::facts::ExitType,
};

fn facts(kind: FileKind, text: &str) -> Vec<RayFact> {
    let mut parser = LogParser::new(kind, HexId::parse("aa"));
    let mut out = Vec::new();
    for line in text.lines() {
        parser.push(line, &mut out);
    }
    parser.flush(&mut out);
    out.into_iter().map(|record| record.fact).collect()
}

fn one(kind: FileKind, text: &str) -> RayFact {
    let found = facts(kind, text);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().expect("one")
}

fn kill(text: &str) -> crate::ray::facts::MonitorKill {
    match one(FileKind::Raylet, text) {
        RayFact::MonitorKill(kill) => kill,
        other => panic!("{other:?}"),
    }
}

/// Ray 2.57 to 2.60: many lines; only "Selected to kill" are killed.
const KILL_260: &str = "\
[2026-11-21 00:11:38,555 I 1261 1261] (raylet) node_manager.cc:3199: Killing 1 worker(s), kill details: Memory on the node (IP: 192.0.2.2, ID: 550e3ab6df) was 2.04GB used / 4.00GB limit (0.509611)
OOM kill reason: Memory usage 2185355264B exceeded threshold of 2147483648B (50.0% of 4294967296B limit)
Object store memory usage: [- objects spillable: 0
]
Ray killed 1 worker(s) based on the killing policy
Considered workers: [
Selected to kill: (Task: job ID=01000000, lease ID=0200ff, task name=hog_two_a, required resources={CPU: 1}, pid=1487, actual memory used=0.70GB, worker ID=2abec82d)
(Actor(d8257cf0): job ID=01000000, lease ID=0100ff, task name=A.__init__, required resources={}, pid=1486, actual memory used=0.73GB, worker ID=387248421b)
]
Total non-selected idle workers: 1
Top 10 memory users: PID\tMEM(GB)\tCOMMAND
1486\t0.73\tray::hog_two_a
1487\t0.70\tray::hog_two_b
 suggestions: Refer to the documentation on how to address the out of memory issue
[2026-11-21 00:11:38,556 I 1261 1261] (raylet) node_manager.cc:1477: Disconnecting worker, graceful=false, disconnect_type=4, has_creation_task_exception=false worker_id=2abec82d job_id=01000000";

#[test]
fn kill_record_of_2_60_has_selected_and_spared() {
    let mut parser = LogParser::new(FileKind::Raylet, None);
    let mut out = Vec::new();
    for line in KILL_260.lines() {
        parser.push(line, &mut out);
        if line.contains("suggestions:") {
            assert_eq!(
                out.len(),
                1,
                "the record is told at its last line, not at the next record's first"
            );
        }
    }
    let RayFact::MonitorKill(kill) = &out[0].fact else {
        panic!("{out:?}")
    };
    assert_eq!(out[0].local_time, Some(1_795_219_898_555_000_000));
    assert_eq!(kill.selected.len(), 1);
    assert_eq!(kill.selected[0].pid, Some(Pid(1487)));
    assert_eq!(kill.selected[0].worker_id, HexId::parse("2abec82d"));
    assert_eq!(kill.selected[0].task_name.as_deref(), Some("hog_two_a"));
    assert_eq!(kill.spared.len(), 1);
    assert_eq!(kill.spared[0].actor_id, HexId::parse("d8257cf0"));
    assert_eq!(kill.used, Some(Bytes(2_185_355_264)));
    assert_eq!(kill.threshold, Some(Bytes(2_147_483_648)));
    assert_eq!(kill.total, Some(Bytes(4_294_967_296)));
    assert_eq!(kill.top.len(), 2);
    assert!(matches!(
        &out[1].fact,
        RayFact::Disconnected {
            exit_type: ExitType::NodeOutOfMemory,
            graceful: Some(false),
            ..
        }
    ));
}

/// Ray Data names its workers after the user's functions.
#[test]
fn task_names_may_have_parentheses() {
    let (record, _) = KILL_260.rsplit_once('\n').expect("lines");
    for name in [
        "MapWorker(MapBatches(f)).__init__",
        "step (epoch 3)",
        "a (b, c) d)",
    ] {
        let kill = kill(&record.replace("hog_two_a, req", &format!("{name}, req")));
        let names: Vec<_> = kill
            .selected
            .iter()
            .map(|one| one.task_name.as_deref())
            .collect();
        assert_eq!(names, [Some(name)]);
        assert_eq!(kill.selected[0].pid, Some(Pid(1487)));
        assert_eq!(kill.selected[0].job_id, HexId::parse("01000000"));
        assert_eq!(kill.spared.len(), 1);
    }
    // A worker whose text is cut takes nothing from the next one.
    let cut = kill(&record.replace(
        ", pid=1487, actual memory used=0.70GB, worker ID=2abec82d)",
        "",
    ));
    assert!(cut.selected.is_empty(), "{cut:?}");
    assert_eq!(cut.spared[0].pid, Some(Pid(1486)));
}

#[test]
fn kill_record_of_2_56_kills_only_the_selected() {
    // Ray 2.56
    let kill = kill(
        "[2026-11-21 00:12:30,731 I 2600 2600] (raylet) node_manager.cc:3112: Killing 2 worker(s), kill details: Memory on the node (IP: 192.0.2.2, ID: 3d2dc5ef) was 4.37GB / 23.54GB (0.185637); OOM kill reason: Memory usage 4675805184B exceeded threshold of 4620544512B (18.3% of 25276502016B total); Ray killed 2 worker(s) based on the killing policy; Considered workers: [; Selected to kill: (Task: job ID=01000000, lease ID=03, task name=f, required resources={CPU: 1}, pid=11, actual memory used=0.70GB, worker ID=ab01); Selected to kill: (Worker with no lease granted: pid=12, actual memory used=1.20GB, worker ID=ab02); (Task: job ID=01000000, lease ID=04, task name=g, required resources={}, pid=13, actual memory used=0.10GB, worker ID=ab03); ]; Top 10 memory users: PID\tMEM(GB)\tCOMMAND; 11\t0.70\tray::f;  suggestions: Refer to the documentation",
    );
    let pids: Vec<_> = kill.selected.iter().filter_map(|one| one.pid).collect();
    assert_eq!(pids, [Pid(11), Pid(12)]);
    assert_eq!(kill.spared.len(), 1);
    assert_eq!(kill.top.len(), 1);
}

#[test]
fn kill_record_of_2_55_kills_all_listed() {
    // Ray 2.55
    let kill = kill(
        "[2026-11-21 00:28:09,428 I 23954 23954] (raylet) node_manager.cc:3081: Killing 1 worker(s), kill details: Memory on the node (IP: 192.0.2.2, ID: 19ed5cab) was 5.14GB / 23.54GB (0.218157), which exceeds the memory usage threshold of 0.215700; Object store memory usage: []; Ray killed 1 worker(s) based on the killing policy: [(Task: job ID=01000000, lease ID=02, task name=f, required resources={CPU: 1}, pid=24001, actual memory used=0.70GB, worker ID=ab01)]; Top 10 memory users: PID\tMEM(GB)\tCOMMAND;  suggestions: Refer to the documentation",
    );
    assert_eq!(kill.selected.len(), 1);
    assert_eq!(kill.selected[0].pid, Some(Pid(24001)));
    let threshold = kill.threshold.expect("threshold").gib();
    assert!((threshold - 23.54 * 0.2157).abs() < 0.001, "{threshold}");
}

#[test]
fn kill_record_up_to_2_54_has_one_worker() {
    // Ray 2.9.3 to 2.49 print the task, 2.51 to 2.54 the lease.
    for (what, id) in [
        ("task (task ID: daf6", "task"),
        ("lease (actor ID: NIL_IDlease ID: 0300", "lease"),
    ] {
        let text = format!(
            "[2026-11-21 00:01:09,341 I 20630 20630] (raylet) node_manager.cc:2863: Killing worker with task Type=NORMAL_TASK, Language=PYTHON, function_name=allocate_memory, task_id=daf6, task_name=allocate_memory, job_id=01000000, num_args=4\n\nMemory on the node (IP: 192.0.2.2, ID: c4ea4d8c) where the {what}, name=allocate_memory, pid=20835, memory used=0.66GB) was running was 3.95GB / 23.54GB (0.167949), which exceeds the memory usage threshold of 0.1666. Ray killed this worker (ID: 397ab3d6) because it was the most recently scheduled task; to see more information\nTop 10 memory users:\nPID\tMEM(GB)\tCOMMAND\n20741\t0.82\tray::allocate_memory\n20742\t0.79\tray::allocate_memory"
        );
        let kill = kill(&text);
        assert_eq!(kill.selected[0].pid, Some(Pid(20835)), "{id}");
        assert_eq!(kill.selected[0].worker_id, HexId::parse("397ab3d6"));
        assert_eq!(
            kill.selected[0].task_name.as_deref(),
            Some("allocate_memory")
        );
        assert_eq!(
            kill.policy.as_deref(),
            Some("it was the most recently scheduled task")
        );
        assert_eq!(kill.top.len(), 2);
    }
}

#[test]
fn json_log_gives_the_same_facts() {
    // RAY_BACKEND_LOG_JSON=1
    let started = one(
        FileKind::Raylet,
        r#"{"asctime":"2026-11-21 00:33:16,655","levelname":"I","message":"Started worker process with pid 29639","component":"raylet","filename":"worker_pool.cc","lineno":564,"worker_id":"a92607ac"}"#,
    );
    assert_eq!(
        started,
        RayFact::WorkerStarted {
            pid: Pid(29639),
            worker_id: HexId::parse("a92607ac"),
            token: None
        }
    );
    let message = KILL_260.lines().take(14).collect::<Vec<_>>().join("\n");
    let message = message
        .split_once("node_manager.cc:3199: ")
        .expect("message")
        .1;
    let json =
        serde_json::json!({"asctime": "2026-11-21 00:32:42,543", "message": message}).to_string();
    assert_eq!(kill(&json).selected[0].pid, Some(Pid(1487)));
}

#[test]
fn raylet_lines_about_workers_are_parsed() {
    let says = |text: &str| {
        one(
            FileKind::Raylet,
            &format!("[2026-11-21 00:40:26,003 I 1515 1515] (raylet) node_manager.cc:1: {text}"),
        )
    };
    // ≤ 2.51
    assert_eq!(
        says("Started worker process with pid 20741, the token is 7"),
        RayFact::WorkerStarted {
            pid: Pid(20741),
            worker_id: None,
            token: Some(7)
        }
    );
    // ≤ 2.35
    assert!(matches!(
        says(
            "NodeManager::DisconnectClient, disconnect_type=4, has creation task exception = false"
        ),
        RayFact::Disconnected {
            worker_id: None,
            exit_type: ExitType::NodeOutOfMemory,
            graceful: None,
            ..
        }
    ));
    // ≥ 2.54
    assert_eq!(
        says("Killing leased worker because its owner died. worker_id=ab owner_worker_id=cd"),
        RayFact::OwnerDied {
            worker_id: HexId("ab".into()),
            owner_worker_id: HexId::parse("cd"),
            reason: "owner died".into()
        }
    );
    assert_eq!(
        says("Killing leased worker because its job finished. worker_id=ab job_id=01000000"),
        RayFact::OwnerDied {
            worker_id: HexId("ab".into()),
            owner_worker_id: None,
            reason: "job finished".into()
        }
    );
    // 2.9
    assert_eq!(
        says("The leased worker ab is killed because the owner process cd died."),
        RayFact::OwnerDied {
            worker_id: HexId("ab".into()),
            owner_worker_id: HexId::parse("cd"),
            reason: "owner died".into()
        }
    );
    assert_eq!(
        says("Force exiting worker whose job has exited ab"),
        RayFact::JobFinished {
            worker_id: HexId("ab".into())
        }
    );
    assert_eq!(
        says("Received KillLocalActor RPC worker_id=ab actor_id=cd"),
        RayFact::KillActorRequested {
            worker_id: HexId("ab".into()),
            actor_id: HexId::parse("cd")
        }
    );
    assert_eq!(
        says("Worker with PID=42 did not exit after 5000ms, force killing with SIGKILL."),
        RayFact::ForceKilled { pid: Pid(42) }
    );
    assert_eq!(
        says("Stop: sending SIGKILL to pgid=1649 worker_id=ab"),
        RayFact::StopSignal {
            process_group: Pid(1649),
            worker_id: HexId::parse("ab"),
            signal: 9
        }
    );
    assert_eq!(
        says("DisconnectClient: sending SIGTERM to pgid=1487 worker_id=ab"),
        RayFact::GroupTerminated {
            process_group: Pid(1487),
            worker_id: HexId::parse("ab")
        }
    );
    assert_eq!(
        says("Worker evicted and process killed to reclaim memory. worker pid: 20835 task: daf6"),
        RayFact::MonitorEvicted {
            pid: Pid(20835),
            worker_id: None
        }
    );
}

#[test]
fn unregistered_worker_is_alive_or_dead() {
    let says = |text: &str| {
        one(
            FileKind::Raylet,
            &format!("[2026-11-21 00:40:26,003 E 1515 1515] (raylet) worker_pool.cc:1: {text}"),
        )
    };
    assert_eq!(
        says("Some workers of the worker process(77) have not registered within the timeout."),
        RayFact::NotRegistered {
            pid: Pid(77),
            alive: true
        }
    );
    assert_eq!(
        says(
            "Some workers of the worker process(77) have not registered within the timeout. The process is dead, probably it crashed during start."
        ),
        RayFact::NotRegistered {
            pid: Pid(77),
            alive: false
        }
    );
}

#[test]
fn raylet_lines_about_the_node_are_parsed() {
    let says = |text: &str| {
        one(
            FileKind::Raylet,
            &format!("[2026-11-21 00:40:26,003 E 1515 1515] (raylet) main.cc:1: {text}"),
        )
    };
    assert_eq!(
        says("received SIGTERM. Existing local drain request = None"),
        RayFact::RayletSigterm
    );
    assert_eq!(
        says(
            "The raylet exited immediately because one Ray agent failed, agent_name = dashboard_agent."
        ),
        RayFact::AgentFailed {
            agent: "dashboard_agent".into()
        }
    );
    assert_eq!(
        says(
            "ThresholdMemoryMonitor initialized with usage threshold at 2147483648 bytes (50.000000% of system memory), total system memory bytes: 4294967296, monitor interval: 250ms"
        ),
        RayFact::MonitorStarted {
            threshold: Bytes(2_147_483_648),
            total: Bytes(4_294_967_296),
            interval_ms: Some(250),
            user_slice_only: false
        }
    );
    assert_eq!(
        says(
            "MemoryMonitor initialized with usage threshold at 4971888128 bytes (0.20 system memory), total system memory bytes: 25276502016"
        ),
        RayFact::MonitorStarted {
            threshold: Bytes(4_971_888_128),
            total: Bytes(25_276_502_016),
            interval_ms: None,
            user_slice_only: false
        }
    );
    assert_eq!(
        says(
            "ThresholdMemoryMonitor disabled. Specify `RAY_memory_monitor_refresh_ms` > 0 to enable the monitor."
        ),
        RayFact::MonitorDisabled
    );
    assert_eq!(
        says(
            "3 Workers (tasks / actors) killed due to memory pressure (OOM), 2 Workers crashed due to other reasons at node"
        ),
        RayFact::Summary {
            memory: 3,
            other: 2
        }
    );
}

#[test]
fn worker_log_reports_only_its_own_end() {
    let text = "[2026-11-21 00:07:00,000 I 28161 28200] raylet_ipc_client.cc:133: RayletIpcClient::Disconnect, exit_type=INTENDED_SYSTEM_EXIT, exit_detail=Worker exits because the actor is killed. The actor is dead because it was killed by `ray.kill`., has creation_task_exception_pb_bytes=0";
    let RayFact::SelfDisconnect {
        exit_type,
        detail,
        worker_id,
    } = one(FileKind::CoreWorker, text)
    else {
        panic!()
    };
    assert_eq!(
        (exit_type, worker_id),
        (ExitType::IntendedSystemExit, HexId::parse("aa"))
    );
    assert!(detail.ends_with("killed by `ray.kill`."));
    assert!(facts(FileKind::CoreWorker, KILL_260).is_empty());
    assert!(facts(FileKind::WorkerOutput, KILL_260).is_empty());
}

#[test]
fn owner_log_says_whether_a_task_is_retried() {
    let text = "[2026-11-21 07:06:56,963 I 21306 21468] core_worker.cc:5147: Will resubmit task after a 0ms delay: Type=NORMAL_TASK, Language=PYTHON, task_id=c8ef, task_name=f, job_id=01000000, num_args=2\n[2026-11-21 07:07:01,604 I 21306 21468] task_manager.cc:1649: Task failed: RpcError: RPC error: Socket closed rpc_code: 14: Type=NORMAL_TASK, task_id=f91b, task_name=g, job_id=01000000, num_args=0";
    let fates: Vec<_> = facts(FileKind::CoreWorker, text)
        .into_iter()
        .map(|fact| match fact {
            RayFact::TaskFailed {
                will_retry,
                task_name,
                job_id,
                ..
            } => (will_retry, task_name, job_id),
            other => panic!("{other:?}"),
        })
        .collect();
    let job = HexId::parse("01000000");
    assert_eq!(
        fates,
        [
            (Some(true), Some("f".into()), job.clone()),
            (Some(false), Some("g".into()), job)
        ]
    );
}

#[test]
fn gcs_log_says_whether_an_actor_restarts() {
    for (restarts, state) in [(1, "RESTARTING"), (0, "DEAD")] {
        let text = format!(
            "[2026-11-21 07:06:59,457 I 21307 21307] (gcs_server) gcs_actor_manager.cc:1515: Actor is failed on worker 593a at node ab18, need_reschedule = 1, death context type = ActorDiedErrorContext, remaining_restarts = {restarts}, num_restarts = 0 job_id=01000000 actor_id=9eb5"
        );
        let RayFact::ActorState {
            state: found,
            worker_id,
            ..
        } = one(FileKind::Gcs, &text)
        else {
            panic!()
        };
        assert_eq!((found.as_str(), worker_id), (state, HexId::parse("593a")));
    }
}

#[test]
fn exception_and_markers_are_read_from_output() {
    assert_eq!(
        one(FileKind::WorkerOutput, ":actor_name:Rollout"),
        RayFact::Marker {
            name: "actor_name".into(),
            value: "Rollout".into(),
            worker_id: HexId::parse("aa")
        }
    );
    let text = "Traceback (most recent call last):\n  File \"x.py\", line 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\nnot an error: really";
    let RayFact::Exception { class, message, .. } = one(FileKind::WorkerOutput, text) else {
        panic!()
    };
    assert_eq!(class, "torch.OutOfMemoryError");
    assert!(message.starts_with("CUDA out of memory"));
    let text = "[rank1]:[E1120 09:14:03.117 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81)";
    let RayFact::Exception { class, message, .. } = one(FileKind::WorkerOutput, text) else {
        panic!()
    };
    assert_eq!(class, "NCCL");
    assert!(message.starts_with("Watchdog caught"), "{message}");
}

proptest::proptest! {
    #[test]
    fn any_text_is_parsed_without_panic(lines in proptest::collection::vec(".{0,200}", 0..20), cut in 0usize..3000) {
        let end = (0..=cut.min(KILL_260.len())).rev().find(|at| KILL_260.is_char_boundary(*at)).unwrap_or(0);
        for kind in [FileKind::Raylet, FileKind::Gcs, FileKind::CoreWorker, FileKind::WorkerOutput] {
            let _ = facts(kind, &KILL_260[..end]);
            let _ = facts(kind, &lines.join("\n"));
        }
    }
}

#[test]
fn every_canary_message_is_in_a_grammar() {
    #[derive(serde::Deserialize)]
    struct Message {
        text: String,
    }
    let messages: Vec<Message> =
        serde_json::from_str(include_str!("messages.json")).expect("messages.json");
    let grammars = [
        include_str!("monitor_kill.rs"),
        include_str!("message.rs"),
        include_str!("mod.rs"),
        include_str!("../../judge/cause/request.rs"),
        include_str!("../words.rs"),
        include_str!("words.json"),
        include_str!("../../../../src/explain/ray_exit.rs"),
        include_str!("../../catalogue/programs/ray.json"),
    ];
    for message in messages {
        let looked_for = grammars
            .iter()
            .any(|grammar| grammar.contains(&message.text));
        assert!(looked_for, "{}", message.text);
    }
}

/// The record is still reported.
#[test]
fn unknown_kill_record_selects_nobody() {
    let line = "[2026-11-21 00:12:30,731 I 2600 2600] (raylet) node_manager.cc:3112: Killing 2 worker(s), kill details: Node memory 4.37 of 23.54 GiB; victims: 11/ab01, 12/ab02; suggestions: Refer to the documentation";
    let mut parser = LogParser::new(FileKind::Raylet, None);
    let mut out = Vec::new();
    parser.push(line, &mut out);
    parser.flush(&mut out);
    let [record] = out.as_slice() else {
        panic!("{out:?}");
    };
    let RayFact::MonitorKill(kill) = &record.fact else {
        panic!("{record:?}");
    };
    assert!(!kill.is_understood(), "{kill:?}");
    assert_eq!(kill.used, None);
}

#[test]
fn long_ids_before_names_are_left_out() {
    let lease = "02".repeat(32);
    let node = "ab".repeat(28);
    assert_eq!(
        monitor_kill::without_ids(&format!(
            "Selected to kill: (Task: lease ID={lease}, task name=f"
        )),
        "Selected to kill: (Task: lease ID=…, task name=f"
    );
    assert_eq!(
        monitor_kill::without_ids(&format!(
            "(IP: 192.0.2.2, ID: {node}) where the task (task ID: {}, name=f",
            "0d".repeat(24)
        )),
        "(IP: 192.0.2.2, ID: …) where the task (task ID: …, name=f"
    );
    let worker = format!("Ray killed this worker (ID: {node})");
    assert_eq!(monitor_kill::without_ids(&worker), worker);
}
