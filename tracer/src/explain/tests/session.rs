//! Tests sessions that ended well, logs as people paste them, and lines about other people's jobs.

use super::{explain, killers};
use crate::judge::report::{Killer, Report};

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
            "an OOM kill by the kernel, a kill -9, a crash and an os._exit alike",
            "sudo dmesg > dmesg.txt; raytrace explain /tmp/ray/session_latest dmesg.txt",
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
    let notes = |name: &str| explain(&[(name, text)]).notes;
    assert_eq!(
        notes("s/metrics/grafana/dashboards/default_grafana_dashboard.json").len(),
        0
    );
    assert_eq!(notes("s/metrics/prometheus/prometheus.yml").len(), 0);
    assert_eq!(notes("s/logs/raylet.out").len(), 1);
    assert_eq!(notes("driver.log").len(), 1);
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
