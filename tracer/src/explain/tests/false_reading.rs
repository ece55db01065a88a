//! Tests what must not be read from a text, and what stands right before an end.

use super::{killers, of, only};
use crate::judge::{
    cause::Cause,
    report::{Killer, Report},
};

const KERNEL: &str = "Out of memory: Killed process 2223 (python3) total-vm:100kB, anon-rss:1000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0";
const EARLYOOM: &str =
    "sending SIGTERM to process 2222 uid 1000 \"python3\": badness 1203, VmRSS 5421 MiB";
const LOST: &str = "A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. RayTask ID: c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3 Worker ID: a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 Node ID: b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2 Worker IP address: 192.0.2.2 Worker port: 10005 Worker PID: 4101 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.";

#[test]
fn a_worker_quotes_the_host_and_is_not_believed() {
    let raylet = "[2026-11-21 00:25:26,042 C 611 611] (raylet) main.cc:1:  Check failed: x";
    for line in [KERNEL, EARLYOOM, raylet] {
        assert_eq!(only(&of(line)).verdict.killer.is_kill(), line != raylet);
        let quoted = format!("(Worker pid=4101, ip=192.0.2.2) {line}");
        assert_eq!(of(&quoted).deaths, [], "{quoted}");
    }
}

#[test]
fn earlyoom_kills_nobody_in_a_dry_run() {
    let dry = "dryrun, not actually sending any signal";
    assert_eq!(killers(&of(EARLYOOM)), [(2222, Killer::Signal)]);
    assert_eq!(of(&format!("{EARLYOOM}\n{dry}\n")).deaths, []);
    let report = of(&format!("{EARLYOOM}\n{KERNEL}\n{dry}\n"));
    assert_eq!(report.deaths.len(), 2, "the line above is the kernel's");
}

#[test]
fn services_of_the_host_are_no_deaths_of_the_job() {
    let ended = |unit: &str, how: &str| {
        format!("Nov 21 00:10:01 node1 systemd[1]: {unit}: Main process exited, code={how}\n")
    };
    let host = ended("snapd.service", "exited, status=1/FAILURE");
    assert_eq!(of(&host).deaths, []);
    let others = host
        + &ended("ray.service", "killed, status=9/KILL")
        + &ended("getty@tty1.service", "killed, status=15/TERM")
        + &ended("train.service", "killed, status=9/KILL");
    let comms = |report: &Report| -> Vec<String> {
        let deaths = report.deaths.iter();
        deaths.map(|death| death.process.comm.clone()).collect()
    };
    let of_unit = |unit: &str| format!("a process of unit {unit}");
    assert_eq!(
        comms(&of(&others)),
        [of_unit("ray.service"), of_unit("train.service")]
    );
    let oom = "Nov 21 00:10:01 node1 systemd[1]: cups.service: A process of this unit has been killed by the OOM killer.\n";
    assert_eq!(of(oom).deaths.len(), 1, "memory concerns all");
}

#[test]
fn ctrl_c_before_a_crash_is_said() {
    let crash = "[2025-11-20 12:00:01,123 C 4055 4055] core_worker.cc:1234:  Check failed: x";
    let says = |report: &Report| match &only(report).verdict.cause {
        Cause::Crash { says, .. } => says.clone().unwrap_or_default(),
        cause => panic!("{cause:?}"),
    };
    let after = ", after Ctrl+C";
    assert!(!says(&of(crash)).contains(after));
    let report = of(&format!("KeyboardInterrupt\n{crash}"));
    assert!(says(&report).ends_with(after));
    assert_eq!(only(&report).verdict.evidence.len(), 2);
    // `ray.cancel` raises it in a worker.
    let cancelled = of(&format!("(f pid=7) KeyboardInterrupt\n{crash}"));
    assert!(!says(&cancelled).contains(after));
    assert_eq!(of("KeyboardInterrupt\n").deaths, []);
}

#[test]
fn an_error_right_before_a_sudden_end_is_said() {
    let line = |time: &str, text: &str| format!("{time} ERROR worker.py:1 -- {text}\n");
    let full = "OSError: [Errno 28] No space left on device: '/tmp/x'";
    let with = |time: &str| {
        let error = line(time, full);
        of(&(error + &line("2023-02-15 12:54:31,291", LOST)))
    };
    for (time, said) in [
        ("2023-02-15 12:54:31,288", true),
        ("2023-02-15 12:54:31,292", false),
        ("2023-02-15 12:53:31,288", false),
    ] {
        let report = with(time);
        let death = only(&report);
        let has = matches!(death.verdict.cause, Cause::EndAfterError { .. });
        assert_eq!(has, said, "{time}");
        assert_eq!(death.verdict.killer, Killer::Unknown);
    }
}

#[test]
fn a_disconnect_without_a_name_is_a_death() {
    let line = |kind: u8| {
        format!(
            "[2023-11-21 00:25:26,042 I 611 611] (raylet) node_manager.cc:1477: NodeManager::DisconnectClient, disconnect_type={kind}, has creation task exception = false\n"
        )
    };
    let report = of(&line(0).repeat(3));
    assert_eq!(killers(&report), [(0, Killer::Unknown)]);
    assert_eq!(of(&line(1)).deaths, []);
}

#[test]
fn a_timeout_above_the_first_death_is_no_after_effect() {
    let timeout = "[rank0]:[E1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1) ran for 600000 milliseconds\n";
    let lost = format!("(raylet) {LOST}\n");
    let note = |text: &str| {
        let notes = of(text).notes;
        (
            notes.iter().any(|note| note.starts_with("after-effects")),
            notes
                .iter()
                .any(|note| note.contains("before the first death")),
        )
    };
    assert_eq!(note(&format!("{lost}{timeout}")), (true, false));
    assert_eq!(note(&format!("{timeout}{lost}")), (false, true));
}
