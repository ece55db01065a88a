//! Tests what programs beside Ray print of one end in several lines.

use super::{explain, killers, of};
use crate::{
    event::Role,
    judge::{
        cause::Cause,
        report::{Killer, Relation},
    },
};

#[test]
fn slurm_cancels_a_step_after_its_task_and_nobody_cancelled_it() {
    let cancelled =
        "slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-21T20:22:22 ***\n";
    let task = "srun: error: node1: task 3: Bus error\nsrun: Terminating job step 12.0\n";
    assert_eq!(killers(&of(cancelled)), [(0, Killer::Signal)]);
    assert_eq!(
        killers(&of(&format!("{task}{cancelled}"))),
        [(0, Killer::Crash)]
    );
    let oom = "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0. Some of the step tasks have been OOM Killed.\n";
    assert_eq!(
        killers(&of(&format!("{oom}{cancelled}"))),
        [(0, Killer::KernelOom)]
    );
    // A task that ends after the cancellation follows from it.
    let killed = "srun: error: node1: task 3: Killed\n";
    assert_eq!(
        killers(&of(&format!("{cancelled}{killed}"))),
        [(0, Killer::Signal)]
    );
}

/// Only Ray's own words, and its names, make a process one of Ray's.
#[test]
fn a_process_of_another_program_is_no_worker() {
    let role = |text: &str| {
        let report = of(text);
        let [death] = report.deaths.as_slice() else {
            panic!("{text}: {:?}", report.deaths);
        };
        (death.process.role, death.process.comm.clone())
    };
    let other = |text: &str, name: &str| assert_eq!(role(text), (Role::Other, name.into()));
    other("Killed\n", "a process");
    other(
        "##[error]Process completed with exit code 137.\n",
        "a process",
    );
    let unit = "ray.service: Failed with result 'signal'.\n";
    other(unit, "a process of unit ray.service");
    other("Fatal Python error: Segmentation fault\n", "a process");
    for rays in [
        "(WorkerDict pid=31) Fatal Python error: Segmentation fault\n",
        "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task. Check python-core-worker-*.log files for more information.\n",
    ] {
        assert_eq!(role(rays).0, Role::Worker, "{rays}");
    }
}

#[test]
fn a_runner_that_shuts_down_is_one_act() {
    let text = "2026-11-21T10:11:12.1234567Z ##[error]The runner has received a shutdown signal. This can happen when the runner service is stopped.\n2026-11-21T10:11:13.3234567Z ##[error]The operation was canceled.\n";
    let report = of(text);
    let [death] = report.deaths.as_slice() else {
        panic!("{:?}", report.deaths);
    };
    let sender = death.sender.as_ref().map(|sender| sender.relation);
    assert_eq!(
        sender,
        Some(Relation::WorkloadManager),
        "it is not the kernel"
    );
}

#[test]
fn the_next_line_says_which_child_a_daemon_killed() {
    let budget = "distributed.nanny - WARNING - Worker exceeded 95% memory budget.  Restarting\n";
    let killed = |pid: u32| {
        format!("distributed.nanny - WARNING - Worker process {pid} was killed by unknown signal\n")
    };
    let text = format!("{budget}{}{budget}{}", killed(22204), killed(22200));
    assert_eq!(
        killers(&of(&text)),
        [(22200, Killer::Signal), (22204, Killer::Signal)]
    );
    assert_eq!(killers(&of(&killed(7))), [(7, Killer::Unknown)]);
    assert_eq!(killers(&of(budget)), [(0, Killer::Signal)]);
}

#[test]
fn a_worker_that_ray_killed_because_it_did_not_exit_was_ended_by_ray() {
    let text = "[2026-11-21 00:25:26,656 W 4101 4101] (raylet) worker_pool.cc:700: Worker with PID=4218 did not exit after 5000ms, force killing with SIGKILL.\n";
    let report = explain(&[("raylet.out", text)]);
    assert_eq!(killers(&report), [(4218, Killer::RayIntended)]);
}

/// Nomad lists the newest event first.
#[test]
fn a_task_that_nomad_stopped_is_one_death_and_one_that_had_exited_is_not_its_work() {
    let event = |time: &str, what: &str| format!("2026-11-21T{time}Z  {what}\n");
    let exit = "Terminated      Exit Code: 1, Exit Message: \"exited\"";
    let stop = "Killing         Sent interrupt. Waiting 5s before force killing";
    let list = |ended: &str| event(ended, exit) + &event("15:32:44", stop);
    for (ended, deaths) in [
        ("15:32:46", &[(0, Killer::Signal)][..]),
        ("15:32:44", &[(0, Killer::Signal)]),
        ("15:30:00", &[(0, Killer::Exit), (0, Killer::Signal)]),
        ("16:30:00", &[(0, Killer::Exit), (0, Killer::Signal)]),
    ] {
        assert_eq!(killers(&of(&list(ended))), deaths, "{ended}");
    }
}

#[test]
fn a_dumped_core_does_not_say_who_sent_the_signal() {
    let dumped =
        "Nov 21 10:00:02 n1 systemd-coredump[90]: Process 812 (python3) of user 0 dumped core.\n";
    let report = of(dumped);
    assert_eq!(killers(&report), [(812, Killer::Crash)]);
    let clause = crate::show::words::clause(&report.deaths[0]);
    assert!(!clause.contains("of its own"), "{clause}");
    let by_number = |end: &str| {
        of(&format!(
            "Nov 21 10:00:01 n1 systemd-coredump[90]: Process 812 (python3) of user 0 terminated abnormally with signal {end}, processing...\n"
        ))
    };
    assert_eq!(by_number("6/ABRT").deaths[0].end.signal, Some(6));
    assert_eq!(killers(&by_number("3/QUIT")), [(812, Killer::Unknown)]);
    // systemd aborts a unit whose watchdog it does not hear.
    let watchdog = "Nov 21 10:00:01 n1 systemd[1]: train.service: Killing process 812 (python3) with signal SIGABRT.\n";
    assert_eq!(
        killers(&of(&format!("{watchdog}{dumped}"))),
        [(812, Killer::Signal)]
    );
}

#[test]
fn a_frame_of_mpich_has_the_process_above_its_signal() {
    let frame = |pid: u32| {
        format!(
            "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 6 PID {pid} RUNNING AT node9\n=   KILLED BY SIGNAL: 9 (Killed)\n"
        )
    };
    let report = of(&format!("{}{}", frame(4101), frame(4102)));
    let ends: Vec<_> = report
        .deaths
        .iter()
        .map(|death| (death.process.pid.0, death.end.signal))
        .collect();
    assert_eq!(ends, [(4101, Some(9)), (4102, Some(9))]);
}

#[test]
fn a_kernels_fault_line_is_no_line_of_that_process() {
    let fault = "python3[4101]: segfault at 8 ip 00007f12 sp 00007ffd error 4 in libc.so.6[7f2d6d028000+195000]";
    for before in ["[3138705.607699] ", "Nov 21 00:23:48 node1 kernel: "] {
        assert_eq!(
            killers(&of(&format!("{before}{fault}\n"))),
            [(4101, Killer::Crash)],
            "{before}"
        );
    }
}

#[test]
fn containers_are_told_apart_by_their_names() {
    let row = |code: u32, name: &str| {
        format!(
            "72d870c1c715   acme/a:1   \"python3 a.py\"   8 days ago   Exited ({code}) 27 hours ago             {name}\n"
        )
    };
    let text = format!("{}{}{}", row(137, "a_1"), row(0, "b_1"), row(137, "c_1"));
    let report = of(&text);
    let names: Vec<_> = report
        .deaths
        .iter()
        .map(|death| death.process.comm.as_str())
        .collect();
    assert_eq!(
        names,
        ["a process of container a_1", "a process of container c_1"]
    );
}

/// Shells and container runtimes add 128 to the number of a signal.
#[test]
fn code_of_a_signal_is_no_exit_by_itself() {
    let of_code = |code: u32| {
        let text = format!("srun: error: node1: task 3: Exited with exit code {code}\n");
        killers(&of(&text))
    };
    assert_eq!(of_code(1), [(0, Killer::Exit)]);
    assert_eq!(of_code(255), [(0, Killer::Exit)]);
    assert_eq!(of_code(137), [(0, Killer::Unknown)]);
    assert_eq!(of_code(139), [(0, Killer::Crash)]);
}

#[test]
fn a_server_that_gives_up_on_its_worker_killed_it() {
    let timeout = "[2026-11-21 00:48:31 +0000] [2973] [CRITICAL] WORKER TIMEOUT (pid:2976)\n";
    let sent = "[2026-11-21 00:48:32 +0000] [2973] [ERROR] Worker (pid:2976) was sent SIGKILL! Perhaps out of memory?\n";
    assert_eq!(killers(&of(sent)), [(2976, Killer::Unknown)]);
    let report = of(&format!("{timeout}{sent}"));
    assert_eq!(killers(&report), [(2976, Killer::Signal)]);
    assert!(report.deaths.iter().all(|death| !death.is_memory_kill()));
}

/// A task that a signal ended is no less the cause than one that failed. One far above belongs to
/// another step.
#[test]
fn only_a_task_right_above_explains_a_cancelled_step() {
    let cancelled =
        "slurmstepd: error: *** STEP 12.7 ON node1 CANCELLED AT 2026-11-21T20:22:22 ***\n";
    let task = |how: &str| format!("srun: error: node1: task 3: {how}\n");
    for how in ["Exited with exit code 137", "Killed"] {
        let text = format!("{}srun: Terminating job step 12.7\n{cancelled}", task(how));
        assert_eq!(killers(&of(&text)), [(0, Killer::Unknown)], "{how}");
    }
    let far = format!(
        "{}{}{cancelled}",
        task("Exited with exit code 1"),
        "epoch\n".repeat(13)
    );
    assert!(killers(&of(&far)).contains(&(0, Killer::Signal)));
}

/// srun then ends the tasks that are left. One far below belongs to another step.
#[test]
fn tasks_that_slurm_ends_with_their_step_are_no_first_causes() {
    let first = "srun: error: node1: task 3: Killed\nslurmstepd: error: *** STEP 12.7 ON node1 CANCELLED AT 2026-11-21T20:22:22 ***\n";
    let rest = "srun: error: node1: tasks 0-2: Terminated\n";
    assert_eq!(
        killers(&of(&format!("{first}{rest}"))),
        killers(&of("srun: error: node1: task 3: Killed\n"))
    );
    let far = format!("{first}{}{rest}", "epoch\n".repeat(13));
    assert_eq!(of(&far).deaths.len(), 2);
}

/// The driver gets the signal that follows from the other task's end, says so and aborts.
#[test]
fn process_that_slurm_asked_to_end_follows_from_the_task_that_failed() {
    let failed = "srun: error: node1: task 1: Exited with exit code 3\nsrun: launch/slurm: _step_signal: Terminating StepId=36.0\n";
    let cancelled =
        "slurmstepd-node1: error: *** STEP 36.0 ON node1 CANCELLED AT 2026-11-28T02:17:18 ***\n";
    let driver = "[2026-11-28 02:17:18,310 E 8543 8543] logging.cc:474: *** SIGTERM received at time=1795832238 on cpu 1 ***\n";
    let aborted = "srun: error: node1: task 0: Aborted\n";
    let report = of(&format!("{failed}{cancelled}{driver}{aborted}"));
    let first: Vec<_> = report
        .deaths
        .iter()
        .filter(|death| death.verdict.cause_death_id.is_none())
        .collect();
    assert_eq!(first.len(), 1, "{:#?}", report.deaths);
    assert_eq!(first[0].end.exit_code, Some(3));
    assert_eq!(report.deaths.len(), 2);
    // Without the task, Slurm was told to end the step.
    let report = of(&format!("{cancelled}{driver}"));
    assert_eq!(killers(&report), [(8543, Killer::Signal)]);
    assert_eq!(
        report.deaths[0].sender.as_ref().expect("a sender").comm,
        "Slurm"
    );
    // A signal from before has another sender.
    let report = of(&format!("{driver}{cancelled}"));
    assert!(killers(&report).contains(&(8543, Killer::Unknown)));
}

/// slurmstepd says that it killed for memory, and then that the job ended.
#[test]
fn job_that_slurm_ended_for_memory_was_not_cancelled() {
    let memory = "slurmstepd-node1: error: StepId=1.batch exceeded memory limit (2530803712 > 2097152000), being killed\n";
    let cancelled =
        "slurmstepd-node1: error: *** JOB 1 ON node1 CANCELLED AT 2026-11-28T02:24:01 ***\n";
    for text in [
        format!("{memory}{cancelled}{memory}"),
        format!("{cancelled}{memory}"),
    ] {
        let report = of(&text);
        let [death] = report.deaths.as_slice() else {
            panic!("{:#?}", report.deaths);
        };
        let cause = &death.verdict.cause;
        assert!(matches!(cause, Cause::MemoryDaemon { .. }), "{cause:?}");
    }
}

/// srun names the signal by which a task ended.
#[test]
fn task_that_ended_by_a_requested_signal_is_a_death() {
    let report = of("srun: error: node2: task 0: User defined signal 1\n");
    assert_eq!(killers(&report), [(0, Killer::Unknown)]);
    assert_eq!(report.deaths[0].end.signal, Some(libc::SIGUSR1));
}

/// slurmstepd ends a minute later if processes of a cancelled step do not. A failed node is told by
/// srun and by Slurm.
#[test]
fn one_act_of_slurm_that_two_lines_tell_is_one_death() {
    let cancelled = "[63.0] error: *** STEP 63.0 ON cn6 CANCELLED AT 2026-11-21T09:43:55 ***\n";
    let stepd = |step: &str| {
        format!(
            "[{step}] error: *** STEP {step} STEPD TERMINATED ON cn6 AT 2026-11-21T09:44:56 DUE TO JOB NOT ENDING WITH SIGNALS ***\n"
        )
    };
    let count = |text: &str| of(text).deaths.len();
    assert_eq!(count(&format!("{cancelled}{}", stepd("63.0"))), 1);
    assert_eq!(count(&format!("{cancelled}{}", stepd("64.0"))), 2);
    assert_eq!(count(&stepd("63.0")), 1);
    let node = |name: &str| format!("srun: error: Node failure on {name}\n");
    let job = "slurmstepd: error: *** JOB 91 ON n1 CANCELLED AT 2026-11-21T03:04:05 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n";
    assert_eq!(count(&format!("{}{job}", node("n7"))), 1);
    assert_eq!(count(&format!("{job}{}", node("n7"))), 1);
    assert_eq!(count(&format!("{}{}", node("n7"), node("n8"))), 2);
}

/// The report has the rank that failed first at its end.
#[test]
fn ranks_that_torchrun_ended_follow_from_the_one_that_failed_first() {
    let rank = |time: &str, code: i32, pid: u32| {
        format!(
            "  time      : 2026-11-21_{time}\n  host      : n1\n  rank      : 0 (local_rank: 0)\n  exitcode  : {code} (pid: {pid})\n"
        )
    };
    let root = "Root Cause (first observed failure):\n[0]:\n";
    let causes = |ranks: &str, first: &str| {
        let report = of(&format!("Failures:\n{ranks}{root}{first}"));
        let of_death = |pid: u32| report.deaths.iter().find(|one| one.process.pid.0 == pid);
        let id = of_death(7).map(|one| one.id);
        let other = of_death(8).expect("the other rank");
        let follows = other.verdict.cause_death_id.is_some();
        assert!(!follows || other.verdict.cause_death_id == id);
        (other.verdict.killer, follows)
    };
    let by_torchrun = (Killer::RayCollapse, true);
    let by_nobody = (Killer::Unknown, false);
    let root = rank("13:02:58", 1, 7);
    for (other, first, judged) in [
        (rank("13:02:59", -15, 8), &root, by_torchrun),
        ("  exitcode  : -15 (pid: 8)\n".into(), &root, by_torchrun),
        (rank("13:03:29", -9, 8), &root, by_torchrun),
        // The kernel may have killed both.
        (rank("13:02:59", -9, 8), &root, by_nobody),
        ("  exitcode  : -9 (pid: 8)\n".into(), &root, by_nobody),
        (rank("13:02:58", 1, 8), &root, (Killer::Exit, false)),
        // Somebody stopped all of them.
        (
            rank("13:02:59", -15, 8),
            &rank("13:02:58", -15, 7),
            by_nobody,
        ),
    ] {
        assert_eq!(causes(&other, first), judged, "{other}{first}");
    }
    let open = of(&rank("13:02:59", -15, 8));
    assert_eq!(killers(&open), [(8, Killer::Unknown)]);
}

#[test]
fn programs_with_different_names_are_told_apart() {
    let exited = |name: &str| {
        format!(
            "2026-11-21 00:23:48,000 INFO exited: {name} (terminated by SIGKILL; not expected)\n"
        )
    };
    let text = format!("{}{}", exited("train"), exited("eval"));
    assert_eq!(of(&text).deaths.len(), 2);
}

#[test]
fn documents_and_other_programs_codes_are_no_deaths_by_signals() {
    for text in [
        "If a container is killed (exit code 137), raise its limit.\n",
        "Pods that end as OOMKilled (exit code 137) need a higher limit.\n",
        "Do not confuse it with a crash (exit code 139) of the worker.\n",
        "1. Container killed by YARN for exceeding memory limits. Consider a higher overhead.\n",
    ] {
        assert_eq!(killers(&of(text)), [], "{text}");
    }
    let ends = of("language server exited with code -1.\n").deaths;
    assert!(ends.iter().all(|death| death.end.signal.is_none()));
}

/// What did not happen, and what a sentence quotes, is no death.
#[test]
fn what_a_text_denies_or_quotes_is_no_death() {
    let sent = "earlyoom[1295]: sending SIGTERM to process 4101 uid 1000 \"java\": badness 1170, VmRSS 43912 MiB\n";
    let alive = format!("{sent}earlyoom[1295]: process 4101 did not exit\n");
    assert_eq!(killers(&of(&alive)), []);
    assert_eq!(killers(&of(sent)), [(4101, Killer::Signal)]);
    let quoted = "Successfully completed.\nLSF normally ends jobs that go over it and emits the `TERM_MEMLIMIT: job killed after reaching LSF memory usage limit` message\n";
    assert_eq!(killers(&of(quoted)), []);
    let sentence = "The docs say that \"mpirun noticed that process rank 0 with PID 21183 on node n1 exited on signal 9 (Killed).\" means memory\n";
    assert_eq!(killers(&of(sentence)), []);
    let refused = "4m7s Warning Evicted pod/egg-2 The node had condition: [MemoryPressure].\n";
    assert_eq!(killers(&of(refused)), []);
}

/// Where a program has a limit, the text says how that is raised.
#[test]
fn limit_of_a_batch_system_has_its_remedy() {
    for (text, option) in [
        (
            "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\n",
            "bsub -M",
        ),
        (
            "=>> PBS: job killed: walltime 86415 exceeded limit 86400\n",
            "qsub -l walltime=",
        ),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=8812.0. Some of the step tasks have been OOM Killed.\n",
            "sbatch --mem",
        ),
        (
            "Job has gone over memory limit of 4096 megabytes. Peak usage: 4088 megabytes.\n",
            "request_memory",
        ),
    ] {
        let report = of(text);
        let found = report.findings.iter().find(|one| one.rule == "set-limit");
        let found = found.unwrap_or_else(|| panic!("no finding: {text}"));
        assert!(found.remedy[0].contains(option), "{:?}", found.remedy);
        assert_eq!(found.deaths, [report.deaths[0].id]);
        let said = raytrace_core::clause::summary(&report.deaths[0]);
        assert!(said.starts_with("a process "), "{said}");
    }
}

/// The virtual machine says which fault it had, and the shell only that it aborted.
#[test]
fn jvm_names_its_fault() {
    let block = "# A fatal error has been detected by the Java Runtime Environment:\n#\n#  SIGSEGV (0xb) at pc=0x00007f1a2dfe8a10, pid=1901, tid=0x00007f1b6320d700\n";
    let shell = "run.sh: line 121:  1901 Aborted                 java -jar x.jar\n";
    let report = of(&format!("{block}{shell}"));
    assert_eq!(killers(&report), [(1901, Killer::Crash)]);
    assert_eq!(report.deaths[0].end.signal, Some(libc::SIGSEGV));
}

/// Slurm counts the kills of a step, and the shell of the batch script says which process it was.
#[test]
fn process_that_the_shell_names_is_the_victim_that_slurm_counts() {
    let shell = "/var/spool/slurmd/job00191/slurm_script: line 28:  8156 Killed                  python3 main.py\n";
    let slurm = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=191.batch cgroup.\n";
    let report = of(&format!("{shell}{slurm}"));
    assert_eq!(killers(&report), [(8156, Killer::KernelOom)]);
    assert_eq!(report.deaths[0].verdict.evidence.len(), 2);
    let far = format!("{shell}{}{slurm}", "epoch\n".repeat(20));
    assert_eq!(of(&far).deaths.len(), 2);
    let other = shell.replace("8156", "8157");
    assert_eq!(of(&format!("{shell}{other}{slurm}")).deaths.len(), 3);
}

/// What systemd kills of a unit is one act, whatever lines tell of it.
#[test]
fn unit_that_systemd_stops_is_one_first_cause() {
    let line = |what: &str| format!("Nov 21 10:34:11 n1 systemd[1]: train.service: {what}\n");
    let kill = |pid: u32, comm: &str| {
        line(&format!(
            "Killing process {pid} ({comm}) with signal SIGKILL."
        ))
    };
    let both = format!("{}{}", kill(640, "python3"), kill(641, "sh"));
    let late = line("State 'stop-sigterm' timed out. Killing.");
    let ended = line("Main process exited, code=killed, status=9/KILL");
    let report = of(&format!("{late}{both}{ended}"));
    assert_eq!(
        killers(&report),
        [(640, Killer::Signal), (641, Killer::Signal)]
    );
    let acts = report.deaths.iter().map(|one| one.verdict.act);
    let acts: Vec<_> = acts.map(|act| act.map(|act| act.death_id)).collect();
    assert_eq!(acts, [Some(report.deaths[0].id); 2]);
    let why = |text: &str| crate::show::words::clause(&of(text).deaths[0]);
    assert!(why(&format!("{late}{both}")).contains("in time"));
    assert!(!why(&both).contains("in time"), "nothing timed out");
    let other = both.replace("train", "eval").replace("64", "74");
    let report = of(&format!("{late}{both}{other}"));
    let first = report.deaths.iter().find(|one| one.process.pid.0 == 740);
    let first = first.expect("the other unit");
    assert_eq!(first.verdict.act.map(|act| act.death_id), Some(first.id));
    assert!(!crate::show::words::clause(first).contains("in time"));
}

/// The report is cut in the block of the rank that failed first.
#[test]
fn ranks_of_a_cut_report_follow_from_the_first_that_failed_by_itself() {
    let rank = |time: &str, code: i32, number: u32| {
        format!(
            "  time      : 2026-11-21_{time}\n  rank      : {number} (local_rank: 0)\n  exitcode  : {code} (pid: 7{number})\n"
        )
    };
    let text = format!(
        "{}{}{}Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-21_13:02:58\n",
        rank("13:03:29", -9, 0),
        rank("13:02:58", 1, 1),
        rank("13:03:29", -15, 2),
    );
    let report = of(&text);
    assert_eq!(
        killers(&report),
        [
            (70, Killer::RayCollapse),
            (71, Killer::Exit),
            (72, Killer::RayCollapse)
        ]
    );
    let name = &report.deaths[0].process.comm;
    assert_eq!(name, "process of rank 1");
}

/// A launcher closes the others, and another line says what had failed.
#[test]
fn what_a_launcher_closes_follows_from_the_first_end() {
    let closed = |pid: u32| {
        format!(
            "[2026-11-21 16:04:34,970] torch.distributed.elastic.multiprocessing.api: [WARNING] Unable to shutdown process {pid} via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL\n"
        )
    };
    let failed = "[2026-11-21 16:04:36,970] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -6) local_rank: 0 (pid: 263) of binary: python\n";
    let report = of(&format!("{}{failed}", closed(264)));
    assert_eq!(
        killers(&report),
        [(263, Killer::Crash), (264, Killer::RayCollapse)]
    );
    assert_eq!(killers(&of(&closed(264))), [(264, Killer::Signal)]);
    // What ended long before has nothing to do with it.
    let before = format!(
        "bash: line 3:    99 Killed                  python prep.py\n{}",
        "step\n".repeat(200)
    );
    let report = of(&format!("{before}{}", closed(264)));
    let of_closed = report.deaths.iter().find(|one| one.process.pid.0 == 264);
    assert_eq!(
        of_closed.map(|one| one.verdict.killer),
        Some(Killer::Signal)
    );
}

/// The line below has the job, or why the batch system ended it.
#[test]
fn a_batch_system_says_more_below_the_end() {
    let pbs = "=>> PBS: job killed: walltime 3632 exceeded limit 3600\n\nPBS Job 2130285.head1\n";
    let report = of(pbs);
    let name = &report.deaths[0].process.comm;
    assert_eq!(name, "a process of PBS job 2130285.head1");
    let moab = "PBS Job Id: 26.head1\nJob Name:   x\nJob deleted at request of root@head1\nMOAB_INFO:  job exceeded wallclock limit\n";
    let clause = crate::show::words::clause(&of(moab).deaths[0]);
    assert!(clause.ends_with("job exceeded wallclock limit"), "{clause}");
    let account = "jobname      align\njobnumber    3192235\nslots        8\nfailed       0\nexit_status  1                   \n";
    let report = of(account);
    assert_eq!(killers(&report), [(0, Killer::Exit)]);
    let name = &report.deaths[0].process.comm;
    assert_eq!(name, "a process of Grid Engine job 3192235");
}

#[test]
fn srun_names_the_task_of_the_step_that_slurmstepd_names() {
    let step = "slurmstepd: error: Detected 1 oom_kill event in StepId=11.0. Some of the step tasks have been OOM Killed.\n";
    let task = "srun: error: n6: task 0: Out Of Memory\n";
    for text in [format!("{step}{task}"), format!("{task}{step}")] {
        let report = of(&text);
        let [death] = report.deaths.as_slice() else {
            panic!("{:?}", report.deaths);
        };
        let name = &death.process.comm;
        assert_eq!(name, "a process of Slurm task 0 on n6, step 11.0");
    }
}

/// `kubectl describe node` also begins with a name.
#[test]
fn a_node_is_no_pod() {
    let event = "  Warning  SystemOOM   17m (x4 over 25m)   kubelet     System OOM encountered\n";
    let name = |second: &str| {
        let report = of(&format!("Name:               n1\n{second}Events:\n{event}"));
        report.deaths[0].process.comm.clone()
    };
    assert_eq!(name("Roles:              <none>\n"), "a process of node n1");
    assert_eq!(name("Namespace:          default\n"), "a process of pod n1");
}

#[test]
fn coredumpctl_has_the_signal_above_the_message() {
    let text = "           PID: 315 (python3)\n           UID: 0 (root)\n        Signal: 11 (SEGV)\n       Message: Process 315 (python3) of user 0 dumped core.\n";
    let report = of(text);
    assert_eq!(killers(&report), [(315, Killer::Crash)]);
    assert_eq!(report.deaths[0].end.signal, Some(libc::SIGSEGV));
}

#[test]
fn sigterm_of_a_unit_that_is_stopped_is_systemds() {
    let line = |what: &str| format!("Nov 21 10:34:11 n1 systemd[1]: {what}\n");
    let stop = line("Stopping train.service - Training...");
    let ended = line("train.service: Main process exited, code=killed, status=15/TERM");
    assert_eq!(killers(&of(&ended)), [(0, Killer::Unknown)]);
    assert_eq!(
        killers(&of(&format!("{stop}{ended}"))),
        [(0, Killer::Signal)]
    );
    let other = stop.replace("train", "eval");
    assert_eq!(
        killers(&of(&format!("{other}{ended}"))),
        [(0, Killer::Unknown)]
    );
    assert_eq!(killers(&of(&stop)), []);
    // Hours after a stop that went well, somebody else sent it.
    let later = ended.replace("10:34:11", "13:20:00");
    assert_eq!(
        killers(&of(&format!("{stop}{later}"))),
        [(0, Killer::Unknown)]
    );
}

/// Two lines without times stand close together.
#[test]
fn one_end_that_two_lines_tell_without_times_is_one_first_cause() {
    let github = "The runner has received a shutdown signal. This can happen when the runner service is stopped, or a manually started runner is canceled.\nProcess completed with exit code 137.\nThe operation was canceled.\n";
    assert_eq!(killers(&of(github)), [(0, Killer::Signal)]);
    let submitit = "submitit WARNING (2022-08-12 02:06:11,453) - Caught signal SIGUSR2 on n1: this job is preempted.\nslurmstepd: error: *** JOB 608 ON n1 CANCELLED AT 2022-08-12T02:06:12 DUE TO JOB REQUEUE ***\n";
    let report = of(submitit);
    assert_eq!(killers(&report), [(0, Killer::Signal)]);
    assert!(report.deaths[0].process.comm.contains("Slurm job 608"));
    let apart = submitit.replace('\n', &format!("\n{}", "step\n".repeat(400)));
    assert_eq!(of(&apart).deaths.len(), 2, "they are far apart");
}

/// Open MPI and Horovod name the rank that failed first above its exit code.
#[test]
fn exit_code_below_a_rank_is_of_that_rank() {
    let text = |name: &str, code: &str| {
        format!(
            "> the job to be terminated. The first process to do so was:\n>\n>   Process name: {name}\n>   Exit code:    {code}\n"
        )
    };
    let found = |name: &str, code: &str| {
        let report = of(&text(name, code));
        let [death] = report.deaths.as_slice() else {
            panic!("{name}: {:?}", report.deaths);
        };
        (death.verdict.killer, death.process.comm.clone())
    };
    let rank = "a process of MPI rank 3".to_owned();
    assert_eq!(found("[[34210,1],3]", "2"), (Killer::Exit, rank.clone()));
    assert_eq!(found("[[34210,1],3]", "137"), (Killer::Unknown, rank));
    let named = "a process of Horovod process worker-1[0]".to_owned();
    assert_eq!(found("worker-1[0]", "139"), (Killer::Crash, named));
    assert!(of("  Exit code:    2\n").deaths.is_empty(), "of no rank");
    assert!(of(&text("[[34210,1],3]", "0")).deaths.is_empty());
}

/// `DeepSpeed`'s launcher names the rank that had failed among those that it ends.
#[test]
fn ranks_that_deepspeed_ends_name_no_first_cause() {
    let killing = |pid: u32| {
        format!(
            "[2026-11-21 08:32:07,148] [INFO] [launch.py:131:sigkill_handler] Killing subprocess {pid}\n"
        )
    };
    let both = killing(640) + &killing(641);
    assert_eq!(killers(&of(&both)), [(0, Killer::Unknown)]);
    let failed = "[2026-11-21 08:32:07,150] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=4'] exits with return code = 1\n";
    assert_eq!(
        killers(&of(&format!("{both}{failed}"))),
        [(0, Killer::Exit)]
    );
}

/// What one launcher closes at once is one act, if what had failed is not in the text.
#[test]
fn what_a_launcher_closes_at_once_is_one_act() {
    let closing = |second: u32, pid: u32| {
        format!(
            "[2026-11-21 14:59:{second},020] torch.multiprocessing.spawn: [WARNING] Terminating process {pid} via signal SIGTERM\n"
        )
    };
    let acts = |text: &str| -> usize {
        let report = of(text);
        assert_eq!(report.deaths.len(), 2);
        let acts = report.deaths.iter().filter_map(|one| one.verdict.act);
        acts.map(|act| act.death_id)
            .collect::<std::collections::HashSet<_>>()
            .len()
    };
    assert_eq!(acts(&(closing(58, 640) + &closing(58, 641))), 1);
    assert_eq!(acts(&(closing(18, 640) + &closing(58, 641))), 0);
}

/// The report begins below the line on the first victim.
#[test]
fn kill_of_a_whole_cgroup_may_name_no_process() {
    let group = "Nov 21 10:34:11 n1 kernel: Tasks in /kubepods.slice/a.scope are going to be killed due to memory.oom.group set\n";
    let report = of(group);
    assert_eq!(killers(&report), [(0, Killer::KernelOomMemcg)]);
    let killed = "Nov 21 10:34:11 n1 kernel: Memory cgroup out of memory: Killed process 640 (python) total-vm:100kB, anon-rss:7kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:0\n";
    let both = [format!("{group}{killed}"), format!("{killed}{group}")];
    for text in both {
        assert_eq!(
            killers(&of(&text)),
            [(640, Killer::KernelOomMemcg)],
            "{text}"
        );
    }
}

/// Talos puts the facility and the time before a line of the kernel log.
#[test]
fn talos_dates_its_kernel_log() {
    let text = "user: warning: [2026-01-12T20:27:31.913975631Z]: [talos] Sending SIGKILL to cgroup {\"component\": \"controller-runtime\", \"controller\": \"runtime.OOMController\", \"cgroup\": \"/sys/fs/cgroup/kubepods/burstable/pod77f06c5c-4593\"}\n";
    let report = of(text);
    let [death] = report.deaths.as_slice() else {
        panic!("{:?}", report.deaths);
    };
    assert!(death.when.time.is_some());
    assert_eq!(
        death.process.comm,
        "a process of the pod with uid 77f06c5c-4593"
    );
}
