//! Tests each fixture alone, and in everything that other programs put around its lines.

use super::{assert_nothing_is_proven, explain, fixtures::ALL, killers};
use crate::{
    catalogue::{self, Where, Whom},
    explain::{kernel, line::LogLine, scan},
    judge::report::Killer,
};

#[test]
fn every_fixture_gives_its_verdict() {
    for fixture in ALL.iter() {
        let report = explain(&[("some.log", fixture.text)]);
        assert_nothing_is_proven(&report);
        assert_eq!(
            killers(&report),
            fixture.deaths,
            "{} ({}): {:?}",
            fixture.name,
            fixture.versions,
            report
                .deaths
                .iter()
                .map(|death| &death.verdict)
                .collect::<Vec<_>>()
        );
        let rules: Vec<&str> = report
            .findings
            .iter()
            .map(|finding| finding.rule.as_str())
            // These depend on figures, not on the wording.
            .filter(|rule| !["victim-not-biggest", "nothing-fits", "low-threshold"].contains(rule))
            .collect();
        assert_eq!(rules, fixture.rules, "{}", fixture.name);
    }
}

/// Returns a line as runtimes, drivers and journals wrap it.
fn wrappings(line: &str) -> Vec<String> {
    let json = serde_json::to_string(line).expect("JSON");
    vec![
        format!("2026-11-21T00:23:48.123456789Z stdout F {line}"),
        format!("2026-11-21T00:23:48.123456789+08:00 stderr F {line}"),
        format!("2026-11-21T00:23:48.123456789Z {line}"),
        format!("[pod/trainer-0/ray-head] {line}"),
        format!("ray-head-1  | {line}"),
        format!(r#"{{"log":{json},"stream":"stdout","time":"2026-11-21T00:23:48.1Z"}}"#),
        format!(r#"{{"level":"info","message":{json},"timestamp":1795220628}}"#),
        format!("\u{1b}[36m(TaskRunner pid=9, ip=192.0.2.7)\u{1b}[0m {line}"),
        format!("\\x1b[36m(TaskRunner pid=9)\\x1b[0m {line}"),
        format!("\\u001b[36m(TaskRunner pid=9)\\u001b[0m {line}"),
        format!("[36m(TaskRunner pid=9)[0m {line}"),
        format!("{line}\r"),
    ]
}

/// Whether a line is by the kernel, a daemon of the host, the raylet or the GCS.
fn is_of_others(line: &str) -> bool {
    let of_ray = |line: &LogLine| {
        let component = line.component.as_ref();
        component.is_some_and(|(name, _)| matches!(name.as_str(), "raylet" | "gcs_server"))
    };
    let host = |found: &catalogue::Found<'_>| matches!(found.row.of, Whom::Host | Whom::Part);
    scan::unwrap_line(line.as_bytes()).iter().any(of_ray)
        || kernel::KEYWORDS.iter().any(|words| line.contains(words))
        || catalogue::find(line).iter().any(host)
}

#[test]
fn wrapping_changes_no_verdict() {
    for fixture in ALL.iter() {
        let lines: Vec<&str> = fixture.text.lines().collect();
        let kinds = wrappings("").len();
        for kind in 0..kinds {
            let wrapped: Vec<String> = lines
                .iter()
                .map(|line| wrappings(line)[kind].clone())
                .collect();
            let text = wrapped.join("\n");
            let report = explain(&[("some.log", &text)]);
            let found = killers(&report);
            // A worker that prints what the host or the raylet says only quotes it.
            if text.contains("TaskRunner") && lines.iter().any(|line| is_of_others(line)) {
                let mut found = found.iter();
                assert!(
                    found.all(|one| one.1 == Killer::Unknown || fixture.deaths.contains(one)),
                    "{}:\n{text}",
                    fixture.name
                );
                continue;
            }
            assert_eq!(found, fixture.deaths, "{}:\n{text}", fixture.name);
        }
    }
}

#[test]
fn kernel_lines_are_read_in_every_log_format() {
    for fixture in ALL.iter().filter(|fixture| fixture.kernel()) {
        let bare: Vec<&str> = fixture
            .text
            .lines()
            .map(|line| {
                line.split_once("] ")
                    .filter(|(head, _)| head.starts_with("[ "))
                    .map_or(line, |(_, rest)| rest)
            })
            .collect();
        let forms: [&dyn Fn(&str) -> String; 8] = [
            &|line| line.to_owned(),
            &|line| format!("[Sat Nov 21 00:23:48 2026] {line}"),
            &|line| format!("<6>[ 2833.337115] {line}"),
            &|line| format!("6,339,2833337115,-;{line}"),
            &|line| format!("kern  :info  : [ 2833.337115] {line}"),
            &|line| format!("Nov 21 00:23:48 gpu-07 kernel: {line}"),
            &|line| format!("Nov 21 00:23:48 gpu-07 kernel: [ 2833.337115] {line}"),
            &|line| format!("2026-11-21T00:23:48+0000 gpu-07 kernel: {line}"),
        ];
        for (number, form) in forms.iter().enumerate() {
            let text: Vec<String> = bare.iter().map(|line| form(line)).collect();
            let report = explain(&[("dmesg.txt", &text.join("\n"))]);
            let xids = fixture.text.matches("NVRM: Xid (").count();
            assert_eq!(
                report.gpu_errors.len(),
                xids,
                "{} form {number}",
                fixture.name
            );
            assert_eq!(
                killers(&report),
                fixture.deaths,
                "{} form {number}",
                fixture.name
            );
        }
    }
}

#[test]
fn broken_long_sentences_are_read() {
    for fixture in ALL.iter() {
        let whole = explain(&[("some.log", fixture.text)]);
        for width in [120usize, 160] {
            let broken: Vec<String> = fixture
                .text
                .lines()
                .flat_map(|line| {
                    let characters: Vec<char> = line.chars().collect();
                    let whole = if line.is_empty() {
                        vec![String::new()]
                    } else {
                        Vec::new()
                    };
                    let parts = characters.chunks(width).map(|part| part.iter().collect());
                    whole.into_iter().chain(parts.collect::<Vec<String>>())
                })
                .collect();
            let broken = broken.join("\n");
            let report = explain(&[("some.log", &broken)]);
            let allowed = killers(&whole);
            for (pid, killer) in killers(&report) {
                let known = allowed.iter().any(|(_, known)| *known == killer);
                assert!(
                    known || killer.name() == "unknown",
                    "{} {pid} {killer:?}",
                    fixture.name
                );
            }
            if fixture.survives_breaks {
                assert_eq!(
                    killers(&report),
                    fixture.deaths,
                    "{} at {width}:\n{broken}",
                    fixture.name
                );
            }
        }
    }
}

#[test]
fn outdated_link_gets_the_new_page() {
    let mut old = 0;
    for fixture in ALL.iter() {
        let notes = explain(&[("some.log", fixture.text)]).notes;
        let told = notes.iter().any(|note| note.contains("debug-memory.html"));
        let links = fixture.text.contains("ray-oom-prevention.html");
        assert_eq!(told, links, "{}: {notes:?}", fixture.name);
        old += usize::from(links);
    }
    assert!(old > 2, "{old}");
}

#[test]
fn lines_that_resemble_warnings_are_ignored() {
    for line in [
        "INFO worker.py:1852 -- Object store uses /dev/shm, 30.0 GiB of 64.0 GiB",
        "Restored 180 MiB, 2 objects, read throughput 181 MiB/s",
        "file_system_monitor.cc:116: /tmp/ray/session_x is 60% full, available space: 40 GB",
        "allocated 12.0 GiB for an array with shape (1610612736,)",
        "Usage: ray start [OPTIONS]  --redis-shard-ports TEXT",
        "Memory usage above threshold, 3 workers are considered",
    ] {
        let report = explain(&[("some.log", line)]);
        assert_eq!(report.findings, [], "{line}");
        assert_eq!(report.notes, Vec::<String>::new(), "{line}");
    }
}

#[test]
fn xid_from_program_is_no_gpu_error() {
    let xid = "NVRM: Xid (PCI:0000:0a:00): 79, pid=7, name=python, GPU has fallen off the bus.";
    for line in [
        format!("Nov 21 00:23:48 gpu-07 root: {xid}"),
        format!("(WorkerDict pid=7) {xid}"),
        format!("look, {xid}"),
    ] {
        let report = explain(&[("some.log", &line)]);
        assert_eq!(report.gpu_errors, [], "{line}");
    }
    let report = explain(&[(
        "some.log",
        &format!("2026-11-21T00:23:48+0000 gpu-07 kernel: {xid}"),
    )]);
    let [error] = report.gpu_errors.as_slice() else {
        panic!("{:?}", report.gpu_errors);
    };
    assert_eq!((error.code, error.count), (79, 1));
    assert!(error.first.is_some());
}

/// What people paste lines in, one wrapper each.
const WRAPPERS: [fn(&str) -> String; 12] = [
    |line| format!("> {line}"),
    |line| format!("`{line}`"),
    |line| format!("    {line}"),
    |line| format!("ray-head-1  | {line}"),
    |line| format!("2026-11-21T00:23:48.1234567Z {line}"),
    |line| format!("[2026-11-21 00:23:48] {line}"),
    |line| format!("E       {line}"),
    |line| format!("3: {line}"),
    |line| format!("[1,0]<stdout>:{line}"),
    |line| format!("\u{1b}[36m{line}\u{1b}[0m"),
    |line| format!("{line}          "),
    |line| format!("2026-11-21T00:23:48Z stderr F {line}"),
];

/// Returns the examples of all rows, as they stand in a log.
fn examples() -> Vec<String> {
    let rows = catalogue::programs()
        .iter()
        .flat_map(|program| &program.rows);
    let of_row = |row: &'static catalogue::Row| {
        let begin = match row.believed {
            Where::Record | Where::FatalRecord => {
                "[2026-11-21 00:11:38,555 C 374 374] (raylet) x.cc:1: "
            }
            Where::Anywhere | Where::Plain => "",
        };
        row.examples
            .iter()
            .map(move |line| format!("{begin}{line}"))
    };
    rows.flat_map(of_row).collect()
}

#[test]
fn each_row_reads_the_same_in_one_and_in_two_wrappers() {
    for line in examples() {
        let bare = killers(&explain(&[("some.log", &line)]));
        for (number, outer) in WRAPPERS.iter().enumerate() {
            let once = outer(&line);
            let inner = WRAPPERS[(number + 5) % WRAPPERS.len()];
            for wrapped in [once, outer(&inner(&line))] {
                let report = explain(&[("some.log", &wrapped)]);
                assert_nothing_is_proven(&report);
                assert_eq!(killers(&report), bare, "{wrapped}");
            }
        }
    }
}
