//! Tests sessions that ended well, logs as people paste them, and lines about other people's jobs.

use super::{explain, killers};
use crate::judge::{
    missing::Missing,
    report::{Killer, Report},
};

fn gcs(seconds: u32, what: &str) -> String {
    format!(
        "[2026-11-21 00:23:{seconds:02},100 I 243 243] (gcs_server) gcs_job_manager.cc:156: {what}"
    )
}

fn raylet(seconds: u32, what: &str) -> String {
    format!("[2026-11-21 00:23:{seconds:02},651 I 314 314] (raylet) main.cc:1174: {what}")
}

const STARTED: &str = "Registering job. job_id=01000000 driver_pid=50";
const ENDED: &str = "Marking job as finished. job_id=01000000";

/// A raylet of Ray 2.9 that is told to end at second 30, and the GCS's words about its job.
fn told_to_end(gcs_says: &[String]) -> Report {
    let raylet = raylet(30, "Raylet received SIGTERM, shutting down...");
    explain(&[
        ("s/logs/gcs_server.out", &gcs_says.join("\n")),
        ("s/logs/raylet.out", &raylet),
    ])
}

fn listed(report: &Report) -> usize {
    report.deaths.iter().filter(|death| death.listed).count()
}

#[test]
fn raylet_end_after_all_jobs_is_not_listed() {
    let over = told_to_end(&[gcs(10, STARTED), gcs(20, ENDED)]);
    assert_eq!(listed(&over), 0, "{:?}", over.deaths);
    let running = told_to_end(&[gcs(10, STARTED)]);
    assert_eq!(listed(&running), 1, "{:?}", running.deaths);
    let later = told_to_end(&[gcs(10, STARTED), gcs(40, ENDED)]);
    assert_eq!(listed(&later), 1, "{:?}", later.deaths);
}

/// Returns the lines of a raylet of Ray 2.60 that shuts down for a reason and stops two workers.
fn shuts_down(first: &str, reason: &str) -> String {
    let shutdown = format!("Raylet graceful shutdown triggered with death info: reason: {reason}");
    let stopped = |pid: u32| {
        let worker = format!("{pid:056x}");
        raylet(
            30,
            &format!("Stop: sending SIGKILL to pgid={pid} worker_id={worker}"),
        )
    };
    let lines = [
        raylet(30, first),
        raylet(30, &shutdown),
        stopped(901),
        stopped(902),
    ];
    lines.join("\n")
}

const AGENT_FAILED: &str =
    "The raylet exited immediately because one Ray agent failed, agent_name = dashboard_agent.";

#[test]
fn stopped_workers_follow_from_their_raylet() {
    let agent = shuts_down(AGENT_FAILED, "UNEXPECTED_TERMINATION");
    let told = shuts_down(
        "received SIGTERM. Existing local drain request = None",
        "EXPECTED_TERMINATION",
    );
    for (text, killer) in [(agent, Killer::RayCollapse), (told, Killer::RayIntended)] {
        let report = explain(&[("raylet.out", &text)]);
        let [first, workers @ ..] = report.deaths.as_slice() else {
            panic!("no death");
        };
        assert_eq!(first.process.comm, "raylet");
        assert_eq!((first.verdict.killer, first.listed), (killer, true));
        assert_eq!(first.verdict.cause_death_id, None);
        let causes: Vec<_> = workers
            .iter()
            .map(|death| death.verdict.cause_death_id)
            .collect();
        assert_eq!(causes, [Some(first.id); 2]);
    }
}

/// Nobody asks about a cluster that ended after its jobs.
#[test]
fn shutdown_after_all_jobs_is_not_listed() {
    let told = shuts_down(
        "received SIGTERM. Existing local drain request = None",
        "EXPECTED_TERMINATION",
    );
    let over = [gcs(10, STARTED), gcs(20, ENDED)].join("\n");
    let report = explain(&[
        ("s/logs/gcs_server.out", &over),
        ("s/logs/raylet.out", &told),
    ]);
    assert_eq!(listed(&report), 0, "{:?}", report.deaths);
}

#[test]
fn sigterm_before_agent_end_is_the_cause() {
    let sigterm = raylet(30, "Raylet received SIGTERM, shutting down...");
    let agent = raylet(30, AGENT_FAILED);
    let cause = |text: &str| {
        let report = explain(&[("raylet.out", text)]);
        let death = &report.deaths[0];
        (
            crate::show::clause::of(death),
            death.verdict.missing.clone(),
        )
    };
    let (clause, missing) = cause(&format!("{sigterm}\n{agent}"));
    assert_eq!(
        clause,
        "was terminated by SIGTERM, sender unknown (a normal stop sends it too)"
    );
    assert_eq!(missing, Some(Missing::Sender));
    // This Ray sends it to itself when an agent has ended.
    assert_eq!(
        cause(&format!("{agent}\n{sigterm}")).0,
        "shut down: its node's dashboard_agent died"
    );
}

#[test]
fn session_without_deaths_has_no_after_effects() {
    let line = "[2026-11-21 00:23:31,000 W 99 99] gcs_client.cc:1: RPC error: Socket closed";
    let report = explain(&[(
        "python-core-driver-01000000ffffffffffffffffffffffffffffffffffffffffffffffff_99.log",
        line,
    )]);
    assert_eq!(report.notes, Vec::<String>::new());
}

const DIED: &str =
    "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.";
const LOST: &str = "Worker unexpectedly exits with a connection error code 2. End of file.";

#[test]
fn lines_without_process_are_one_unknown_death() {
    for text in [DIED.to_owned(), LOST.to_owned(), format!("{DIED}\n{LOST}")] {
        let report = explain(&[("driver.log", &text)]);
        assert_eq!(killers(&report), [(0, Killer::Unknown)], "{text}");
        let missing = report.deaths[0].verdict.missing.as_ref();
        let missing = crate::show::clause::missing(missing.expect("what is missing"));
        for part in [
            "which process it was",
            "an OOM kill by the kernel, a kill -9, a crash, an os._exit and the end of its raylet alike",
            "sudo dmesg --time-format=iso > dmesg.txt; raytrace explain /tmp/ray/session_latest dmesg.txt",
        ] {
            assert!(missing.contains(part), "{missing}");
        }
    }
}

#[test]
fn lines_without_process_join_a_named_death() {
    let named = format!("{LOST}\n{ACTOR}");
    let report = explain(&[("driver.log", &named)]);
    assert_eq!(killers(&report), [(926, Killer::Unknown)]);
}

#[test]
fn outdated_link_counts_only_in_a_log() {
    let text =
        "see https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html for more";
    let notes = |name: &str| {
        let notes = explain(&[(name, text)]).notes.into_iter();
        notes.filter(|note| note.contains("today: ")).count()
    };
    assert_eq!(
        notes("s/metrics/grafana/dashboards/default_grafana_dashboard.json"),
        0
    );
    assert_eq!(notes("s/metrics/prometheus/prometheus.yml"), 0);
    assert_eq!(notes("s/logs/raylet.out"), 1);
    assert_eq!(notes("driver.log"), 1);
}

const ACTOR: &str = "\
The actor died unexpectedly before finishing this task.
\tclass_name: create_colocated_worker_cls.<locals>.WorkerDict
\tactor_id: 11111111111111111111111101000000
\tpid: 926
\tip: 192.0.2.2
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.";

#[test]
fn class_inside_function_has_its_short_name() {
    let report = explain(&[("driver.log", ACTOR)]);
    let class = report.deaths[0].work.actor_class.as_deref();
    assert_eq!(class, Some("WorkerDict"));
}

#[test]
fn nested_class_joins_the_kernels_victim() {
    let raylet = raylet(47, "Starting agent");
    let raylet = raylet.replace("314", "900");
    let kernel = "\
2026-11-21T00:23:48+0000 gpu-07 kernel: [  900]     0   900   100     5000 400 0 0 0 raylet
2026-11-21T00:23:48+0000 gpu-07 kernel: Out of memory: Killed process 926 (ray::WorkerDict) total-vm:100kB, anon-rss:6553600kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:100kB oom_score_adj:0";
    let dated = ACTOR.replace("The actor died", "2026-11-21T00:23:48.500Z The actor died");
    let report = explain(&[
        ("raylet.out", &raylet),
        ("driver.log", &dated),
        ("dmesg.txt", kernel),
    ]);
    assert_eq!(killers(&report), [(926, Killer::KernelOomGlobal)]);
}

const TABLE: &str =
    "PID\tMEM(GB)\tCOMMAND\n3120\t219.80\tray::TaskRunner.run\n4101\t0.84\tray::compute_score\n";

#[test]
fn memory_table_alone_is_an_unknown_death() {
    let coloured: Vec<String> = TABLE
        .lines()
        .map(|line| format!("^[[36m(raylet)^[[0m {line}"))
        .collect();
    let coloured = coloured.join("\n");
    for text in [TABLE.to_owned(), TABLE.replace('\t', " "), coloured] {
        let report = explain(&[("driver.log", &text)]);
        assert_eq!(killers(&report), [(0, Killer::Unknown)], "{text}");
        let top = &report.deaths[0].memory.top;
        assert_eq!(top[0].title, "ray::TaskRunner.run", "{text}");
    }
    assert_eq!(
        explain(&[("x", "PID MEM(GB) COMMAND\nnothing")])
            .deaths
            .len(),
        0
    );
}

/// A kill record of Ray 2.60 that names the first task of the worker's lease.
fn leased(separator: &str) -> String {
    let node = "ab".repeat(28);
    let lease = "02".repeat(32);
    let worker = "2a".repeat(28);
    [
        format!("1 worker(s) were killed due to the node running low on memory. Memory on the node (IP: 192.0.2.2, ID: {node}) was 2.04GB used / 4.00GB limit (0.509611)"),
        format!("Selected to kill: (Task: job ID=01000000, lease ID={lease}, task name=hog_two_a, required resources={{CPU: 1}}, pid=1487, actual memory used=0.70GB, worker ID={worker})"),
        "Top 10 memory users:".to_owned(),
        "PID\tMEM(GB)\tCOMMAND".to_owned(),
        "1486\t0.73\tray::hog_two_a".to_owned(),
        "1487\t0.70\tray::hog_two_b".to_owned(),
        " suggestions: Refer to the documentation".to_owned(),
    ]
    .join(separator)
}

#[test]
fn killed_task_has_its_running_name() {
    let report = explain(&[("driver.log", &leased("\n"))]);
    let death = &report.deaths[0];
    assert_eq!(death.work.task_name.as_deref(), Some("hog_two_b"));
    let last = death.verdict.evidence.last().expect("evidence");
    assert_eq!(
        last.what,
        "Ray's kill record calls it hog_two_a, the first task of its lease"
    );
    // The record and the table agree.
    let same = leased("\n").replace("hog_two_b", "hog_two_a");
    let report = explain(&[("driver.log", &same)]);
    let death = &report.deaths[0];
    assert_eq!(death.work.task_name.as_deref(), Some("hog_two_a"));
    assert_eq!(death.verdict.evidence.len(), 1);
}

/// A program may print Ray's message in one line.
#[test]
fn joined_table_rows_have_plain_names() {
    let report = explain(&[("driver.log", &leased(" | "))]);
    let titles = report.deaths[0].memory.top.iter();
    let titles: Vec<&str> = titles.map(|one| one.title.as_str()).collect();
    assert_eq!(titles, ["ray::hog_two_a", "ray::hog_two_b"]);
}

#[test]
fn zone_is_not_asked_for_undated_deaths() {
    let dated = format!(
        "[2026-11-21 00:15:29,131 E 51 51] (raylet) node_manager.cc:3517: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: {}, IP: 192.0.2.2) over the last time period.",
        "ab".repeat(28)
    );
    let report = explain(&[("driver.log", &format!("{dated}\n{}", leased("\n")))]);
    assert_eq!(
        report.texts[0].clock,
        "local times of an unknown zone; the lines on deaths have no time"
    );
}

#[test]
fn caret_escapes_before_a_record_are_removed() {
    let text = format!(
        "^[[36m(raylet)^[[0m Memory on the node (IP: 192.0.2.2, ID: {}) where the task (task ID: {}, name=f, pid=31, memory used=8.00GB) was running was 240.00GB / 251.54GB (0.954123), which exceeds the memory usage threshold of 0.95.",
        "ab".repeat(28),
        "0d".repeat(24)
    );
    let report = explain(&[("driver.log", &text)]);
    assert_eq!(killers(&report), [(31, Killer::RayMemoryMonitor)]);
}

#[test]
fn journal_line_without_a_host_is_read() {
    let kill = "kernel: Out of memory: Killed process 926 (ray::WorkerDict) total-vm:100kB, anon-rss:6553600kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:100kB oom_score_adj:0";
    for before in [
        "Nov 21 00:23:48 ",
        "Nov 21 00:23:48 … ",
        "… ",
        "2026-11-21T00:23:48+0000 ",
        "2026-11-21T00:23:48+0000 … ",
    ] {
        let report = explain(&[("journal.txt", &format!("{before}{kill}"))]);
        assert_eq!(
            killers(&report),
            [(926, Killer::KernelOomGlobal)],
            "{before}"
        );
    }
}

#[test]
fn platform_names_killer_of_an_xargs_child() {
    let xargs = "xargs: python3: terminated by signal 9";
    assert_eq!(
        killers(&explain(&[("x.log", xargs)])),
        [(0, Killer::Unknown)]
    );
    let both = format!("{xargs}\nContainer trainer was killed by OOM Killer");
    assert_eq!(
        killers(&explain(&[("x.log", &both)])),
        [(0, Killer::KernelOom)]
    );
}

#[test]
fn other_jobs_command_line_is_ignored() {
    let text = format!(
        "(raylet) Memory on the node (IP: 192.0.2.2, ID: {}) where the task (task ID: {}, name=f, pid=31, memory used=80.00GB) was running was 240.00GB / 251.54GB (0.954123), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: {}) because it was the most recently scheduled task\nTop 10 memory users:\nPID\tMEM(GB)\tCOMMAND\n31\t80.00\tray::f\n77\t60.00\tpython3 -m verl.trainer.main_ppo actor_rollout_ref.actor.fsdp_config.param_offload=True\n",
        "ab".repeat(28),
        "0d".repeat(24),
        "02".repeat(28),
    );
    let report = explain(&[("driver.log", &text)]);
    assert_eq!(killers(&report), [(31, Killer::RayMemoryMonitor)]);
    let advice: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| !finding.remedy.is_empty() || finding.rule.starts_with("setting-"))
        .collect();
    assert!(advice.is_empty(), "{advice:?}");
    // The same command line counts if this job has run it.
    let typed =
        "+ python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.fsdp_config.param_offload=True";
    let report = explain(&[("driver.log", &format!("{typed}\n{text}"))]);
    let rules: Vec<&str> = report
        .findings
        .iter()
        .map(|one| one.rule.as_str())
        .collect();
    assert!(rules.contains(&"setting-takes-host-memory"), "{rules:?}");
}

/// A node that did not answer may be alive, so no death is made of it.
#[test]
fn node_declared_dead_is_noted() {
    let id = "0c3d1f5d5f8e1a5a0f5a7e0c7b0b4b1c3a9f6d2e7c8b1a0d9e8f7c6b";
    let driver = format!(
        "(raylet) The node with node id: {id} and address: 192.0.2.12 and node name: gpu-12 has been marked dead because the detector has missed too many heartbeats from it. This can happen when a \t(1) raylet crashes unexpectedly (OOM, preempted node, etc.) \n\t(2) raylet has lagging heartbeats due to slow network or busy workload.\n"
    );
    let gcs = format!(
        "[2026-11-21 10:02:11,121 W 411 411] (gcs_server) gcs_node_manager.cc:430: Removing node, node id = {id}, node name = gpu-12, death reason = UNEXPECTED_TERMINATION, death message = health check failed due to missing too many heartbeats\n"
    );
    let why = "dead because it did not answer: the machine or the raylet had ended, or was too slow. Explain its raylet.out and kernel log too";
    let report = explain(&[("driver.log", &driver)]);
    assert_eq!(killers(&report), []);
    assert_eq!(
        report.notes,
        [format!(
            "Ray's GCS declared node 0c3d1f5d (192.0.2.12, driver.log:1) {why}"
        )]
    );
    let report = explain(&[("gcs_server.out", &gcs)]);
    assert_eq!(
        report.notes[0],
        format!("Ray's GCS declared node 0c3d1f5d (gcs_server.out:1) {why}")
    );
    let drained = gcs.replace(
        "health check failed due to missing too many heartbeats",
        "drained",
    );
    assert_eq!(explain(&[("gcs_server.out", &drained)]).notes, [""; 0]);
}

/// A log of a worker of Ray 2.60 that says that its raylet is gone.
fn without_raylet(pid: u32, second: u32) -> (String, String) {
    let name = format!("s/logs/python-core-worker-{pid:056x}_{pid}.log");
    let says = format!(
        "[2026-11-21 00:23:{second:02},300 I {pid} 80] core_worker.cc:4500: Shutting down the core worker because the local raylet failed. Check out the raylet.out log file. Raylet pid: 314\n"
    );
    (name, says)
}

/// The end of a raylet that only its workers tell of is a death, and theirs follow from it.
#[test]
fn workers_follow_from_the_raylet_that_they_name() {
    let (first, second) = (without_raylet(901, 40), without_raylet(902, 41));
    let workers = [(first.0.as_str(), first.1.as_str()), (&second.0, &second.1)];
    let cause = |report: &Report, pid: u32| {
        let mut deaths = report.deaths.iter();
        let death = deaths.find(|death| death.process.pid.0 == pid);
        death.expect("a death").verdict.cause_death_id
    };
    let alone = explain(&workers);
    assert_eq!(
        killers(&alone),
        [
            (314, Killer::Unknown),
            (901, Killer::RayCollapse),
            (902, Killer::RayCollapse)
        ]
    );
    let id = Some(alone.deaths[0].id);
    assert_eq!((cause(&alone, 901), cause(&alone, 902)), (id, id));
    assert_eq!(
        alone.deaths[0].verdict.missing,
        Some(Missing::RayletEnd),
        "what would tell why it ended"
    );
    let told = raylet(30, "Raylet received SIGTERM, shutting down...");
    let known = explain(&[("s/logs/raylet.out", told.as_str()), workers[0], workers[1]]);
    assert_eq!(known.deaths.len(), 3, "{:?}", known.deaths);
    let id = Some(known.deaths[0].id);
    assert_eq!((cause(&known, 901), cause(&known, 902)), (id, id));
    assert!(known.deaths.iter().all(|death| death.listed));
}

/// The kernel log has the kills of other runs too.
#[test]
fn kills_of_other_runs_are_left_out() {
    let kill = |time: &str, pid: u32| {
        format!(
            "{time} Out of memory: Killed process {pid} (ray::Rollout) total-vm:100kB, anon-rss:700716kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:1000\n"
        )
    };
    let dmesg = [
        kill("2026-11-20T09:00:00,100000+00:00", 1),
        kill("2026-11-21T00:20:00,100000+00:00", 2),
        kill("2026-11-21T00:30:00,100000+00:00", 3),
        kill("2026-11-21T02:30:00,100000+00:00", 4),
        kill("2026-11-23T00:30:00,100000+00:00", 5),
    ]
    .concat();
    let zone = "2026-11-21T00:23:31.000000+00:00 [2026-11-21 00:23:31,000 I 314 314] (raylet) main.cc:1: killed due to memory pressure (OOM)\n";
    let first = raylet(10, "Setting cluster ID to: 39cf70\n");
    let last = raylet(59, "Event stats:\n");
    let pids = |log: &str| {
        let report = explain(&[("s/logs/raylet.out", log), ("dmesg.txt", &dmesg)]);
        let kills = report.deaths.iter().map(|death| death.process.pid.0);
        let mut kills: Vec<u32> = kills.filter(|pid| (1..=5).contains(pid)).collect();
        kills.sort_unstable();
        (kills, report.notes)
    };
    let (kept, notes) = pids(&[first.as_str(), zone, &last].concat());
    assert_eq!(kept, [3]);
    let note = "4 deaths in dmesg.txt are not of this run: before Ray's logs begin (2026-11-21 00:23:10.651), or more than an hour after they end (2026-11-21 00:23:59.651); explain dmesg.txt alone to list them";
    assert!(notes.iter().any(|one| one == note), "{notes:#?}");
    // It may be cut at the beginning.
    let (kept, _) = pids(&[zone, last.as_str()].concat());
    assert_eq!(kept, [1, 2, 3]);
    // Its zone may be any.
    let (kept, notes) = pids(&[first.as_str(), &last].concat());
    assert_eq!(kept, [2, 3, 4]);
    assert!(
        notes.iter().any(|one| one.contains("(--log-tz)")),
        "{notes:#?}"
    );
    // No zone makes a kill of the day before that of a worker of this run.
    let lost = raylet(
        40,
        "Disconnecting worker, graceful=false, disconnect_type=0 worker_id=2abec82d00000000000000000000000000000000000000000000abcd\n",
    );
    let (kept, _) = pids(&[first.as_str(), &lost, &last].concat());
    assert_eq!(kept, [2, 3, 4]);
}
