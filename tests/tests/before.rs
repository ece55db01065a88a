//! What happened before the recorder attached is not invented.

use std::{
    fs,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use raytrace_tests::{
    fake_raylet::FakeRaylet,
    recorder::{Recorder, assert_balanced, report},
};

/// Keeps the two tests apart. One floods the machine, and the other needs a process to have stopped
/// before its next signal.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends `signal` to a process from a shell of its own.
fn send(signal: &str, pid: &str) {
    let kill = format!("kill -{signal} {pid}; exit 0");
    let status = Command::new("sh").args(["-c", &kill]).status();
    assert!(status.expect("a shell").success());
}

/// Returns the state of a process from `/proc/PID/stat`.
fn state(pid: &str) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let (_, fields) = stat.rsplit_once(") ").expect("its name");
    fields.chars().take(1).collect()
}

/// The process that sends SIGCONT, and so lets the signal take effect, is not its sender.
#[test]
fn signal_sent_before_attach_has_no_sender() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let session = folder.path().join("session_x");
    fs::create_dir_all(session.join("logs")).expect("a folder");
    let (pid_file, ended) = (folder.path().join("pid"), folder.path().join("ended"));
    let shell = format!(
        "sleep 600 & echo $! >{}; wait; : >{}; while :; do sleep 1; done",
        pid_file.display(),
        ended.display()
    );
    let raylet = FakeRaylet::start_with_script(folder.path(), &session, &shell).expect("a script");
    let pid = loop {
        match fs::read_to_string(&pid_file) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => thread::sleep(Duration::from_millis(10)),
        }
    };
    send("STOP", &pid);
    // Until the process has stopped, a lower signal would be delivered first.
    while state(&pid) != "T" {
        thread::sleep(Duration::from_millis(10));
    }
    // This signal waits in the stopped process.
    send("TERM", &pid);
    let file = folder.path().join("a.raytrace");
    let of = raylet.pid().to_string();
    let recorder = Recorder::start(&file, &["--raylet-pid", &of]).expect("a recorder");
    send("CONT", &pid);
    while !ended.exists() {
        thread::sleep(Duration::from_millis(10));
    }
    let recorded = recorder.stop().expect("a recording");
    assert_balanced(&recorded.report);
    let deaths = recorded.report["deaths"].as_array().expect("deaths");
    let death = deaths
        .iter()
        .find(|death| death["pid"].as_u64() == pid.parse().ok());
    let death = death.unwrap_or_else(|| panic!("{deaths:#?}"));
    assert_eq!(death["signal"], 15, "{death:#}");
    assert_eq!(death["verdict"]["killer"], "unknown", "{death:#}");
    let missing = death["verdict"]["missing"].as_str().unwrap_or_default();
    assert!(
        missing.contains("before the recorder attached"),
        "{missing}"
    );
}

/// An exit that had begun before the recorder attached is not counted as a lost event.
#[test]
fn exit_begun_before_attach_is_not_lost() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let session = folder.path().join("session_x");
    fs::create_dir_all(session.join("logs")).expect("a folder");
    // A zombie that nobody reaps, and processes that live for a millisecond. Some of these are
    // ending whenever the recorder starts.
    let brief = "while kill -0 $$ 2>/dev/null; do /bin/true; done &";
    let shell = format!("sh -c 'true & exec sleep 60' & {brief} {brief} {brief} wait");
    let raylet = FakeRaylet::start_with_script(folder.path(), &session, &shell).expect("a script");
    let of = raylet.pid().to_string();
    for round in 0..8 {
        let file = folder.path().join(format!("{round}.raytrace"));
        let recorder = Recorder::start(&file, &["--raylet-pid", &of]).expect("a recorder");
        // Among a few hundred ends there is one that had begun before.
        let end = Instant::now() + Duration::from_secs(60);
        let told = || report(&file).ok()?["deaths"].as_array().map(Vec::len);
        while told().is_none_or(|deaths| deaths <= 100) {
            assert!(Instant::now() < end, "{:?} deaths", told());
            thread::sleep(Duration::from_millis(100));
        }
        let recorded = recorder.stop().expect("a recording");
        assert_balanced(&recorded.report);
        let deaths = recorded.report["deaths"].as_array().expect("deaths");
        let told = |death: &&serde_json::Value| death["exit_code"] == 0;
        let other: Vec<_> = deaths.iter().filter(|death| !told(death)).collect();
        assert!(deaths.len() > 100, "{}", deaths.len());
        assert!(other.is_empty(), "{other:#?}");
    }
}
