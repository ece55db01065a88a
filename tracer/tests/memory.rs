//! Tests that readers of a large recording stay within their memory, whatever its size.
//!
//! The recording has thousands of deaths among hundreds of live processes, and a flood of lines of
//! a raylet's log.
#![allow(clippy::disallowed_methods, reason = "tests read what they have made")]

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use raytrace::{
    event::{Cluster, Event, Mode, Observation, RecordingStarted, Source},
    ids::{BootTime, Bytes, EventId, ProcessKey, WallTime},
    recording::Writer,
};
use rusqlite::Connection;

const SECOND: u64 = 1_000_000_000;
/// Deaths, one every five seconds.
const DEATHS: u32 = 12_000;
/// Processes that are alive at each death.
const ALIVE: u32 = 200;
/// Lines of the raylet's log.
const LINES: u32 = 300_000;
/// What the readers may hold, in KiB. With all details of each death they held more.
const MOST_KIB: u64 = 128 << 10;

/// Rows that are made in SQL: numbers from 1, in `n`.
fn numbers(most: u32) -> String {
    format!(
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {most})"
    )
}

fn write(file: &Path) {
    let writer = Writer::create(file, None).expect("a recording");
    let sender = writer.sender();
    let started = Observation::RecordingStarted(RecordingStarted {
        raytrace: "0".into(),
        host: "gpu-07".into(),
        kernel: "6.18.0".into(),
        boot_id: "b".into(),
        memory_bytes: Bytes(1 << 40),
        cpus: 2,
        cgroup_version: None,
        mode: Mode::Ebpf,
        wall: WallTime(1_795_161_600_000_000_000),
        pid_namespace: None,
        part: None,
        previous: None,
        recorder: None,
        supervisor: None,
    });
    let cluster = Observation::Cluster(Cluster::new(ProcessKey::new(100, SECOND)));
    for (id, what) in (1..).zip([started, cluster]) {
        sender.send(Event {
            id: EventId(id),
            time: BootTime(SECOND),
            source: Source::Proc,
            what,
        });
    }
    let _summary = writer.finish();
    let recording = Connection::open(file).expect("a database");
    let process = |pid: &str, start: &str| {
        format!(r#""process":{{"pid":' || ({pid}) || ',"start":' || ({start}) || '}}"#)
    };
    let raylet = r#"{"pid":100,"start":1000000000}"#;
    let described = |pid: &str, start: &str| {
        format!(
            r#"'{{"argv":["ray::Class.step"],"cgroup":"/job","cluster":{raylet},"comm":"ray::Class","container_id":null,"exe":null,"kind":"process","ns_pid":null,"parent":100,{},"process_group":null,"role":"worker","uid":0}}'"#,
            process(pid, start)
        )
    };
    let samples = "INSERT INTO process_memory (id, time, pid, start, anon, file, shmem, swap)";
    let (alive, deaths, lines) = (numbers(ALIVE), numbers(DEATHS), numbers(LINES));
    let (lives, dies) = ("1000 + n", "5000 + n");
    let (died, later) = (process(dies, "n * 5000000000"), "(n + 1) * 5000000000");
    let worker = "printf('%056x', n)";
    recording
        .execute_batch(&format!(
            r#"BEGIN;
{alive} INSERT INTO events SELECT 10 + n, 1000000000, 'proc', 'process', 1000 + n, {} FROM numbers;
{alive} {samples} SELECT 1000 + n, 1000000000, 1000 + n, 1000000000, 500000000 + n, 0, 0, 0 FROM numbers;
{deaths} INSERT INTO events SELECT 1000000 + n * 3, n * 5000000000, 'proc', 'process', 5000 + n, {} FROM numbers;
{deaths} {samples} SELECT 1000001 + n * 3, n * 5000000000, 5000 + n, n * 5000000000, 800000000, 0, 0, 0 FROM numbers;
{deaths} INSERT INTO events SELECT 1000002 + n * 3, {later}, 'kernel', 'exit', 5000 + n,
  '{{"comm":"ray::Class","harvested":false,"kind":"exit","memory":{{"anon":800000000,"file":0,"peak":800000000,"shmem":0,"swap":0}},"mm":1,"ns_pid":null,"parent":100,{died},"status":9,"title":"ray::Class.step","uid":0}}' FROM numbers;
{lines} INSERT INTO events SELECT 2000000 + n, {}, 'ray-log', 'ray_log', NULL,
  '{{"cluster":{raylet},"fact":{{"pid":' || (90000 + n) || ',"says":"worker_started","token":null,"worker_id":"' || {worker} || '"}},"file":"raylet.out","kind":"ray_log","local_time":null,"text":"Started worker process with pid ' || (90000 + n) || ' worker_id=' || {worker} || '"}}' FROM numbers;
COMMIT;"#,
            described(lives, "1000000000"),
            described(dies, "n * 5000000000"),
            u64::from(DEATHS + 1) * 5 * SECOND,
        ))
        .expect("rows");
}

/// Runs raytrace, and returns what it printed and its peak of resident memory in KiB.
#[expect(
    unsafe_code,
    clippy::zombie_processes,
    reason = "std does not say what a child used, so `wait4` waits for it"
)]
fn run(arguments: &[&str], file: &Path, output: &Path) -> (String, u64) {
    let child = Command::new(env!("CARGO_BIN_EXE_raytrace"))
        .args(arguments)
        .arg(file)
        .stdout(File::create(output).expect("a file"))
        .spawn()
        .expect("raytrace");
    let pid = child.id().cast_signed();
    let mut status = 0;
    // SAFETY: zeros are valid for this plain struct.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid, and nobody else waits for this child.
    let ended = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut used) };
    assert_eq!((ended, status), (pid, 0), "{arguments:?}");
    let printed = std::fs::read_to_string(output).expect("its output");
    (printed, used.ru_maxrss.cast_unsigned())
}

/// Publishes the deaths of a folder, and returns the peak of resident memory in KiB.
fn publish(folder: &Path) -> u64 {
    let mut child = Command::new(env!("CARGO_BIN_EXE_raytrace"))
        .args(["publish", "--json", "-", "--state"])
        .arg(folder.join("state.json"))
        .arg("--directory")
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("raytrace");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let deaths = lines.take(usize::try_from(DEATHS / 2).expect("a number"));
    let deaths: Vec<String> = deaths.map(|line| line.expect("a line")).collect();
    assert!(!deaths.is_empty());
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    child.kill().expect("its end");
    child.wait().expect("its end");
    let status = status.expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    peak.expect("a peak").parse().expect("a number")
}

#[test]
fn readers_of_a_large_recording_stay_within_their_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("large.raytrace");
    write(&file);
    let output = folder.path().join("output");
    let (summary, peak) = run(&["report", "--summary"], &file, &output);
    assert!(summary.starts_with("cause"), "{summary}");
    assert!(peak < MOST_KIB, "--summary: {peak} KiB");
    for rest in [["--kill", "2"], ["--since", "-10m"]] {
        let (text, peak) = run(&[&["report"], rest.as_slice()].concat(), &file, &output);
        assert!(text.contains("Class.step"), "{text}");
        assert!(peak < MOST_KIB, "{rest:?}: {peak} KiB");
    }
    let (text, peak) = run(&["report"], &file, &output);
    assert!(text.contains("left out: "), "{text}");
    assert!(peak < 2 * MOST_KIB, "text: {peak} KiB");
    let peak = publish(folder.path());
    // Its container has 256 MiB.
    assert!(peak < MOST_KIB, "publish: {peak} KiB");
}
