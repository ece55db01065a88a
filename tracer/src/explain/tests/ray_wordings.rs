//! Tests wordings of Ray that only some versions have, or that say less than they seem to.

use super::{killers, of, only};
use crate::{
    event::Role,
    ids::Pid,
    judge::{
        cause::Cause,
        missing::Missing,
        report::{Death, Killer},
    },
    show::clause,
};

fn says(text: &str) -> String {
    clause::summary(only(&of(text)))
}

/// Returns the block of a dead actor with these fields, and the reason below it.
fn block(fields: &[&str], reason: &str) -> String {
    let fields = fields.join("\n\t");
    format!("The actor died unexpectedly before finishing this task.\n\t{fields}\n{reason}\n")
}

const ACTOR: &str = "actor_id: 11111111111111111111111101000000";

#[test]
fn actor_without_address_is_one_death_with_its_reason() {
    let owner = "The actor is dead because its owner has died. Owner Id: 01000000ff";
    let exit = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits with an exit code 7.";
    let namespace = "namespace: 0a0a0a0a-1111-2222-3333-444444444444";
    for fields in [
        vec!["class_name: Counter", ACTOR],
        vec!["class_name: Counter", ACTOR, namespace],
        vec!["class_name: Counter", ACTOR, "pid: 926", namespace],
        vec!["class_name: Counter", ACTOR, "pid: 926", "name: counter"],
        vec!["class_name: Counter", ACTOR, "pid: 926", "ip: 192.0.2.2"],
    ] {
        let report = of(&block(&fields, owner));
        let death = only(&report);
        assert_eq!(death.verdict.killer, Killer::RayCollapse, "{fields:?}");
        assert_eq!(death.work.actor_class.as_deref(), Some("Counter"));
        let report = of(&block(&fields, exit));
        assert_eq!(only(&report).verdict.killer, Killer::Exit, "{fields:?}");
    }
}

#[test]
fn system_exit_may_follow_a_sigterm() {
    let exit = |code: &str| {
        let reason = format!(
            "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code {code}."
        );
        block(&["class_name: Counter", ACTOR, "ip: 192.0.2.2"], &reason)
    };
    let guess = " The worker may have exceeded K8s pod memory limits.";
    for (code, words) in [
        (
            "None",
            "left by SystemExit without a code, on its own or after SIGTERM",
        ),
        ("15", "exited with code 15, most likely after SIGTERM"),
        ("143", "exited with code 143, most likely after SIGTERM"),
    ] {
        let report = of(&exit(code));
        let death = only(&report);
        assert_eq!(death.verdict.killer, Killer::Unknown, "{code}");
        assert_eq!(death.verdict.missing, Some(Missing::Sigterm));
        assert!(clause::summary(death).ends_with(words), "{code}");
        let report = of(&exit(code).replace(".\n", &format!(".{guess}\n")));
        assert_eq!(
            only(&report).verdict.missing,
            Some(Missing::SigtermInPod),
            "{code}"
        );
    }
    for code in ["1", "7", "no such file"] {
        assert_eq!(
            only(&of(&exit(code))).verdict.killer,
            Killer::Exit,
            "{code}"
        );
    }
}

#[test]
fn death_notices_of_ray_1_name_the_worker() {
    let task = |actor: char| {
        let actor = actor.to_string().repeat(24);
        format!(
            "2021-02-03 08:22:50,411\tWARNING worker.py:1085 -- A worker died or was killed while executing task ffffffffffffffff{actor}01000000.\n"
        )
    };
    let report = of(&[task('a'), task('b'), task('b')].concat());
    let actor = |death: &Death| death.work.actor_id.clone().map(|id| id.0);
    let actors: Vec<_> = report.deaths.iter().filter_map(actor).collect();
    assert_eq!(actors.len(), 2);
    assert_eq!(killers(&report), [(0, Killer::Unknown); 2]);
    // Where the task is no actor's, somebody ended all the same.
    let plain = "A worker died or was killed while executing task 0a0a0a0a0a0a0a0affffffffffffffffffffffff01000000.";
    assert_eq!(killers(&of(plain)), [(0, Killer::Unknown)]);
    let notice = format!(
        "2021-09-05 13:40:52,522\tWARNING worker.py:1215 -- A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. RayTask ID: {} Worker ID: {} Node ID: {} Worker IP address: 192.0.2.2 Worker port: 10005 Worker PID: 4101",
        "c3".repeat(24),
        "a1".repeat(28),
        "b2".repeat(28),
    );
    let wrapped: Vec<&str> = notice
        .as_bytes()
        .chunks(116)
        .filter_map(|part| std::str::from_utf8(part).ok())
        .collect();
    for text in [notice.clone(), wrapped.join("\n") + "\nTraceback\n"] {
        let report = of(&text);
        assert_eq!(killers(&report), [(4101, Killer::Unknown)], "{text}");
    }
}

#[test]
fn old_raylets_say_that_they_were_marked_dead() {
    let line = "F0102 10:11:12.131415   611   612 node_manager.cc:650]  Check failed: node_id != self_node_id_ Exiting because this node manager has mistakenly been marked dead by the monitor.";
    for (text, pid) in [
        (line.to_owned(), 611),
        (format!("(pid=raylet, ip=192.0.2.2) {line}"), 611),
    ] {
        let report = of(&text);
        assert_eq!(killers(&report), [(pid, Killer::RayCollapse)], "{text}");
        let death = only(&report);
        assert_eq!(death.process.role, Role::Raylet);
        assert!(matches!(death.verdict.cause, Cause::NodeDead { .. }));
    }
}

#[test]
fn monitor_of_ray_2_0_kills_the_newest_task() {
    let line = |whom: &str| {
        format!(
            "(raylet, ip=192.0.2.2) [2022-08-29 15:18:33,592 E 307 344] (raylet) node_manager.cc:2963: System memory low at node with IP 192.0.2.2. Used memory (6.00GB) / total capacity (8.00GB) (0.75) exceeds threshold 0.7, killing latest task with name {whom} to avoid running out of memory.\n"
        )
    };
    let actor = line("counter:Counter.__init__ and actor ID 11111111111111111111111101000000");
    let report = of(&actor);
    let death = only(&report);
    assert_eq!(death.verdict.killer, Killer::RayMemoryMonitor);
    assert_eq!(death.work.actor_class.as_deref(), Some("Counter"));
    assert!(death.work.actor_id.is_some());
    let at_death = death.memory.at_death.as_ref().expect("figures");
    assert_eq!(at_death.ray_used_bytes.map(|used| used.0), Some(6 << 30));
    let task = "sum:('part-3', 586) and more and task ID NIL_ID";
    let report = of(&line(task));
    let death = only(&report);
    assert_eq!(death.verdict.killer, Killer::RayMemoryMonitor);
    assert_eq!(
        death.work.task_name.as_deref(),
        Some("sum:('part-3', 586) and more")
    );
    assert_eq!(death.work.actor_id, None);
    // A cut line does not say that Ray kills for memory.
    let cut = actor.split(", killing").next().unwrap_or_default();
    assert_eq!(of(cut).deaths, []);
}

#[test]
fn older_wording_of_a_dead_node_is_read() {
    let text = "E   ray.exceptions.NodeDiedError: Task failed due to the node (where this task was running)  was dead or unavailable.\nE   \nE   The node IP: 192.0.2.2, node ID: b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2\nE   \nE   This can happen if the instance where the node was running failed, the node was preempted, or raylet crashed unexpectedly (e.g., due to OOM) etc.\n";
    let report = of(text);
    assert!(matches!(
        only(&report).verdict.cause,
        Cause::NodeDead { .. }
    ));
}

#[test]
fn old_signal_handler_names_the_sender() {
    let line = |signal: &str, origin: &str| {
        format!(
            "(pid=raylet, ip=192.0.2.2) *** {signal} (@{origin}) received by PID 611 (TID 0x7f1b74258800) from PID 4113; stack trace: ***"
        )
    };
    let report = of(&line("SIGTERM", "0x3e800001011"));
    let death = only(&report);
    assert_eq!(death.process.role, Role::Raylet);
    assert_eq!(death.process.pid, Pid(611));
    assert_eq!(
        clause::summary(death),
        "raylet (pid 611) was terminated by SIGTERM from a process (pid 4113, uid 1000)"
    );
    // What is no place in `siginfo_t` names no user.
    let report = of(&line("SIGTERM", "0x7f0000000000"));
    let Cause::Signal { sender, .. } = &only(&report).verdict.cause else {
        panic!("{report:?}");
    };
    assert_eq!(sender.as_ref().and_then(|sender| sender.uid), None);
    // For a fault it is the address.
    let report = of(&line("SIGSEGV", "0x3e800001011"));
    assert_eq!(killers(&report), [(611, Killer::Crash)]);
}

#[test]
fn actor_of_a_preempted_node_is_a_listed_death() {
    let reason = format!(
        "The actor died because its node has died. Node Id: {}\n\tthe actor's node was preempted: spot instance reclaimed",
        "b2".repeat(28)
    );
    let text = block(
        &["class_name: Counter", ACTOR, "pid: 926", "ip: 192.0.2.2"],
        &reason,
    );
    let report = of(&text);
    assert!(only(&report).listed);
    assert_eq!(
        says(&text),
        "Counter (pid 926) ended with its node, which was preempted: spot instance reclaimed"
    );
}

#[test]
fn owner_of_a_lost_object_may_be_a_driver() {
    let text = |owner: &str| {
        format!(
            "The object's owner has exited. This is the Python worker that first created the ObjectRef via `.remote()` or `ray.put()`. Check cluster logs (`/tmp/ray/session_latest/logs/*{owner}*` at IP address 192.0.2.2) for more information about the Python worker failure."
        )
    };
    let report = of(&text(&format!("07000000{}", "f".repeat(48))));
    let death = only(&report);
    assert_eq!(death.process.role, Role::Driver);
    assert_eq!(
        death.work.job_id.as_ref().map(|id| id.0.as_str()),
        Some("07000000")
    );
    assert_eq!(death.verdict.missing, Some(Missing::NormalEnd));
    let report = of(&text(&"a1".repeat(28)));
    assert_eq!(only(&report).process.role, Role::Worker);
}

#[test]
fn timeout_of_nccl_keeps_its_operation_and_rank() {
    let text = "(Trainer pid=744, ip=192.0.2.2) [2024-12-24 23:47:14,381 E 744 4620] logging.cc:101: Unhandled exception: N3c1016DistBackendErrorE. what(): [PG ID 0 PG GUID 0(default_pg) Rank 6] Process group watchdog thread terminated with exception: [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=524288, NumelOut=8388608, Timeout(ms)=600000) ran for 600017 milliseconds before timing out.";
    assert_eq!(
        says(text),
        "Trainer (pid 744) crashed: NCCL ended the process: ALLREDUCE (SeqNum 7) timed out after 600017 ms of 600000, rank 6"
    );
}

#[test]
fn actor_ends_with_the_node_that_was_declared_dead() {
    let node = |time: &str, ip: &str| {
        format!(
            "2022-02-15 16:53:{time}\tWARNING worker.py:1462 -- The node with node id: {} and ip: {ip} has been marked dead because the detector has missed too many heartbeats from it. This can happen when a raylet crashes unexpectedly or has lagging heartbeats.\n",
            "b2".repeat(28)
        )
    };
    let actor = "2022-02-15 16:53:52,097\tERROR utils.py:42 -- ".to_owned()
        + &block(
            &["class_name: Counter", ACTOR, "pid: 926", "ip: 192.0.2.2"],
            "The actor is dead because it",
        );
    let killer = |text: String| only(&of(&text)).verdict.killer;
    assert_eq!(
        killer(node("52,096", "192.0.2.2") + &actor),
        Killer::RayCollapse
    );
    assert_eq!(
        killer(node("52,096", "192.0.2.3") + &actor),
        Killer::Unknown
    );
    assert_eq!(
        killer(node("02,096", "192.0.2.2") + &actor),
        Killer::Unknown
    );
}

#[test]
fn small_victim_did_not_fill_the_memory() {
    let kill = |held: &str| {
        format!(
            "Memory on the node (IP: 192.0.2.2, ID: {}) where the task (task ID: {}, name=sample, pid=4101, memory used={held}GB) was running was 219.41GB / 230.40GB (0.952289), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: {}) because it was the most recently scheduled task",
            "b2".repeat(28),
            "c3".repeat(24),
            "a1".repeat(28),
        )
    };
    let small = |held: &str| only(&of(&kill(held))).memory.small_victim();
    let used = small("0.05").map(|(_, used)| used.gib());
    assert!(used.is_some_and(|used| (219.0..220.0).contains(&used)));
    assert_eq!(small("102.5"), None);
}

#[test]
fn kill_by_the_monitor_of_ray_2_1_is_that_of_the_actor_whose_block_ends_with_it() {
    let reason = "The actor is dead because its worker process has died. Worker exit type: USER_ERROR Worker exit detail: Task was killed due to the node running low on memory.\n\nMemory on the node (IP: 192.0.2.2, ID: 88888888888888888888888888888888888888888888888888888888) where the task was running was 30.03GB / 30.89GB (0.972053), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 22222222222222222222222222222222222222222222222222222222) because it was the most recently scheduled task";
    let fields = ["class_name: Counter", ACTOR, "pid: 926", "ip: 192.0.2.2"];
    let report = of(&block(&fields, reason));
    let death = only(&report);
    assert_eq!(death.verdict.killer, Killer::RayMemoryMonitor);
    assert_eq!(death.process.pid, Pid(926));
    let counted = death
        .memory
        .at_death
        .as_ref()
        .and_then(|at| at.ray_used_bytes);
    assert!(counted.is_some());
}

#[test]
fn node_of_a_death_is_named_by_its_address() {
    let actor = |ip: &str| {
        let reason = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits with an exit code 7.";
        of(&block(
            &["class_name: Counter", ACTOR, "pid: 926", ip],
            reason,
        ))
    };
    let crash =
        "(Rollout pid=4101, ip=192.0.2.2) *** SIGSEGV received at time=1795220628 on cpu 3 ***";
    let by_raylet = "(raylet, ip=192.0.2.2) [2026-11-21 00:11:38,555 E 611 611] (raylet) worker_pool.cc:586: Some workers of the worker process(4101) have not registered within the timeout. The process is dead, probably it crashed during start.";
    for report in [
        actor("ip: 192.0.2.2"),
        actor("ip: [192.0.2.2](http://192.0.2.2/)"),
        of(crash),
        of(by_raylet),
    ] {
        assert_eq!(only(&report).node.as_deref(), Some("192.0.2.2"));
    }
    for ip in ["ip: 0.0.0.0", "ip: 127.0.0.1", "ip: xxx.xxx.xxx.xxx"] {
        assert_eq!(only(&actor(ip)).node, None, "{ip}");
    }
}

#[test]
fn node_that_old_ray_marked_dead_is_noted() {
    let text = "2020-09-14 16:15:29,466\tWARNING worker.py:1070 -- The node with node id 1111111111111111111111111111111111111111 has been marked dead because the detector has missed too many heartbeats from it.";
    let notes = of(text).notes.join("\n");
    assert!(notes.contains("declared node 11111111 ("), "{notes}");
}

#[test]
fn crash_is_told_with_the_first_function_that_says_where() {
    let speaker = "(Rollout pid=4101, ip=192.0.2.2) ";
    let absl = [
        "*** SIGSEGV received at time=1795220628 on cpu 3 ***",
        "PC: @     0x7f0df1bddaab  (unknown)  __pthread_clockjoin_ex",
        "    @     0x7f0df1c3a090  (unknown)  (unknown)",
        "    @     0x7f0df00cc471         32  std::_Function_handler<>::_M_invoke()",
        "    @     0x7f0df0a1bc12         96  (anonymous namespace)::Sampler::Step()",
        "    @     0x7f0df009e6fd        240  Rollout::Run()",
    ];
    let told = "SIGSEGV in (anonymous namespace)::Sampler::Step()";
    let spoken: Vec<String> = absl.map(|line| format!("{speaker}{line}")).to_vec();
    assert!(says(&spoken.join("\n")).ends_with(told));
    assert!(says(&absl.join("\n")).ends_with(told));
    let glog = [
        "*** SIGSEGV (@0x88) received by PID 4101 (TID 0x7f73221f3700) from PID 136; stack trace: ***",
        "    @     0x7f732daef630 (unknown)",
        "    @     0x7f7325ede934 __redisAsyncCommand",
    ];
    let glog: Vec<String> = glog.map(|line| format!("{speaker}{line}")).to_vec();
    let glog = glog.join("\n");
    assert!(says(&glog).ends_with("SIGSEGV in __redisAsyncCommand"));
    let far = format!("{}\n{}", absl[5], "\n".repeat(80));
    assert!(says(&format!("{far}{}", absl[0])).ends_with("SIGSEGV"));
}

#[test]
fn abort_under_nccls_watchdog_is_not_the_first_cause() {
    let frame = "(Rollout pid=4101) /opt/torch/lib/libtorch_cuda.so(+0xe0845a) [0x7f9a817d745a] c10d::ProcessGroupNCCL::ncclCommWatchdog()";
    let abort = "(Rollout pid=4101) *** SIGABRT received at time=1795220628 on cpu 3 ***\n(Rollout pid=4101) PC: @     0x7fa2fd6ed387  (unknown)  raise";
    let report = of(&format!("{frame}\n{abort}"));
    let verdict = &only(&report).verdict;
    assert_eq!(
        verdict.cause.untold(),
        Some("whether another rank had ended before")
    );
    let printed = "(Rollout pid=4101) frame #3: c10d::ProcessGroupNCCL::ncclCommWatchdog() + 0x14d (0x7f553a15893d in /opt/torch/lib/libtorch_cuda.so)";
    let lost = "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. RayTask ID: ffffffffffffffff11111111111111111111111101000000 Worker ID: 22222222222222222222222222222222222222222222222222222222 Node ID: 88888888888888888888888888888888888888888888888888888888 Worker IP address: 192.0.2.2 Worker port: 10002 Worker PID: 4101 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.";
    assert_eq!(
        only(&of(&format!("{printed}\n{lost}"))).verdict.killer,
        Killer::Crash
    );
}

#[test]
fn kill_that_ray_only_counts_is_on_the_node_of_the_count() {
    let text = "(raylet) [2026-11-21 00:11:38,555 E 611 611] (raylet) node_manager.cc:3035: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 88888888888888888888888888888888888888888888888888888888, IP: 192.0.2.2) over the last time period.";
    let report = of(text);
    assert_eq!(only(&report).node.as_deref(), Some("192.0.2.2"));
    let notes = report.notes.join("\n");
    assert!(
        notes.contains("no line of these logs names the worker that it killed"),
        "{notes}"
    );
}

#[test]
fn kill_that_slurm_counts_may_be_the_sudden_end_beside_it() {
    let lost = "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. RayTask ID: 111111111111111111111111111111111111111101000000 Worker ID: 22222222222222222222222222222222222222222222222222222222 Node ID: 88888888888888888888888888888888888888888888888888888888 Worker IP address: 0.0.0.0 Worker port: 10002 Worker PID: 4101 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.";
    let slurm = "slurmstepd: error: Detected 1 oom_kill event in StepId=4178213.batch. Some of the step tasks have been OOM Killed.";
    let notes = of(&format!("{lost}\n{slurm}")).notes.join("\n");
    assert!(
        notes.contains("1 sudden end and 1 kill for memory without a named victim"),
        "{notes}"
    );
}

#[test]
fn handler_of_sigterm_in_a_traceback_tells_of_the_signal() {
    let text = "(pid=4101)   File \"/opt/lib/python3.6/site-packages/ray/worker.py\", line 423, in sigterm_handler\n(pid=4101)     sys.exit(1)\n(pid=4101) SystemExit: 1";
    let report = of(text);
    assert_eq!(only(&report).end.signal, Some(libc::SIGTERM));
    assert_eq!(only(&report).process.pid, Pid(4101));
}

#[test]
fn change_of_a_document_that_quotes_ray_is_no_death() {
    let text = "+.. code-block:: bash\n+\n+  Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.";
    assert!(of(text).deaths.is_empty());
}

#[test]
fn record_of_glog_that_ends_its_process_is_read() {
    let record = |head: &str| {
        format!(
            "{head}node_manager.cc:3094]  Check failed: node_info no info for a node\n*** Check failure stack trace: ***"
        )
    };
    let report = of(&record(
        "(pid=raylet, ip=192.0.2.2) F0505 18:21:58.604787  7485 ",
    ));
    let death = only(&report);
    assert_eq!(death.process.role, Role::Raylet);
    // The only number is the thread's.
    assert_eq!(death.process.pid, Pid(0));
    assert_eq!(death.node.as_deref(), Some("192.0.2.2"));
    assert_eq!(
        death.when.stamp.as_deref(),
        Some("May 5 18:21:58 (no year)")
    );
    assert!(clause::summary(death).ends_with("its own check failed: node_info no info for a node"));
    let report = of(&record("F0505 18:21:58.604787  611  612 "));
    assert_eq!(killers(&report), [(611, Killer::Crash)]);
    let abort = "*** SIGABRT (@0x3e800000610) received by PID 1552 (TID 0x7fd4dfee0740) from PID 1552; stack trace: ***";
    let report = of(&format!(
        "{}\n{abort}",
        record("F0505 18:21:58.604787  1552 ")
    ));
    assert_eq!(killers(&report), [(1552, Killer::Crash)]);
    // A warning goes on.
    assert!(
        of(&record("E0505 18:21:58.604787  611  612 "))
            .deaths
            .is_empty()
    );
}

#[test]
fn raylet_that_an_agent_reports_is_on_its_node() {
    let line = |ip: &str, digit: &str| {
        format!(
            "2022-12-20 22:02:13,602\tERROR agent.py:217 -- Raylet is terminated: ip={ip}, id={}. Termination is unexpected. Possible reasons include: (1) SIGKILL by the user or system OOM killer. Last 20 lines of the Raylet logs:\n    [2022-12-20 22:02:10,000 I 946 946] (raylet) accessor.cc:611: Received notification\n",
            digit.repeat(56)
        )
    };
    let report = of(&line("192.0.2.2", "a"));
    let death = only(&report);
    assert_eq!(death.node.as_deref(), Some("192.0.2.2"));
    assert_eq!(death.process.pid, Pid(946));
    let both = of(&[
        line("192.0.2.2", "a"),
        line("192.0.2.3", "b").replace("946", "947"),
    ]
    .concat());
    let pids: Vec<_> = both.deaths.iter().map(|one| one.process.pid.0).collect();
    assert_eq!(pids, [946, 947]);
    let frame = "    /opt/ray/core/src/ray/raylet/raylet(+0x407243) [0x559dcf1fd243] ray::raylet::WorkerPool::StartNewWorker()\n";
    let first = line("192.0.2.2", "a");
    let (first, _) = first.split_once('\n').expect("two lines");
    assert_eq!(
        killers(&of(&format!("{first}\n{frame}"))),
        [(0, Killer::Crash)]
    );
}

#[test]
fn record_behind_a_progress_bar_is_read() {
    let bar = "Chaos:  24%|███      | 124/500 [00:22<02:21,  2.65it/s]";
    let check = "(raylet) [2021-10-25 05:34:10,286 C 4101 4110] plasma_store_provider.cc:73:  Check failed: _s.ok() Bad status: IOError: Broken pipe";
    let report = of(&format!("{bar}{check}"));
    let death = only(&report);
    assert_eq!(killers(&report), [(4101, Killer::Crash)]);
    // A worker without a job printed it.
    assert_ne!(death.process.role, Role::Raylet);
    assert!(of(&format!("{bar} of the check {check}")).deaths.is_empty());
}

#[test]
fn colour_whose_escape_was_lost_is_removed() {
    let text =
        "\u{fffd}[36m(Rollout pid=4101)\u{fffd}[0m Fatal Python error: Floating point exception";
    assert_eq!(killers(&of(text)), [(4101, Killer::Crash)]);
}

#[test]
fn signal_that_is_dated_twice_gives_the_zone() {
    let line = |time: &str| {
        format!(
            "[2026-11-21 08:23:48,683 E 4101 4101] logging.cc:361: *** SIGSEGV received at time={time} on cpu 22 ***"
        )
    };
    let report = of(&line("1795220628"));
    assert_eq!(report.texts[0].utc_offset_s, Some(8 * 3600));
    let time = only(&report)
        .when
        .time
        .map(|time| time.0.timestamp().to_string());
    assert_eq!(time.as_deref(), Some("2026-11-21T00:23:48.683Z"));
    assert_eq!(of(&line("1795220000")).texts[0].utc_offset_s, None);
}

#[test]
fn node_that_ray_of_2018_marked_dead_is_noted() {
    let text = "The node with client ID 1111111111111111111111111111111111111111 has been marked dead because the monitor has missed too many heartbeats from it.";
    let notes = of(text).notes.join("\n");
    assert!(notes.contains("declared node 11111111 ("), "{notes}");
}

#[test]
fn worker_that_could_not_register_exited() {
    let text = "(raylet, ip=192.0.2.2) [2022-08-23 13:57:56,354 E 4101 4101] core_worker.cc:137: Failed to register worker a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 to Raylet. Invalid: Invalid: No available ports.";
    let report = of(text);
    assert_eq!(killers(&report), [(4101, Killer::Exit)]);
    let death = only(&report);
    assert_ne!(death.process.role, Role::Raylet);
    assert_eq!(death.node.as_deref(), Some("192.0.2.2"));
}

#[test]
fn stack_of_a_terminated_process_is_a_crash() {
    let stack = "(Rollout pid=4101) [2025-05-19 04:35:55,872 E 4101 4120] logging.cc:119: Stack trace: \n(Rollout pid=4101)  /opt/ray/_raylet.so(+0x13aa76a) [0x7f384831576a] ray::operator<<()";
    assert_eq!(killers(&of(stack)), [(4101, Killer::Crash)]);
    let thrown = "(Rollout pid=4101) [2025-05-19 04:35:55,870 E 4101 4120] logging.cc:112: Unhandled exception: St9bad_alloc. what(): std::bad_alloc";
    let told = says(&format!("{thrown}\n{stack}"));
    assert!(
        told.ends_with("unhandled C++ exception: std::bad_alloc"),
        "{told}"
    );
}

#[test]
fn actor_whose_constructor_failed_has_its_class() {
    let text = "(PPO pid=18404) 2023-07-28 17:53:23,335 ERROR actor_manager.py:500 -- Ray error, taking actor 4 out of service. The actor died because of an error raised in its creation task, ray::Sampler.__init__() (pid=8848, ip=192.0.2.2, actor_id=11111111111111111111111101000000, repr=<x>)";
    let report = of(text);
    assert_eq!(only(&report).work.actor_class.as_deref(), Some("Sampler"));
}
