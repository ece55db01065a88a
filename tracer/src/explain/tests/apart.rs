//! Tests identity: one pid for two processes, and two names for one process.

use super::{explain, killers};
use crate::{
    ids::Bytes,
    judge::report::{Death, Killer},
    show::clause,
};

fn killed(time: &str, pid: u32, comm: &str) -> String {
    format!(
        "{time} gpu-07 kernel: Memory cgroup out of memory: Killed process {pid} ({comm}) total-vm:100kB, anon-rss:700716kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:1000\n"
    )
}

/// Returns a driver's words about an actor that ended suddenly at 00:23:48.
fn lost(class: &str, pid: u32, ip: &str) -> String {
    let lines = [
        "The actor died unexpectedly before finishing this task.".to_owned(),
        format!("\tclass_name: {class}"),
        "\tactor_id: 11111111111111111111111101000000".to_owned(),
        format!("\tpid: {pid}"),
        format!("\tip: {ip}"),
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.".to_owned(),
    ];
    let dated = lines.map(|line| format!("2026-11-21T00:23:48.000000000Z stdout F {line}\n"));
    dated.concat()
}

/// They are joined by pid, name and time.
#[test]
fn raylet_and_child_join_the_kernel_log() {
    let raylet = "\
2026-11-21T00:23:48.2Z stderr F (raylet) Raylet is terminated. Termination is unexpected. Possible reasons include: (1) SIGKILL by the user or system OOM killer. Last 20 lines of the Raylet logs:
2026-11-21T00:23:48.2Z stderr F     [2026-11-21 00:23:40,000 I 1998 1998] (raylet) node_manager.cc:1: hello\n";
    let child = "2026-11-21T00:23:48.2Z stderr F (TaskRunner pid=3120) RuntimeError: DataLoader worker (pid 4218) is killed by signal: Killed.\n";
    for (text, pid, comm) in [(raylet, 1998, "raylet"), (child, 4218, "pt_data_worker")] {
        let near = killed("2026-11-21T00:23:47+0000", pid, comm);
        let report = explain(&[("driver.log", text), ("journal.txt", &near)]);
        assert_eq!(killers(&report), [(pid, Killer::KernelOomMemcg)], "{comm}");
        let late = killed("2026-11-21T00:24:47+0000", pid, comm);
        let report = explain(&[("driver.log", text), ("journal.txt", &late)]);
        assert_eq!(report.deaths.len(), 2, "{comm}");
    }
    let other = killed("2026-11-21T00:23:47+0000", 4219, "pt_data_worker");
    let report = explain(&[("driver.log", child), ("journal.txt", &other)]);
    assert_eq!(report.deaths.len(), 2);
    let foreign = killed("2026-11-21T00:23:47+0000", 1998, "chrome");
    let report = explain(&[("driver.log", raylet), ("journal.txt", &foreign)]);
    assert_eq!(report.deaths.len(), 2);
}

#[test]
fn same_pid_on_two_nodes_is_two_processes() {
    let text = lost("Rollout", 1234, "192.0.2.2")
        + "(Reward pid=1234, ip=192.0.2.3) *** SIGSEGV received at time=1763703810 on cpu 12 ***\n";
    let report = explain(&[("driver.log", &text)]);
    assert_eq!(
        killers(&report),
        [(1234, Killer::Crash), (1234, Killer::Unknown)]
    );
}

#[test]
fn raylets_of_two_folders_are_two_unless_copies() {
    let at = |hour: u32| {
        format!(
            "[2026-11-21 {hour}:00:00,000 I 60 60] (raylet) main.cc:100: received SIGTERM. Existing local drain request = None\n"
        )
    };
    let (one, other) = (at(11), at(12));
    let report = explain(&[("n1/raylet.out", &one), ("n2/raylet.out", &other)]);
    assert_eq!(report.deaths.len(), 2);
    let report = explain(&[("n1/raylet.out", &one), ("n1/raylet.err", &other)]);
    assert_eq!(report.deaths.len(), 1);
    let report = explain(&[("n1/raylet.out", &one), ("copy/raylet.out", &one)]);
    assert_eq!(report.deaths.len(), 1);
}

#[test]
fn pid_killed_twice_in_days_is_two_processes() {
    let text = killed("2026-11-10T08:43:29+0000", 5123, "python3")
        + &killed("2026-11-20T09:43:29+0000", 5123, "python3");
    let report = explain(&[("journal.txt", &text)]);
    assert_eq!(killers(&report), [(5123, Killer::KernelOomMemcg); 2]);
    let text = killed("2026-11-10T08:43:29+0000", 5123, "python3")
        + &killed("2026-11-10T08:43:30+0000", 5123, "python3");
    let report = explain(&[("journal.txt", &text)]);
    assert_eq!(report.deaths.len(), 1);
}

#[test]
fn longer_or_idle_names_do_not_match() {
    for (class, comm, joined) in [
        ("Worker", "ray::WorkerDict", false),
        ("Worker", "ray::IDLE", false),
        ("Worker", "ray::Worker", true),
        ("Worker", "ray::Worker.run", true),
        ("WorkerDict", "ray::WorkerDict", true),
        ("WorkerDictionary", "ray::WorkerDict", true),
    ] {
        let text = lost(class, 1234, "192.0.2.2");
        let kernel = killed("2026-11-21T00:23:47+0000", 51_877, comm);
        let report = explain(&[("driver.log", &text), ("journal.txt", &kernel)]);
        assert_eq!(
            report.deaths.len(),
            if joined { 1 } else { 2 },
            "{class} {comm}"
        );
    }
}

/// Returns the cause of the worker's death; `Z` in a time dates a line with its zone.
fn cause(raylet: &str, worker: &str, ip: &str) -> Option<u64> {
    let text = format!(
        "{worker}A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. Lease ID: 03 Worker ID: 2abec82d00000000000000000000000000000000000000000000abcd Node ID: abababababababababababababababababababababababababababab Worker IP address: {ip} Worker port: 10013 Worker PID: 4218 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly by a signal.\n{raylet}(raylet, ip=192.0.2.2) received SIGTERM\n{raylet}[2026-11-21 18:00:00,000 I 900 900] (raylet) main.cc:100: received SIGTERM. Existing local drain request = None\n"
    );
    let report = explain(&[("some.log", &text)]);
    let worker = |death: &&Death| death.process.pid.0 == 4218;
    let death = report.deaths.iter().find(worker).expect("the worker");
    death.verdict.cause_death_id.map(|id| id.0)
}

#[test]
fn raylet_death_explains_only_ends_near_in_time() {
    let raylet = "2026-11-21T10:00:00.000Z stderr F ";
    let at = |time: &str| format!("2026-11-21T{time}Z stderr F ");
    assert!(cause(raylet, &at("10:00:59.000"), "192.0.2.2").is_some());
    assert!(cause(raylet, &at("09:59:56.000"), "192.0.2.2").is_some());
    assert_eq!(cause(raylet, &at("10:01:01.000"), "192.0.2.2"), None);
    assert_eq!(cause(raylet, &at("09:59:54.000"), "192.0.2.2"), None);
    assert_eq!(cause(raylet, &at("02:00:00.000"), "192.0.2.2"), None);
    assert_eq!(cause(raylet, "", "192.0.2.2"), None);
}

/// The record of Ray's kill of pid 41877 at 16:41:07.480.
const BY_RAY: &str = "\
2026-11-20T16:41:07.480Z stderr F [2026-11-20 16:41:07,480 E 1998 1998] (raylet) node_manager.cc:3199: Killing 1 worker(s), kill details: Memory on the node (IP: 192.0.2.2, ID: abababababababababababababababababababababababababababab) was 490.00GB used / 512.00GB limit (0.957031)
2026-11-20T16:41:07.480Z stderr F Considered workers: [
2026-11-20T16:41:07.480Z stderr F Selected to kill: (Task: job ID=01000000, lease ID=0200, task name=hog_two, required resources={CPU: 1}, pid=41877, actual memory used=0.67GB, worker ID=2abec82d00000000000000000000000000000000000000000000abcd)
2026-11-20T16:41:07.480Z stderr F ]
";
const REAPED: &str = "2026-11-20T16:41:07+0000 gpu-07 kernel: oom_reaper: reaped process 41877 (ray::hog_two), now anon-rss:0kB, file-rss:0kB, shmem-rss:1024kB\n";

/// The kernel reaps the memory of a process that was already exiting.
#[test]
fn reaped_process_was_not_killed_by_kernel() {
    let report = explain(&[("raylet.log", BY_RAY), ("journal.txt", REAPED)]);
    assert_eq!(killers(&report), [(41_877, Killer::RayMemoryMonitor)]);
    let report = explain(&[("journal.txt", REAPED)]);
    assert_eq!(killers(&report), [(41_877, Killer::Unknown)]);
    let clause = clause::of(&report.deaths[0]);
    assert!(clause.contains("already exiting"), "{clause}");
}

/// The kernel skips a process that is already dying, except when it kills a whole cgroup.
#[test]
fn kernel_kill_outranks_rays_unless_group_kill() {
    for second in ["07", "08"] {
        let time = format!("2026-11-20T16:41:{second}+0000");
        let kernel = killed(&time, 41_877, "ray::hog_two");
        let report = explain(&[("raylet.log", BY_RAY), ("journal.txt", &kernel)]);
        assert_eq!(
            killers(&report),
            [(41_877, Killer::KernelOomMemcg)],
            "{second}"
        );
        let group = format!(
            "{time} gpu-07 kernel: Tasks in /job are going to be killed due to memory.oom.group set\n{kernel}"
        );
        let report = explain(&[("raylet.log", BY_RAY), ("journal.txt", &group)]);
        assert_eq!(killers(&report), [(41_877, Killer::Unknown)], "{second}");
    }
}

/// The victims of one decision are one first cause, which the largest of them stands for.
#[test]
fn one_decision_is_one_cause() {
    let record = |used: &str, pids: [u32; 2], time: &str| {
        let victims = pids.map(|pid| {
            format!(
                "{time}Selected to kill: (Task: job ID=01000000, lease ID=0200, task name=hog, required resources={{CPU: 1}}, pid={pid}, actual memory used=0.{pid}GB, worker ID={pid:056x})\n"
            )
        });
        format!(
            "{time}(raylet) node_manager.cc:3199: Killing 2 worker(s), kill details: Memory on the node (IP: 192.0.2.2, ID: abababababababababababababababababababababababababababab) was 5.00GB used / 23.54GB limit (0.212404)\n{time}OOM kill reason: Memory usage {used}B exceeded threshold of 4944083968B (19.6% of 25276502016B limit)\n{time}Considered workers: [\n{}{time}]\n",
            victims.concat()
        )
    };
    for time in ["", "2026-11-20T16:41:07.480Z stderr F "] {
        let two = record("5000000001", [41, 42], time) + &record("5000000002", [43, 44], time);
        let report = explain(&[("driver.log", &two)]);
        let stands = |death: &Death| {
            let act = death.verdict.act.expect("a decision");
            assert_eq!(act.victims, 2);
            let mut deaths = report.deaths.iter();
            let head = deaths.find(|one| one.id == act.death_id);
            head.expect("a death").process.pid.0
        };
        let heads = report.deaths.iter().map(stands);
        assert_eq!(heads.collect::<Vec<u32>>(), [42, 42, 44, 44], "{time}");
    }
}

/// Journals of two hosts in one text have the same units and pids.
#[test]
fn merged_journals_of_two_hosts_are_told_apart() {
    let line = |host: &str, what: &str| format!("Nov 21 10:34:11 {host} {what}\n");
    let unit = |host: &str, what: &str| line(host, &format!("systemd[1]: train.service: {what}"));
    let oom = "kernel: Out of memory: Killed process 640 (python) total-vm:100kB, anon-rss:700716kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:0";
    let fault = "kernel: python[640]: segfault at 1 ip 00007fa3372ec052 sp 00007fffeaa9e518 error 6 in libc.so.6[7fa3372ec000+1000]";
    let killed = "Main process exited, code=killed, status=9/KILL";
    let asked = "Main process exited, code=killed, status=15/TERM";
    let stopping = "systemd[1]: Stopping train.service - Training...";
    let of_two = |first: String, second: String, found: [(u32, Killer); 2]| {
        let both = first + &second;
        let report = explain(&[("journal.txt", &both)]);
        assert_eq!(killers(&report), found, "{both}");
        let nodes = report.deaths.iter().map(|death| death.node.as_deref());
        let nodes: Vec<_> = nodes.flatten().collect();
        assert!(nodes.contains(&"n1") && nodes.contains(&"n2"), "{both}");
        let of_one = both.replace("n2", "n1");
        let report = explain(&[("journal.txt", &of_one)]);
        assert_eq!(report.deaths.len(), 1, "{of_one}");
        assert_eq!(report.deaths[0].node, None, "all are of one host");
    };
    let crash = (640, Killer::Crash);
    let global = (640, Killer::KernelOomGlobal);
    of_two(line("n1", oom), line("n2", fault), [crash, global]);
    let result = unit("n1", "Failed with result 'oom-kill'.");
    let unknown = (0, Killer::Unknown);
    of_two(
        result,
        unit("n2", killed),
        [(0, Killer::KernelOom), unknown],
    );
    let other = line("n1", stopping) + &unit("n2", asked);
    let report = explain(&[("journal.txt", &other)]);
    assert_eq!(
        killers(&report),
        [unknown],
        "another host's unit is stopped"
    );
    let own = other.replace("n1", "n2");
    let report = explain(&[("journal.txt", &own)]);
    assert_eq!(killers(&report), [(0, Killer::Signal)]);
}

/// Lines of two OOM reports stand between each other.
#[test]
fn merged_kernel_logs_have_a_report_each() {
    let line = |host: &str, what: &str| format!("Nov 21 10:34:11 {host} kernel: {what}\n");
    let invoked = "python invoked oom-killer: gfp_mask=0x6200ca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0";
    let usage =
        |kilobytes: u32| format!("memory: usage {kilobytes}kB, limit {kilobytes}kB, failcnt 0");
    let killed = |pid: u32| {
        format!(
            "Memory cgroup out of memory: Killed process {pid} (python) total-vm:100kB, anon-rss:700716kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:0"
        )
    };
    let both: String = [
        line("n1", invoked),
        line("n2", invoked),
        line("n1", &usage(1)),
        line("n2", &usage(2)),
        line("n1", &killed(640)),
        line("n2", &killed(641)),
    ]
    .concat();
    let report = explain(&[("journal.txt", &both)]);
    let limits = report.deaths.iter().map(|death| {
        let oom = death.memory.oom.as_ref();
        (death.process.pid.0, oom.and_then(|oom| oom.limit_bytes))
    });
    let mut limits: Vec<_> = limits.collect();
    limits.sort_unstable();
    assert_eq!(limits, [(640, Some(Bytes(1024))), (641, Some(Bytes(2048)))]);
}

/// A level before a module is no host.
#[test]
fn levels_are_no_hosts() {
    let line = |level: &str, what: &str| format!("2026-11-21T00:23:48Z {level} app: {what}\n");
    let text = line("ERROR", "Fatal Python error: Segmentation fault")
        + &line("INFO", "Fatal Python error: Aborted");
    let report = explain(&[("app.log", &text)]);
    assert!(report.deaths.iter().all(|death| death.node.is_none()));
}
