//! A job that does far too much: memory stays bounded, and losses are counted.
//!
//! The floods are small here, and large in `cargo xtask soak`.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use raytrace_tests::{
    fake_raylet::{FakeRaylet, worker_started_line},
    recorder::{Recorder, missed_besides_events, peak_kib, report},
    soak,
};
use serde_json::Value;

/// The most resident memory of the recorder, whatever a job does. Attaching takes 32 MiB of it.
const BOUND_MIB: u64 = 160;
const PATIENCE: Duration = Duration::from_secs(600);

/// Records `flood ARGUMENTS`, and returns the report and the recorder's peak in MiB.
fn recorded(arguments: &[&str]) -> (Value, u64) {
    with(&[], arguments)
}

fn with(options: &[&str], arguments: &[&str]) -> (Value, u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.raytrace");
    let flood = env!("CARGO_BIN_EXE_flood");
    let command = [options, &["--", flood], arguments].concat();
    let began = Instant::now();
    let mut recorder = Recorder::start(&file, &command).expect("a recorder");
    let (peak, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let pid = recorder.pid();
    let status = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(peak_kib(pid).unwrap_or_default(), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(10));
            }
        });
        let status = recorder.wait(PATIENCE);
        over.store(true, Ordering::Relaxed);
        status
    });
    let said = format!("{:#?}", recorder.lines());
    assert!(status.expect("its end").success(), "{said}");
    let report = report(&file).expect("a report");
    let peak = peak.into_inner() >> 10;
    eprintln!(
        "flood {}: {:.1} s, the recorder's peak {peak} MiB, {} events lost, a file of {} MiB",
        arguments.join(" "),
        began.elapsed().as_secs_f64(),
        report["recordings"][0]["lost_events"],
        fs::metadata(&file).map_or(0, |data| data.len() >> 20),
    );
    assert!((1..BOUND_MIB).contains(&peak), "{peak} MiB");
    counted(&report);
    (report, peak)
}

/// Checks that each hook's row adds up, whatever was lost.
fn counted(report: &Value) {
    let rows = report["recordings"][0]["ledgers"].as_array();
    let rows = rows.expect("ledgers");
    assert!(rows.iter().any(|row| row["seen"] != 0), "{rows:?}");
    for row in rows {
        let count = |name: &str| row[name].as_u64().unwrap_or_default();
        let told = count("submitted") + count("filtered") + count("ring_full") + count("map_full");
        assert_eq!(count("seen"), told, "{row}");
        assert_eq!(
            count("received"),
            count("written") + count("dropped"),
            "{row}"
        );
    }
}

/// Checks that each process that ended with `code` has its row, or that its loss is counted.
fn none_vanished(report: &Value, code: u64, number: u64) {
    let deaths = report["deaths"].as_array().map_or(&[][..], Vec::as_slice);
    let found = deaths
        .iter()
        .filter(|death| death["exit_code"] == code)
        .count() as u64;
    let lost = report["recordings"][0]["lost_events"]
        .as_u64()
        .unwrap_or_default();
    eprintln!(
        "    {found} of {number} deaths with code {code} have a row, {lost} events were lost"
    );
    assert!(
        found + lost >= number,
        "{found} deaths, {lost} lost, of {number}"
    );
    assert!(found > 0, "the recorder saw nothing");
}

fn size(small: u64, large: u64) -> u64 {
    if soak() { large } else { small }
}

#[test]
fn many_forks_are_recorded_or_counted() {
    let number = size(5_000, 100_000);
    let (report, _) = recorded(&["forks", &number.to_string()]);
    none_vanished(&report, 0, number);
}

#[test]
fn simultaneous_deaths_are_recorded_or_counted() {
    let number = size(2_000, 5_000);
    let (report, _) = recorded(&["deaths", &number.to_string()]);
    none_vanished(&report, 3, number);
}

/// Returns the renames that were left out, because most of the ring is kept for deaths. The
/// recorder sees the renames of every Ray cluster on the machine.
fn renames(report: &Value) -> u64 {
    let rows = report["recordings"][0]["ledgers"].as_array();
    let mut rows = rows.into_iter().flatten();
    let row = rows.find(|row| row["hook"] == "task/task_rename");
    row.and_then(|row| row["ring_full"].as_u64())
        .unwrap_or_default()
}

/// The ring has room for this many, so none is lost however long its reader waits for a processor.
#[test]
fn simultaneous_kills_each_have_their_killer() {
    let number = size(3_000, 5_000);
    let (report, _) = recorded(&["kills", &number.to_string()]);
    let deaths = report["deaths"].as_array().expect("deaths");
    let killed = deaths.iter().filter(|death| death["signal"] == 9);
    let told = killed.clone().filter(|death| {
        let verdict = &death["verdict"];
        verdict["killer"] == "signal"
            && verdict["certainty"] == "proven"
            && death["sender"]["comm"] == "flood"
    });
    let (killed, told) = (killed.count() as u64, told.count() as u64);
    let missed = report["recordings"][0]["lost_events"].as_u64();
    let others = missed_besides_events(&report) + renames(&report);
    let lost = missed.unwrap_or_default().saturating_sub(others);
    eprintln!(
        "    {killed} of {number} killed processes have a row, {told} their killer, {lost} events were lost"
    );
    // A loss is counted: of the end, or of the signal that shows the killer.
    assert!(
        killed + lost >= number && told + lost >= number,
        "{killed}, {told}, {lost}"
    );
    if !soak() {
        assert_eq!((killed, told, lost), (number, number, 0));
    }
}

#[test]
fn renames_without_end_are_one_process() {
    let number = size(20_000, 600_000);
    let (report, _) = recorded(&["renames", &number.to_string()]);
    none_vanished(&report, 0, 1);
}

/// Records a session with a raylet log that is flooded with `line`. Nothing is lost without being
/// counted, and each death among the lines has its row.
fn flooded_log(number: u64, line: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let session = folder.path().join("session_x");
    fs::create_dir_all(session.join("logs")).expect("a folder");
    let log = session.join("logs/raylet.out");
    fs::write(&log, "").expect("a log");
    let raylet = FakeRaylet::start(folder.path(), &session).expect("a script");
    let (pid, number) = (raylet.pid().to_string(), number.to_string());
    let log = log.to_str().expect("text");
    let (report, _) = with(&["--raylet-pid", &pid], &["lines", &number, log, line]);
    none_vanished(&report, 3, 100);
    report
}

#[test]
fn meaningless_log_lines_take_no_memory() {
    let line = "[2026-11-21 00:00:00,000 I 1 1] (raylet) node_manager.cc:1: step 17 of 1000: loss 0.25, grad_norm 1.5";
    only_lines_are_lost(&flooded_log(size(50_000, 1_000_000), line));
}

/// Memory stays bounded, although a grammar knows each of these lines.
#[test]
fn endless_log_records_lose_no_death() {
    only_lines_are_lost(&flooded_log(
        size(50_000, 1_000_000),
        &worker_started_line(77, "abcdef77"),
    ));
}

/// Checks that no death is dropped for log lines. Lines that were not read before the end are
/// counted.
fn only_lines_are_lost(report: &Value) {
    let deaths = report["deaths"].as_array().expect("deaths");
    let exits = deaths.iter().filter(|death| death["exit_code"] == 3);
    assert_eq!(exits.count(), 100, "deaths are not dropped for lines");
    let ledgers = report["recordings"][0]["ledgers"].as_array();
    for row in ledgers.into_iter().flatten() {
        if row["hook"] == "ray logs" {
            eprintln!("    not read before the end, or without room: {row}");
        } else {
            assert_eq!(row["dropped"], 0, "{row}");
        }
    }
}
