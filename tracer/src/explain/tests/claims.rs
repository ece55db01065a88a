//! Tests what single lines claim, and lines that only look like a claim.

use super::{explain, killers, only};
use crate::{
    event::Role,
    judge::{cause::Cause, missing::Missing, report::Killer},
    show::clause,
};

/// Returns what the driver says about the end of the worker in these texts.
fn actor(detail: &str) -> String {
    format!(
        "\
The actor died unexpectedly before finishing this task.
\tclass_name: Rollout
\tactor_id: 11111111111111111111111101000000
\tpid: 926
\tip: 192.0.2.2
The actor is dead because its worker process has died. Worker exit type: {detail}"
    )
}

#[test]
fn oom_killed_false_is_no_death() {
    for line in [
        r#"            "OOMKilled": false,"#,
        r#"            "OOMKilled" : false,"#,
        r#"{"OOMKilled":false}"#,
    ] {
        let report = explain(&[("inspect.txt", line)]);
        assert_eq!(report.deaths, [], "{line}");
    }
    for line in [
        r#"            "OOMKilled": true,"#,
        r#"                "reason": "OOMKilled","#,
        r#"        "OOMKilled","#,
    ] {
        let report = explain(&[("inspect.txt", line)]);
        assert_eq!(killers(&report), [(0, Killer::KernelOom)], "{line}");
    }
}

/// A request to end an actor is no cause if its connection broke.
#[test]
fn lost_actor_did_not_end_by_request() {
    let worker = "15".repeat(28);
    let asked = format!(
        "[2026-11-21 00:25:26,042 I 611 611] (raylet) node_manager.cc:3647: Received KillLocalActor RPC worker_id={worker} actor_id=15151515151515151515151501000000\n"
    );
    let dropped = |exit_type: u8, graceful: bool| {
        format!(
            "[2026-11-21 00:25:26,054 I 611 611] (raylet) node_manager.cc:1477: Disconnecting worker, graceful={graceful}, disconnect_type={exit_type}, has_creation_task_exception=false worker_id={worker} job_id=01000000\n"
        )
    };
    let lost = dropped(0, false);
    for text in [format!("{asked}{lost}"), format!("{lost}{asked}")] {
        let report = explain(&[("raylet.out", &text)]);
        assert_eq!(only(&report).verdict.killer, Killer::Unknown, "{text}");
    }
    let text = format!("{asked}{}", dropped(1, true));
    let report = explain(&[("raylet.out", &text)]);
    assert_eq!(only(&report).verdict.killer, Killer::RayIntended);
}

#[test]
fn cgroup_oom_count_names_no_victim_or_scope() {
    for line in [
        "      Reason:       OOMKilled",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=123.batch. Some of the step tasks have been OOM Killed.",
        "srun: error: node7: task 0: Out Of Memory",
    ] {
        let report = explain(&[("some.log", line)]);
        let death = only(&report);
        assert_eq!(death.verdict.killer, Killer::KernelOom, "{line}");
        assert!(death.process.comm.starts_with("a process"), "{line}");
        let oom = death.memory.oom.as_ref().expect("a kill for memory");
        assert_eq!((&oom.constraint, &oom.cgroup), (&None, &None), "{line}");
        assert!(
            clause::of(death).contains("reports"),
            "{}",
            clause::of(death)
        );
    }
}

#[test]
fn signal_sent_by_others_is_no_crash() {
    for (signal, number) in [("SIGTERM", 15), ("SIGINT", 2), ("SIGHUP", 1)] {
        let line =
            format!("(Rollout pid=926) *** {signal} received at time=1763703810 on cpu 12 ***");
        let own = format!("*** {signal} received at time=1763703810 on cpu 12 ***");
        let file =
            "worker-2abec82d00000000000000000000000000000000000000000000abcd-01000000-926.err";
        for (name, line) in [("driver.log", line), (file, own)] {
            let report = explain(&[(name, &line)]);
            let death = only(&report);
            assert_eq!(death.verdict.killer, Killer::Unknown, "{name} {signal}");
            assert_eq!(death.end.signal, Some(number), "{name}");
            let clause = clause::of(death);
            assert!(clause.contains(signal), "{clause}");
        }
    }
}

#[test]
fn handled_signal_does_not_outrank_rays_words() {
    let handler =
        "(Rollout pid=926, ip=192.0.2.2) *** SIGTERM received at time=1763703810 on cpu 12 ***\n";
    let detail = "SYSTEM_ERROR Worker exit detail: The leased worker has unrecoverable failure. Worker is requested to be destroyed when it is returned. Worker exits with an exit code 1. The process receives a SIGTERM.";
    let text = handler.to_owned() + &actor(detail);
    let report = explain(&[("driver.log", &text)]);
    assert_eq!(killers(&report), [(926, Killer::Unknown)]);
    let memory = "NODE_OUT_OF_MEMORY Worker exit detail: Task was killed due to the node running low on memory.";
    let text = handler.to_owned() + &actor(memory);
    let report = explain(&[("driver.log", &text)]);
    assert_eq!(killers(&report), [(926, Killer::RayMemoryMonitor)]);
}

#[test]
fn exit_code_after_handled_sigterm_is_ignored() {
    let detail = "SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code 1. The process receives a SIGTERM.";
    let report = explain(&[("driver.log", &actor(detail))]);
    let death = only(&report);
    assert_eq!(death.verdict.killer, Killer::Unknown);
    assert_eq!((death.end.signal, death.end.exit_code), (Some(15), None));
}

#[test]
fn data_loaders_of_a_line_are_reported() {
    let line = "RuntimeError: DataLoader worker (pid(s) 4218, 4220) exited unexpectedly";
    let report = explain(&[("driver.log", line)]);
    assert_eq!(
        killers(&report),
        [(4218, Killer::Unknown), (4220, Killer::Unknown)]
    );
}

#[test]
fn user_exceptions_are_not_rays_words() {
    for raised in [
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "OSError: job has finished",
        "SystemExit: Worker exits with an exit code 3",
    ] {
        let error = format!(
            "USER_ERROR Worker exit detail: Worker exits because there was an exception in the initialization method (e.g., __init__). Exception raised from an actor init method. Traceback: {raised}"
        );
        let report = explain(&[("driver.log", &actor(&error))]);
        assert_eq!(killers(&report), [(926, Killer::Exit)], "{raised}");
        let sudden = format!(
            "SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code no free port. Traceback (most recent call last): {raised}"
        );
        let report = explain(&[("driver.log", &actor(&sudden))]);
        assert_eq!(killers(&report), [(926, Killer::Exit)], "{raised}");
        assert_eq!(only(&report).end.exit_code, None, "{raised}");
    }
}

/// The code of `SystemExit` may be any value. No signal and no `os._exit` makes a worker say so.
#[test]
fn system_exit_with_any_value_is_an_exit() {
    let detail = "SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code no free port.";
    let report = explain(&[("driver.log", &actor(detail))]);
    assert_eq!(killers(&report), [(926, Killer::Exit)]);
}

/// The GCS says of an owner how it ended. That its actors followed is no kill of theirs.
#[test]
fn what_ended_the_owner_is_said() {
    let reason = |kind: &str, what: &str| {
        format!(
            "The actor is dead because its owner has died. Owner Id: {} Owner Ip address: 192.0.2.7 Owner worker exit type: {kind} Worker exit detail: {what}",
            "5a".repeat(28)
        )
    };
    let crashed = "Owner's worker process has crashed.";
    let of = |kind, what| explain(&[("driver.log", &reason(kind, what))]);
    let memory = of("NODE_OUT_OF_MEMORY", crashed);
    let told: Vec<_> = memory
        .deaths
        .iter()
        .map(|death| death.verdict.killer)
        .collect();
    assert_eq!(told, [Killer::RayMemoryMonitor, Killer::RayCollapse]);
    let id = memory.deaths[0].work.worker_id.as_ref();
    assert_eq!(id.map(|id| id.0.clone()), Some("5a".repeat(28)));
    let other = of("SYSTEM_ERROR", crashed);
    assert_eq!(killers(&other), [(0, Killer::RayCollapse)]);
    let node = of("SYSTEM_ERROR", "Owner's node has crashed.");
    assert_eq!(only(&node).verdict.cause, Cause::OwnersNodeCrashed);
}

/// Ray 1.x names no component; the source file tells it. Any worker or driver may write the rest.
#[test]
fn writer_without_component_is_no_worker() {
    let role = |file: &str, text: &str| {
        let line = format!("[2021-11-20 12:00:01,123 C 4055 4055] {file}:17:  {text}");
        only(&explain(&[("log.txt", &line)])).process.role
    };
    let check = "Check failed: x";
    assert_eq!(
        role("node_manager.cc", "This node has been marked as dead."),
        Role::Raylet
    );
    assert_eq!(role("gcs_server_main.cc", check), Role::Gcs);
    assert_eq!(role("gcs_rpc_client.h", check), Role::Other);
    assert_eq!(role("core_worker.cc", check), Role::Other);
}

/// Ray's words for any sudden end are Ray's; another program may print its own for a crash.
#[test]
fn another_programs_line_is_not_rays() {
    let missing = |line: &str| {
        let report = explain(&[("log.txt", line)]);
        only(&report)
            .verdict
            .missing
            .clone()
            .expect("an open verdict")
    };
    let launcher = missing(
        "ERROR 11-20 12:00:01 [multiproc_executor.py:135] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.",
    );
    let ray = missing(
        "The worker died unexpectedly while executing this task. Check python-core-worker-*.log files for more information.",
    );
    for (line, of_ray) in [(&launcher, false), (&ray, true)] {
        let Missing::NodeLogs {
            of_any_end, named, ..
        } = line
        else {
            panic!("{line:?}");
        };
        assert_eq!((*of_any_end, *named), (of_ray, !of_ray));
    }
}

/// Ray spills before its store is full, and warns of a disk that still has room.
#[test]
fn warnings_say_no_more_than_their_lines() {
    for (line, says) in [
        (
            "(raylet) Spilled 3072 MiB, 20 objects, write throughput 512 MiB/s.",
            "was short of room",
        ),
        (
            "(raylet) file_system_monitor.cc:111: /tmp/ray/session_x is over 95% full, available space: 45000000000; capacity: 900000000000. Object creation will fail if spilling is required.",
            "full or nearly full",
        ),
        (
            "ray.exceptions.OutOfDiskError: The object cannot be created because the local object store is full and the local disk's utilization is over capacity (95% by default).",
            "full or nearly full",
        ),
    ] {
        let report = explain(&[("driver.log", line)]);
        let [finding] = report.findings.as_slice() else {
            panic!("{:?}", report.findings);
        };
        assert!(finding.summary.contains(says), "{}", finding.summary);
    }
}

/// What vLLM and Tune announce is no report of a death.
#[test]
fn announced_ends_are_no_deaths() {
    for line in [
        "INFO 11-20 12:00:01 [ray_distributed_executor.py:120] Shutting down Ray distributed executor. If you see error log from logging.cc regarding SIGTERM received, please ignore because this is the expected termination process in Ray.",
        "^C2025-11-20 12:00:01,123\tWARNING tune.py:219 -- Stop signal received (e.g. via SIGINT/Ctrl+C), ending Ray Tune run. Press CTRL+C (or send SIGINT/SIGKILL/SIGTERM) to skip.",
    ] {
        let report = explain(&[("driver.log", line)]);
        assert_eq!(report.deaths.len(), 0, "{line}");
        let notes = format!("{:?}", report.notes);
        assert!(!notes.contains("SIGTERM"), "{notes}");
    }
    let line = "ray.exceptions.LocalRayletDiedError: The task's local raylet died. Check raylet.out for more information.";
    let report = explain(&[("driver.log", line)]);
    let death = only(&report);
    assert_eq!(death.process.role, Role::Raylet);
    assert_eq!(death.verdict.killer, Killer::Unknown);
}

/// A worker that is still alive at the timeout is killed by Ray.
#[test]
fn worker_dead_before_registering_was_not_killed() {
    let line = "[2026-11-21 15:08:44,775 E 10406 10406] (raylet) worker_pool.cc:544: Some workers of the worker process(10493) have not registered within the timeout. The process is ";
    let dead = format!("{line}dead, probably it crashed during start.");
    let report = explain(&[("raylet.out", &dead)]);
    let death = only(&report);
    assert_eq!(death.verdict.killer, Killer::Unknown);
    assert!(death.listed);
    let clause = clause::of(death);
    assert!(clause.contains("died before it registered"), "{clause}");
    let alive = format!("{line}still alive, probably it's hanging during start.");
    let report = explain(&[("raylet.out", &alive)]);
    assert_eq!(killers(&report), [(10_493, Killer::RayIntended)]);
}

#[test]
fn earlyooms_quoted_command_line_is_no_reason() {
    let line = r#"2026-11-20T08:43:29+0000 gpu-07 earlyoom[812]: sending SIGTERM to process 4242 uid 1000 "python3": badness 900, VmRSS 1000 MiB, cmdline "python3 train.py --api-key x""#;
    let report = explain(&[("journal.txt", line)]);
    let clause = clause::of(only(&report));
    assert_eq!(
        clause,
        "was killed by earlyoom: badness 900, VmRSS 1000 MiB"
    );
}

#[test]
fn unknown_kill_record_gives_only_a_note() {
    let line = "[2026-11-21 00:12:30,731 I 2600 2600] (raylet) node_manager.cc:3112: Killing 2 worker(s), kill details: victims: 11/ab01, 12/ab02; suggestions: none";
    let report = explain(&[("raylet.out", line)]);
    assert_eq!(only(&report).verdict.killer, Killer::Unknown);
    let notes = &report.notes;
    let unread = notes.iter().filter(|note| note.starts_with("1 records"));
    assert_eq!(unread.count(), 1, "{notes:?}");
}

/// Linux up to 4.18 names the process that it chose, then the one that it killed: that one or a
/// child. People quote only the first line.
#[test]
fn process_that_an_old_kernel_chose_was_killed_or_a_child() {
    let chosen = "[ 100.0] Out of memory: Kill process 32016 (netdata) score 1001 or sacrifice child\n[ 120.0] Out of memory: Kill process 32016 (netdata) score 1001 or sacrifice child";
    let report = explain(&[("dmesg.txt", chosen)]);
    assert_eq!(killers(&report), [(0, Killer::KernelOomGlobal)]);
    let summary = clause::summary(only(&report));
    assert!(
        summary.contains("netdata (pid 32016) or a child of it"),
        "{summary}"
    );
    let limited = "[ 100.0] Task in /kubepods/pod1/a killed as a result of limit of /kubepods/pod1
[ 100.0] memory: usage 524288kB, limit 524288kB, failcnt 9
[ 100.0] Memory cgroup out of memory: Kill process 62685 (bash) score 1001 or sacrifice child";
    let report = explain(&[("dmesg.txt", limited)]);
    assert_eq!(killers(&report), [(0, Killer::KernelOomMemcg)]);
    let summary = clause::summary(only(&report));
    assert!(summary.contains("/kubepods/pod1"), "{summary}");
    // The second line names the one that died.
    let killed = format!(
        "{chosen}\n[ 120.0] Killed process 32100 (netdata) total-vm:9kB, anon-rss:8kB, file-rss:0kB"
    );
    let report = explain(&[("dmesg.txt", &killed)]);
    assert_eq!(killers(&report), [(32100, Killer::KernelOomGlobal)]);
}

/// systemd reports what its daemon did, and earlyoom complains at its start. Each is one death, and
/// a kill for memory.
#[test]
fn oom_killers_of_user_space_kill_for_memory() {
    let oomd = "Nov 21 00:23:48 gpu-07 systemd-oomd[700]: Killed /a.slice/train.scope due to memory pressure for /a.slice being 51.07% > 50.00% for > 20s with reclaim activity
Nov 21 00:23:48 gpu-07 systemd[1837]: train.scope: systemd-oomd killed 12 process(es) in this unit.";
    let disk = "Warning  Evicted  2m  kubelet  The node was low on resource: ephemeral-storage. x";
    for (text, for_memory) in [(oomd, true), (disk, false)] {
        let report = explain(&[("journal.txt", text)]);
        assert_eq!(only(&report).is_memory_kill(), for_memory, "{text}");
    }
    let twice = format!("{oomd}\n{}", oomd.replace("00:23:48", "04:23:48"));
    let report = explain(&[("journal.txt", &twice)]);
    assert_eq!(report.deaths.len(), 2, "the year is the same");
    let twice = twice
        .replace("Nov 21 ", "2026-11-21T")
        .replace(" gpu-07", "Z gpu-07");
    let report = explain(&[("journal.txt", &twice)]);
    assert_eq!(report.deaths.len(), 2, "{twice}");
}
