//! Tests when a kill in the kernel log and a death in Ray's logs are the same death.

use jiff::tz::TimeZone;

use super::{Explainer, explain, killers};
use crate::{
    judge::{from_text, report::Killer},
    show::clause,
};

/// The output of a Ray 2.60 driver in a container: an actor ended suddenly.
const DRIVER: &str = "\
The actor died unexpectedly before finishing this task.
\tclass_name: Rollout
\tactor_id: 11111111111111111111111101000000
\tpid: 926
\tip: 192.0.2.2
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process was killed by the OOM killer due to high memory usage.";

fn kill(time: &str, pid: u32, comm: &str) -> String {
    format!(
        "{time}oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,task_memcg=/job,task={comm},pid={pid},uid=0\n{time}Memory cgroup out of memory: Killed process {pid} ({comm}) total-vm:100kB, anon-rss:700716kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:1000\n"
    )
}

/// Returns a kernel's task dump that contains a raylet.
fn dump(raylet: u32) -> String {
    format!(
        "[  1.000000] Tasks state (memory values in pages):\n[  1.000000] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n[  1.000000] [  {raylet}]     0  {raylet}   126188     7331   303104        0             0 raylet\n[  1.000000] [    926]     0    926   126188   187331   303104        0          1000 ray::Rollout\n"
    )
}

const RAYLET: &str = "[2026-11-21 00:11:38,555 I 611 611] (raylet) worker_pool.cc:564: Started worker process with pid 926 worker_id=2abec82d00000000000000000000000000000000000000000000abcd";

/// A join also needs a common pid namespace or a common time.
#[test]
fn pid_alone_does_not_join_two_logs() {
    let kernel = kill("[  1.000000] ", 926, "ray::Rollout");
    let report = explain(&[("driver.log", DRIVER), ("dmesg.txt", &kernel)]);
    assert_eq!(
        killers(&report),
        [(926, Killer::KernelOomMemcg), (926, Killer::Unknown)]
    );
    let open = report
        .deaths
        .iter()
        .find(|death| death.verdict.killer == Killer::Unknown)
        .expect("it");
    let said = open
        .verdict
        .evidence
        .iter()
        .any(|piece| piece.what.ends_with("(ray::Rollout) may be this death"));
    assert!(said, "{:?}", open.verdict.evidence);
    assert_eq!(
        report.notes[0],
        "the kernel's kill of pid 926 (dmesg.txt:1) and the end of pid 926 (driver.log:6) may be one death, counted twice here: the pids are equal, but Ray's may be a container's, and one of the logs does not say when"
    );
}

/// The driver's lines on a worker of tasks name no class. Its tab may have become a space.
#[test]
fn pid_and_time_join_two_logs() {
    let driver = |time| {
        format!(
            "{time} WARNING worker.py:2012 -- A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. RayTask ID: 1111111111111111111111111111111111111111111111aa Worker ID: 22222222222222222222222222222222222222222222222222222222 Node ID: 33333333333333333333333333333333333333333333333333333333 Worker IP address: 192.0.2.2 Worker port: 10012 Worker PID: 926 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file."
        )
    };
    let both = |driver: &str, pid| {
        let kernel = kill("2026-11-21T00:11:38,000000+00:00 ", pid, "ray::fill");
        let mut explainer = Explainer::default();
        for (name, text) in [("driver.log", driver), ("dmesg.txt", &kernel)] {
            let read = explainer.read(name, text.as_bytes(), |_| {});
            read.expect("a text in memory");
        }
        from_text::judge(&explainer.finish(), Some(&TimeZone::UTC))
    };
    let report = both(&driver("2026-11-21 00:11:38,555"), 926);
    assert_eq!(killers(&report), [(926, Killer::KernelOomMemcg)]);
    assert!(report.deaths[0].work.worker_id.is_some());
    for (time, pid) in [
        ("2026-11-21 00:11:38,555", 927),
        ("2026-11-21 00:12:38,555", 926),
    ] {
        let report = both(&driver(time), pid);
        let mut separate = [(pid, Killer::KernelOomMemcg), (926, Killer::Unknown)];
        separate.sort_by_key(|(pid, _)| *pid);
        assert_eq!(killers(&report), separate, "{time}");
    }
}

#[test]
fn raylet_in_task_dump_shows_common_namespace() {
    let kernel = dump(611) + &kill("[  1.000000] ", 926, "ray::Rollout");
    let report = explain(&[
        ("driver.log", DRIVER),
        ("raylet.out", RAYLET),
        ("dmesg.txt", &kernel),
    ]);
    assert_eq!(killers(&report), [(926, Killer::KernelOomMemcg)]);
    let last = report.deaths[0].verdict.evidence.last().expect("evidence");
    assert_eq!(last.what, "matched: the kernel log names the same process");
    let other = dump(5077) + &kill("[  1.000000] ", 926, "ray::Rollout");
    let report = explain(&[
        ("driver.log", DRIVER),
        ("raylet.out", RAYLET),
        ("dmesg.txt", &other),
    ]);
    assert_eq!(
        killers(&report),
        [(926, Killer::KernelOomMemcg), (926, Killer::Unknown)]
    );
    let twice = |note: &&String| note.contains("counted twice");
    assert_eq!(report.notes.iter().find(twice), None);
    let open = (report.deaths.iter()).find(|death| death.verdict.killer == Killer::Unknown);
    let evidence = &open.expect("it").verdict.evidence;
    assert!(
        evidence.iter().any(|piece| {
            piece.what
                == "an OOM kill of pid 926 (ray::Rollout) was not matched: the kernel's pids are the host's, Ray's those of a container, and one of the logs does not say when"
        }),
        "{evidence:?}"
    );
}

#[test]
fn same_pid_of_another_program_is_not_joined() {
    for comm in ["chrome", "ray::Learner"] {
        let kernel = dump(611) + &kill("[  1.000000] ", 926, comm);
        let report = explain(&[
            ("driver.log", DRIVER),
            ("raylet.out", RAYLET),
            ("dmesg.txt", &kernel),
        ]);
        assert_eq!(
            killers(&report),
            [(926, Killer::KernelOomMemcg), (926, Killer::Unknown)],
            "{comm}"
        );
    }
}

#[test]
fn time_and_name_join_across_pid_namespaces() {
    let dated = |line: &str| format!("2026-11-21T00:23:48.000000000Z stdout F {line}");
    let driver: Vec<String> = DRIVER.lines().map(dated).collect();
    let driver = driver.join("\n");
    let near = kill(
        "2026-11-21T00:23:47+0000 gpu-07 kernel: ",
        51_877,
        "ray::Rollout",
    );
    let report = explain(&[("driver.log", &driver), ("journal.txt", &near)]);
    assert_eq!(killers(&report), [(51_877, Killer::KernelOomMemcg)]);
    assert_eq!(report.deaths[0].process.ns_pid.map(|pid| pid.0), Some(926));
    let late = kill(
        "2026-11-21T00:31:47+0000 gpu-07 kernel: ",
        51_877,
        "ray::Rollout",
    );
    let report = explain(&[("driver.log", &driver), ("journal.txt", &late)]);
    assert_eq!(killers(&report).len(), 2);
    // If two kills fit, neither is joined.
    let both = near.clone()
        + &kill(
            "2026-11-21T00:23:48+0000 gpu-07 kernel: ",
            51_901,
            "ray::Rollout",
        );
    let report = explain(&[("driver.log", &driver), ("journal.txt", &both)]);
    assert_eq!(killers(&report).len(), 3);
}

#[test]
fn zone_is_derived_from_lines_dated_twice() {
    let line = "2026-11-21T00:11:38.600000000Z stderr F [2026-11-21 08:11:38,555 I 611 611] (raylet) node_manager.cc:3046: Worker evicted and process killed to reclaim memory. worker pid: 32516 worker_id=2abec82d00000000000000000000000000000000000000000000abcd lease_id=03";
    let report = explain(&[("raylet.log", line)]);
    assert_eq!(report.texts[0].utc_offset_s, Some(8 * 3600));
    let plain = "[2026-11-21 08:11:38,555 I 611 611] (raylet) node_manager.cc:3046: Worker evicted and process killed to reclaim memory. worker pid: 32516 worker_id=2abec82d00000000000000000000000000000000000000000000abcd lease_id=03";
    let report = explain(&[("raylet.out", plain)]);
    assert_eq!(report.deaths[0].when.time, None);
    assert_eq!(
        report.deaths[0].when.stamp.as_deref(),
        Some("2026-11-21 08:11:38.555")
    );
}

#[test]
fn zone_is_derived_from_a_zoned_death() {
    let id = "2abec82d00000000000000000000000000000000000000000000abcd";
    let raylet = format!(
        "[2026-11-21 08:11:38,555 I 611 611] (raylet) node_manager.cc:1477: Disconnecting worker, graceful=false, disconnect_type=4, has_creation_task_exception=false worker_id={id} job_id=01000000"
    );
    let event = format!(
        r#"{{"label":"RAY_WORKER_FAILURE","message":"A worker died or was killed while executing a task by an unexpected system error. Lease ID: 03 Worker ID: {id} Node ID: {id} Worker IP address: 192.0.2.2 Worker port: 1 Worker PID: 41 Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: x","source_type":"RAYLET","pid":"611","timestamp":1795219898}}"#
    );
    let other = "[2026-11-21 08:11:40,000 C 700 700] worker.cc:1:  Check failed: x";
    let of_worker =
        "logs/worker-2abec82d00000000000000000000000000000000000000000000abce-ffffffff-700.err";
    let kernel = kill("[Sat Nov 21 08:11:40 2026] ", 926, "ray::Rollout");
    let texts = [
        ("logs/raylet.out", raylet.as_str()),
        ("logs/events/event_RAYLET.log", event.as_str()),
        (of_worker, other),
        ("elsewhere/raylet.err", other),
        // Copied there from a host that may use another time zone.
        ("logs/dmesg.txt", kernel.as_str()),
    ];
    let report = explain(&texts);
    let offsets: Vec<Option<i32>> = report.texts.iter().map(|text| text.utc_offset_s).collect();
    assert_eq!(offsets, [Some(8 * 3600), None, Some(8 * 3600), None, None]);
    let killed = report
        .deaths
        .iter()
        .find(|death| death.process.pid.0 == 41)
        .expect("it");
    let time = killed.when.time.map(|time| time.0.timestamp().to_string());
    assert_eq!(time.as_deref(), Some("2026-11-21T00:11:38.555Z"));
}

#[test]
fn rays_kill_count_is_compared_with_deaths() {
    let text = "[2026-11-21 00:15:29,131 E 5131 5131] (raylet) node_manager.cc:3517: 3 Workers (tasks / actors) killed due to memory pressure (OOM), 1 Workers crashed due to other reasons at node (ID: 4fb41ecf8225c0fb2caff696a05a265a3de41becb08d7395af1ed0a0, IP: 192.0.2.2) over the last time period.";
    let report = explain(&[("driver.log", text)]);
    assert_eq!(killers(&report), vec![(0, Killer::RayMemoryMonitor); 3]);
    assert!(report.notes.iter().any(|note| {
        note.starts_with("Ray counted 3 kills by its memory monitor and 1 other death; ")
    }));
    // A kill on another node is not among them.
    let elsewhere = "Memory on the node (IP: 192.0.2.9, ID: cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd) where the task (task ID: 0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d, name=compute_score, pid=4101, memory used=2.90GB) was running was 240.04GB / 251.54GB (0.954282), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 02020202020202020202020202020202020202020202020202020202) because it was the most recently scheduled task";
    let report = explain(&[("driver.log", text), ("raylet.out", elsewhere)]);
    assert_eq!(report.deaths.len(), 4);
    // The same line in a second file is the same count.
    let report = explain(&[("driver.log", text), ("raylet.err", text)]);
    assert_eq!(report.deaths.len(), 3);
}

#[test]
fn digit_needs_second_piece_for_a_verdict() {
    let id = "2abec82d00000000000000000000000000000000000000000000abcd";
    let disconnected = |digit: u8| {
        format!(
            "[2026-11-21 08:11:38,555 I 611 611] (raylet) node_manager.cc:1477: Disconnecting worker, graceful=false, disconnect_type={digit}, has_creation_task_exception=false worker_id={id} job_id=01000000"
        )
    };
    // A single flipped bit turns a 0 into a 4.
    assert_eq!((b'0' ^ b'4').count_ones(), 1);
    assert_eq!(
        killers(&explain(&[("raylet.out", &disconnected(0))])),
        [(0, Killer::Unknown)]
    );
    let report = explain(&[("raylet.out", &disconnected(4))]);
    assert_eq!(killers(&report), [(0, Killer::Unknown)]);
    let clause = clause::of(&report.deaths[0]);
    assert!(clause.contains("disconnect_type=4"), "{clause}");

    let gcs = format!(
        "[2026-11-21 08:11:38,556 W 590 590] (gcs_server) gcs_worker_manager.cc:55: Reporting worker exit, worker id = {id}, node id = {id}, address = , exit_type = NODE_OUT_OF_MEMORY, exit_detail = x. Unintentional worker failures have been reported."
    );
    let evicted = format!(
        "[2026-11-21 08:11:38,800 I 611 611] (raylet) node_manager.cc:3046: Worker evicted and process killed to reclaim memory. worker pid: 32516 worker_id={id} lease_id=03"
    );
    for second in [gcs, evicted] {
        let text = format!("{}\n{second}", disconnected(4));
        let found = killers(&explain(&[("logs.txt", &text)]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].1, Killer::RayMemoryMonitor, "{second}");
    }
}

#[test]
fn old_exit_type_says_no_more_than_todays() {
    let text = DRIVER.replace("SYSTEM_ERROR", "UNEXPECTED_SYSTEM_EXIT");
    assert_ne!(text, DRIVER);
    assert_eq!(
        killers(&explain(&[("driver.log", &text)])),
        [(926, Killer::Unknown)]
    );
}

const LOST: &str = "[2026-11-21 08:11:38,555 I 611 611] (raylet) node_manager.cc:1477: Disconnecting worker, graceful=false, disconnect_type=4, has_creation_task_exception=false worker_id=2abec82d00000000000000000000000000000000000000000000abcd job_id=01000000";

/// The kernel dates the kill of the same pid and name a whole zone apart.
#[test]
fn zone_is_derived_from_a_kill() {
    let raylet = format!(
        "[2026-11-21 08:00:00,000 I 611 611] (raylet) worker_pool.cc:564: Started worker process with pid 926 worker_id=2abec82d00000000000000000000000000000000000000000000abcd\n{LOST}\n{DRIVER}"
    )
    .replace("The actor is dead", "\tworker_id: 2abec82d00000000000000000000000000000000000000000000abcd\nThe actor is dead");
    let of_kill = |kernel: &str| {
        let report = explain(&[("raylet.out", &raylet), ("dmesg.txt", kernel)]);
        (report.texts[0].utc_offset_s, killers(&report))
    };
    let joined = vec![(926, Killer::KernelOomMemcg)];
    let named = |time, comm| of_kill(&kill(time, 926, comm));
    let same = "2026-11-21T00:11:38,100000+00:00 ";
    assert_eq!(named(same, "ray::Rollout"), (Some(8 * 3600), joined));
    // Another name, no whole zone, too far away.
    for (time, comm) in [
        (same, "python"),
        ("2026-11-21T00:13:38,100000+00:00 ", "ray::Rollout"),
        ("2026-11-19T00:11:38,100000+00:00 ", "ray::Rollout"),
    ] {
        assert_eq!(named(time, comm).0, None, "{time} {comm}");
    }
}

/// A log that was read is not asked for again.
#[test]
fn missing_logs_are_those_not_read() {
    let missing = |texts: &[(&str, &str)]| {
        let report = explain(texts);
        let mut deaths = report.deaths.iter();
        let open = deaths.find(|death| death.verdict.killer == Killer::Unknown);
        clause::missing(
            open.and_then(|one| one.verdict.missing.as_ref())
                .expect("it"),
        )
    };
    let dmesg = "sudo dmesg --time-format=iso > dmesg.txt";
    assert!(missing(&[("raylet.out", LOST)]).contains(dmesg));
    let both = missing(&[("raylet.out", LOST), ("dmesg.txt", "[  1.000000] Linux")]);
    assert!(
        both.contains("kernel log has no OOM kill that fits") && !both.contains(dmesg),
        "{both}"
    );
    let driver = missing(&[("driver.log", DRIVER), ("dmesg.txt", "[  1.000000] Linux")]);
    assert!(driver.contains("Explain the raylet's logs"), "{driver}");
    let local = "[2026-11-21 08:11:38,555 I 611 611] (raylet) node_manager.cc:1477: Disconnecting worker, graceful=false, disconnect_type=4 worker_id=2abec82d00000000000000000000000000000000000000000000abcd\n".to_owned();
    // A kill that may be it is named, and not ruled out.
    for pid in [926, 141_877] {
        let kernel = kill("2026-11-21T00:11:38,100000+00:00 ", pid, "ray::Rollout");
        let open = missing(&[("driver.log", DRIVER), ("dmesg.txt", &kernel)]);
        assert!(open.contains("at dmesg.txt:1 is this death"), "{open}");
    }
    let started = "[2026-11-21 08:00:00,000 I 611 611] (raylet) worker_pool.cc:564: Started worker process with pid 926 worker_id=2abec82d00000000000000000000000000000000000000000000abcd\n".to_owned();
    let kernel = kill("2026-11-21T00:11:38,100000+00:00 ", 926, "ray::Rollout");
    let nameless = missing(&[("raylet.out", &local), ("dmesg.txt", &kernel)]);
    assert!(
        nameless.contains("Explain the worker's own logs"),
        "{nameless}"
    );
    let zone = missing(&[("raylet.out", &(started + &local)), ("dmesg.txt", &kernel)]);
    assert!(zone.contains("--log-tz"), "{zone}");
}

/// A kill that may be the death is named, also if many are ruled out.
#[test]
fn open_kill_is_named_before_those_ruled_out() {
    let lost = "[2026-11-21 00:11:38,555 I 611 611] (raylet) node_manager.cc:1477: Disconnecting worker, graceful=false, disconnect_type=0 worker_id=2abec82d00000000000000000000000000000000000000000000abcd\n";
    let early = (1..9).map(|second| {
        kill(
            &format!("2026-11-20T00:00:0{second},100000+00:00 "),
            second,
            "ray::Rollout",
        )
    });
    let dmesg: String = early
        .chain([kill(
            "2026-11-21T00:11:38,400000+00:00 ",
            926,
            "ray::Rollout",
        )])
        .collect();
    let mut explainer = Explainer::default();
    for (name, text) in [("raylet.out", lost), ("dmesg.txt", dmesg.as_str())] {
        let read = explainer.read(name, text.as_bytes(), |_| {});
        read.expect("a text in memory");
    }
    let report = from_text::judge(&explainer.finish(), Some(&TimeZone::UTC));
    let mut deaths = report.deaths.iter();
    let open = deaths.find(|death| death.verdict.killer == Killer::Unknown);
    let missing = open.and_then(|one| one.verdict.missing.as_ref());
    let missing = clause::missing(missing.expect("it"));
    assert!(
        missing.contains("the kill at dmesg.txt:17 is this death"),
        "{missing}"
    );
}

/// Before Linux 6.8 the table counts the object store with each worker that has mapped it.
#[test]
fn resident_memory_is_not_private() {
    let table = |columns: &str, row: &str, shmem: u32| {
        let kernel = kill("[  1.000000] ", 926, "ray::Rollout");
        let kernel = kernel.replace("shmem-rss:0kB", &format!("shmem-rss:{shmem}kB"));
        let dump = format!(
            "[  1.000000] Tasks state (memory values in pages):\n[  1.000000] [  pid  ]   uid  tgid total_vm      rss {columns}pgtables_bytes swapents oom_score_adj name\n[  1.000000] [    926]     0   926   126188   400000 {row}303104        0          1000 ray::Rollout\n"
        );
        let report = explain(&[("dmesg.txt", &(dump + &kernel))]);
        let private = report.deaths[0]
            .memory
            .top
            .first()
            .map(|one| one.private_bytes.0);
        (private, report.notes)
    };
    let note = "before Linux 6.8 the kernel's table";
    let (private, notes) = table("", "", 900_000);
    assert!(private.is_none() && notes[0].contains(note), "{notes:?}");
    assert_eq!(table("", "", 0), (Some(400_000 << 12), Vec::new()));
    let (private, notes) = table("rss_anon rss_file rss_shmem ", "175179 1 225000 ", 900_000);
    assert_eq!((private, notes), (Some(175_179 << 12), Vec::new()));
}

#[test]
fn counted_kill_may_be_a_named_end() {
    let counted = "(raylet) node_manager.cc:3517: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 4fb41ecf8225c0fb2caff696a05a265a3de41becb08d7395af1ed0a0, IP: 192.0.2.2) over the last time period.";
    let report = explain(&[("driver.log", &format!("{DRIVER}\n{counted}"))]);
    assert_eq!(
        killers(&report),
        [(0, Killer::RayMemoryMonitor), (926, Killer::Unknown)]
    );
    let note = "1 sudden end and 1 kill for memory without a named victim may be the same, counted twice here";
    assert!(
        report.notes.iter().any(|one| one == note),
        "{:?}",
        report.notes
    );
}
