//! Tests what is read beside an end: its time, the job or process that it is of, and its reason.

use super::{killers, of, only};
use crate::judge::report::{Death, Killer};

/// When a death was, in UTC or as its text prints it.
fn when(death: &Death) -> String {
    let utc = death.when.time.map(|time| time.0.timestamp().to_string());
    utc.or_else(|| death.when.stamp.clone()).unwrap_or_default()
}

#[test]
fn times_of_other_programs_are_read() {
    for (text, want) in [
        (
            "[2020-09-12 05:37:52 +0200] [18] [ERROR] Worker (pid:21) was sent SIGKILL! Perhaps out of memory?\n",
            "2020-09-12T03:37:52Z",
        ),
        (
            "17/11/25 18:23:24 ERROR YarnClusterScheduler: Lost executor 9 on n1: Container killed by YARN for exceeding memory limits. 7.2 GB of 4.2 GB virtual memory used.\n",
            "2017-11-25 18:23:24",
        ),
        (
            "04/18/2016 22:55:25;0008;PBS_Server.12149;Job;7082041.head1;Job deleted at request of root@head1\n",
            "2016-04-18 22:55:25",
        ),
        (
            "Thu Jun 27 02:58:57 2019 - DAMN ! worker 2 (pid: 178) died, killed by signal 9 :( trying respawn ...\n",
            "2019-06-27 02:58:57",
        ),
        (
            "Feb 24 14:28:21 n1 systemd[1]: iot.service: main process exited, code=dumped, status=11/SEGV\n",
            "Feb 24 14:28:21 (no year)",
        ),
        (
            "024 (6509789.000.000) 03/27 15:12:51 Job reconnection failed\n",
            "Mar 27 15:12:51 (no year)",
        ),
    ] {
        assert_eq!(when(only(&of(text))), want, "{text}");
    }
}

/// The time and the limit of a container stand below its end, or its time right above.
#[test]
fn block_on_a_container_dates_its_end() {
    let state = "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n      Started:      Fri, 15 Sep 2023 09:56:14 +0200\n      Finished:     Fri, 15 Sep 2023 09:56:17 +0200\n";
    let report = of(state);
    assert_eq!(killers(&report), [(0, Killer::KernelOom)]);
    assert_eq!(when(&report.deaths[0]), "2023-09-15T07:56:17Z");
    let error = state.replace("OOMKilled", "Error");
    assert_eq!(when(only(&of(&error))), "2023-09-15T07:56:17Z");
    let above = "   container name: executor\n   container finished at: 2024-09-25T02:34:52Z\n   exit code: 137\n   termination reason: OOMKilled\n";
    let report = of(above);
    let death = only(&report);
    assert_eq!(when(death), "2024-09-25T02:34:52Z");
    assert_eq!(death.process.comm, "a process of container executor");
    let far = format!("{state}\n\n\nKilled\n");
    assert_eq!(of(&far).deaths.len(), 1);
    // The end of another container is not that of this one.
    let other = "   container finished at: 2024-09-25T02:34:52Z\n\n\n\n   Reason:  OOMKilled\n";
    assert_eq!(when(only(&of(other))), "");
}

#[test]
fn heading_names_the_job() {
    let name = |text: &str| only(&of(text)).process.comm.clone();
    let mail = "PBS Job Id: 75736704\nJob Name:   train\nExec host:  node450/0-19\nAborted by PBS Server\nJob exceeded a memory resource limit (vmem, pvmem, etc.). Job was aborted\n";
    assert_eq!(name(mail), "a process of PBS job 75736704");
    let condor = "012 (36707199.000.000) 2026-11-21 10:00:00 Job was held.\n\tError from slot1@node1: Job has gone over cgroup memory limit of 8192 megabytes. Last measured usage: 8190 megabytes.\n";
    assert_eq!(name(condor), "a process of HTCondor job 36707199.0");
    assert_eq!(when(only(&of(condor))), "2026-11-21 10:00:00");
}

#[test]
fn line_on_a_pod_names_it() {
    let name = |text: &str| only(&of(text)).process.comm.clone();
    let event = "4m11s   Warning   Evicted   pod/egg-7   The node was low on resource: memory. Container egg was using 5053216Ki, which exceeds its request of 0.\n";
    assert_eq!(name(event), "a process of pod egg-7");
    let log = "E1121 08:00:00.000000 2614 kuberuntime.go:1] \"Killing\" pod=\"ray/train-0\" message=\"Container trainer failed startup probe, will be restarted\"\n";
    assert_eq!(name(log), "a process of container trainer");
    let other = "Warning  Evicted  repod/egg  The node was low on resource: memory. x\n";
    assert_eq!(name(other), "a process");
}

#[test]
fn line_names_its_process_and_rank() {
    let name = |text: &str| {
        let report = of(text);
        let process = &only(&report).process;
        (process.pid.0, process.comm.clone())
    };
    let shell = |rest: &str| format!("/bin/bash: line 1:  2440 {rest}\n");
    let python = (2440, "python".to_owned());
    assert_eq!(name(&shell("Killed       /usr/bin/python -m x 7")), python);
    assert_eq!(
        name(&shell(
            "Aborted      (core dumped) OMP_NUM_THREADS=1 python x"
        )),
        python
    );
    let bare = (2440, "process".to_owned());
    assert_eq!(name(&shell("Killed")), bare);
    assert_eq!(name(&shell("Killed        ( cd x; python y )")), bare);
    let mpi = |pid: u32| {
        format!(
            "mpirun noticed that process rank 7 with PID {pid} on node n1 exited on signal 9 (Killed).\n"
        )
    };
    assert_eq!(
        name(&mpi(0)),
        (0, "a process of MPI rank 7 on n1".to_owned())
    );
    assert_eq!(
        name(&mpi(12)),
        (12, "process of MPI rank 7 on n1".to_owned())
    );
    let deepspeed = "[2022-05-15 00:12:57,786] [ERROR] [launch.py:184:sigkill_handler] ['/usr/bin/python3', '-u', 'run_clm.py', '--local_rank=1', '--fp16'] exits with return code = -9\n";
    let rank = "a process of run_clm.py, local rank 1";
    assert_eq!(name(deepspeed), (0, rank.to_owned()));
}

#[test]
fn next_line_has_the_reason() {
    let crash = "terminate called after throwing an instance of 'c10::DistBackendError'\n";
    let what = "  what():  Watchdog caught collective operation timeout: ALLREDUCE\n";
    let says = |text: &str| crate::show::words::clause(only(&of(text)));
    assert!(says(&format!("{crash}{what}")).contains("ALLREDUCE"));
    let far = format!("{crash}{}{what}", "x\n".repeat(9));
    assert!(!says(&far).contains("ALLREDUCE"));
    assert!(of(what).deaths.is_empty());
    let two = format!("(Rollout pid=31) {crash}(Rollout pid=32) {what}");
    assert!(!says(&two).contains("ALLREDUCE"), "of another process");
}

/// systemd aborts a unit whose watchdog it does not hear, and its core is dumped.
#[test]
fn watchdog_and_dumped_core_are_one_death() {
    let watchdog = "systemd[1]: up.service: Watchdog timeout (limit 20min)!\nsystemd[1]: up.service: Main process exited, code=dumped, status=6/ABRT\n";
    let dumped = |pid: u32| {
        format!("systemd-coredump[14276]: Process {pid} (systemd-journal) of user 0 dumped core.\n")
    };
    let one = format!("{watchdog}{}", dumped(10510));
    assert_eq!(killers(&of(&one)), [(10510, Killer::Signal)]);
    // Which of the two it was is not known.
    let two = format!("{one}{}", dumped(10511));
    assert_eq!(of(&two).deaths.len(), 3);
}

/// The kernel counts a kill in each cgroup above the victim.
#[test]
fn units_around_a_unit_are_no_further_kills() {
    let at = |second: u32, unit: &str| {
        format!(
            "2026-02-08T00:40:{second:02}.13+00:00 n1 systemd[1]: {unit}: A process of this unit has been killed by the OOM killer.\n"
        )
    };
    let units = [
        "user-1021.slice",
        "system-postgresql.slice",
        "user@1021.service",
        "user.slice",
        "system.slice",
    ];
    let text: String = units.map(|unit| at(7, unit)).concat();
    let report = of(&text);
    let names: Vec<&str> = report
        .deaths
        .iter()
        .map(|death| death.process.comm.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "a process of unit system-postgresql.slice",
            "a process of unit user@1021.service"
        ]
    );
    let later = format!("{}{}", at(7, "ray.service"), at(30, "system.slice"));
    assert_eq!(of(&later).deaths.len(), 2);
}

#[test]
fn systemd_oomd_names_the_processes_of_its_cgroup() {
    let text = "Jan 09 14:32:25 n1 systemd-oomd[70]: oomd attempting to kill 63 with KILL\nJan 09 14:32:25 n1 systemd-oomd[70]: oomd attempting to kill 66 with KILL\nJan 09 14:32:25 n1 systemd-oomd[70]: Killed /system.slice/train.service due to memory pressure for /system.slice being 64.15% > 50.00% for > 30s with reclaim activity\nJan 09 14:32:25 n1 systemd[1]: train.service: systemd-oomd killed 2 process(es) in this unit.\n";
    let report = of(text);
    assert_eq!(
        killers(&report),
        [(63, Killer::Signal), (66, Killer::Signal)]
    );
    for death in &report.deaths {
        let clause = crate::show::words::clause(death);
        assert!(clause.contains("64.15%"), "{clause}");
    }
}

/// Two logs of one node, each with its step.
#[test]
fn steps_of_one_node_are_told_apart() {
    let step = |step: &str| {
        format!(
            "srun: error: n1: task 0: Out Of Memory\nsrun: Terminating job step {step}\n==> other.log <==\n\n\n"
        )
    };
    assert_eq!(
        of(&format!("{}{}", step("7.0"), step("8.0"))).deaths.len(),
        2
    );
    assert_eq!(
        of(&format!("{}{}", step("7.0"), step("7.0"))).deaths.len(),
        1
    );
}

#[test]
fn report_without_a_signal_tells_of_the_end() {
    let block = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n\n=   EXIT CODE: 9\n";
    assert_eq!(killers(&of(block)), [(0, Killer::Unknown)]);
    let batch = "  description: \"Job state is set from RUNNING to FAILED for job projects/A. Job failed due to task failures\n";
    assert_eq!(killers(&of(batch)), [(0, Killer::Unknown)]);
}

/// earlyoom's own filter of system calls ended it, right after it had ended another process.
#[test]
fn daemon_that_killed_can_crash_itself() {
    let text = "Jul 18 08:23:17 n1 earlyoom[2608931]: sending SIGTERM to process 2595764 uid 0 \"cellxgene\": badness 711, VmRSS 52562 MiB\nJul 18 08:23:18 n1 systemd[1]: earlyoom.service: Main process exited, code=dumped, status=31/SYS\n";
    assert_eq!(
        killers(&of(text)),
        [(0, Killer::Crash), (2_595_764, Killer::Signal)]
    );
}

#[test]
fn path_that_a_terminal_broke_is_read_from_the_next_line() {
    let text = "[1.000001] Task in /kubepods/pod9/0249 killed as a result of limit of /kubepo\n[1.000002] memory: usage 524288kB, limit 524288kB, failcnt 0\n[1.000003] Memory cgroup stats for /kubepods/pod9/0249: cache:507172KB\n[1.000004] Memory cgroup out of memory: Kill process 12 (dd) score 7 or sacrifice child\n[1.000005] Killed process 12 (dd) total-vm:8kB, anon-rss:4kB, file-rss:0kB\n";
    let report = of(text);
    let oom = only(&report).memory.oom.as_ref();
    let cgroup = oom.and_then(|oom| oom.cgroup.as_deref());
    assert_eq!(cgroup, Some("/kubepods/pod9/0249"));
}

/// A manager of processes names each program that it started.
#[test]
fn program_of_a_manager_is_no_other_servers_worker() {
    let worker = "Thu Jun 27 02:58:57 2019 - DAMN ! worker 2 (pid: 178) died, killed by signal 9 :( trying respawn ...\n";
    let program = |time: &str| {
        format!("2019-06-27 {time},427 INFO exited: celery (terminated by SIGKILL; not expected)\n")
    };
    assert_eq!(
        of(&format!("{worker}{}", program("02:59:13"))).deaths.len(),
        2
    );
    assert_eq!(
        of(&format!("{worker}{}", program("02:58:58"))).deaths.len(),
        1
    );
}

#[test]
fn same_words_minutes_later_are_of_another_end() {
    let at = |time: &str| {
        format!("Apr 17 {time} n1 gitlab-runner[1701482]: WARNING: Job failed: exit code 137\n")
    };
    let two = |time: &str| of(&format!("{}{}", at("15:57:31"), at(time))).deaths.len();
    assert_eq!(two("16:29:51"), 2);
    assert_eq!(two("15:57:32"), 1);
    let command = "user@n1:~$ sudo grep 'Job failed: exit code 137' /var/log/syslog\n";
    let all = format!("{command}{}{}", at("15:57:31"), at("16:29:51"));
    assert_eq!(of(&all).deaths.len(), 2);
}

#[test]
fn kernel_log_without_a_victim_tells_of_the_kill() {
    let limit = "kernel: Task in /docker/0abce killed as a result of limit of /docker/0abce\n";
    let report = of(limit);
    assert_eq!(killers(&report), [(0, Killer::KernelOomMemcg)]);
    let victim = "kernel: Memory cgroup out of memory: Kill process 12 (dd) score 7 or sacrifice child\nkernel: Killed process 12 (dd) total-vm:8kB, anon-rss:4kB, file-rss:0kB\n";
    assert_eq!(
        killers(&of(&format!("{limit}{victim}"))),
        [(12, Killer::KernelOomMemcg)]
    );
    let panic = "[  910.113950] Kernel panic - not syncing: Out of memory: compulsory panic_on_oom is enabled\n";
    let report = of(panic);
    let name = &only(&report).process.comm;
    assert_eq!(name, "every process of the machine");
    assert!(
        of("(Rollout pid=7) Kernel panic - not syncing: x\n")
            .deaths
            .is_empty()
    );
}

/// A stack that was printed before is of a program that went on, and many of them hide no end.
#[test]
fn stacks_above_are_of_no_later_crash() {
    let stack = "    @     0x7f7325ede934 NcclCommInitRank\n";
    let crash = "other[2]: Segmentation fault (core dumped)\n";
    let told = |text: &str| crate::show::clause::summary(only(&of(text)));
    assert!(!told(&format!("{stack}{crash}")).contains("NcclCommInitRank"));
    assert!(told(&format!("{crash}{stack}")).contains("NcclCommInitRank"));
    let many = format!("{stack}{}", "step\n".repeat(66)).repeat(230);
    let oom = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.\n";
    let report = of(&format!("{many}{oom}"));
    assert_eq!(killers(&report), [(0, Killer::KernelOom)]);
}

#[test]
fn mails_about_two_jobs_are_of_two_ends() {
    let mail = "PBS Job Id: 12.head1\nJob Name:   train\nAborted by PBS Server\nJob exceeded its memory limit. Job was aborted\n";
    let report = of(&format!("{mail}{}", mail.replace("12.", "13.")));
    assert_eq!(report.deaths.len(), 2);
}

/// What a container asks for, and the limit of the next container, are not its limit.
#[test]
fn request_of_a_container_is_no_limit() {
    let state = "Name:         train-0\nContainers:\n  main:\n    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n";
    let limit = |below: &str| {
        let report = of(&format!("{state}{below}"));
        let oom = only(&report).memory.oom.as_ref();
        oom.and_then(|oom| oom.limit_bytes)
            .map(|bytes| bytes.0 >> 30)
    };
    assert_eq!(limit("    Limits:\n      memory:     4Gi\n"), Some(4));
    assert_eq!(limit("    Requests:\n      memory:     4Gi\n"), None);
    let next = "  side:\n    Container ID:  containerd://1\n    Limits:\n      memory:     4Gi\n";
    assert_eq!(limit(next), None);
}

/// srun says which step it ends, which need not be the one that a line above is about.
#[test]
fn step_that_srun_ends_is_named_of_a_task_only() {
    let oom = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=77.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.\n";
    let report = of(&format!("{oom}srun: Terminating StepId=88.0\n"));
    assert!(!only(&report).process.comm.contains("88.0"));
}

/// A text often has the begin of a report only.
#[test]
fn an_oom_report_cut_before_its_victim_tells_of_a_kill_of_nobody() {
    let invoked = "[  10.100000] java invoked oom-killer: gfp_mask=0x100cca, order=0, oom_score_adj=0\n[  10.100001] CPU: 0 PID: 405 Comm: java Not tainted 5.13.0\n";
    let decided = "[  10.100002]  oom_kill_process.cold+0xb/0x10\n";
    let memcg = "[  10.100003]  mem_cgroup_out_of_memory+0xc2/0xd0\n";
    let kill = "[  10.200000] Out of memory: Killed process 7 (python3) total-vm:1kB, anon-rss:2kB, file-rss:0kB, shmem-rss:0kB\n";
    let cut = |text: String| killers(&of(&text));
    assert_eq!(cut(format!("{invoked}{decided}")), [(0, Killer::KernelOom)]);
    assert_eq!(
        cut(format!("{invoked}{decided}{memcg}")),
        [(0, Killer::KernelOomMemcg)]
    );
    assert_eq!(
        cut(format!("{invoked}{decided}{kill}")),
        [(7, Killer::KernelOomGlobal)]
    );
    // The kernel may have panicked, or found nothing to kill.
    assert_eq!(cut(invoked.to_owned()), []);
    assert_eq!(cut(decided.to_owned()), []);
}

/// A fault in the kernel ends a thread. Its process may live on.
#[test]
fn fault_in_the_kernel_is_no_death_of_a_process() {
    let text = "[   24.391150] BUG: kernel NULL pointer dereference, address: 0000000000000002\n[   24.393180] Oops: 0000 [#1] SMP PTI\n[   24.393654] CPU: 0 PID: 2080 Comm: grpc_global_tim Tainted: G OE 5.4.0-174-generic #193-Ubuntu\n";
    assert_eq!(killers(&of(text)), []);
}
