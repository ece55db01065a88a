//! Checks on a real Ray that each holder of memory is recorded under its name with its size.

use std::{collections::HashMap, process::Command};

use raytrace::{
    event::{Event, Observation, SharedFile},
    ids::{Bytes, Pid},
    recording,
};
use raytrace_tests::{recorder::Recorder, staging};
use serde::Deserialize;
use serde_json::Value;

/// One line of `growth.py`.
#[derive(Debug, Deserialize)]
struct Holder {
    label: String,
    pid: u32,
    bytes: u64,
}

/// Returns the most private memory that each process was seen to hold.
fn peaks(events: &[Event]) -> HashMap<Pid, u64> {
    let mut peaks = HashMap::new();
    for event in events {
        if let Observation::Memory(sample) = &event.what {
            let peak: &mut u64 = peaks.entry(sample.process.pid).or_default();
            *peak = (*peak).max(sample.memory.anon.unwrap_or_default().0);
        }
    }
    peaks
}

/// Returns whether `found` is within a twentieth of `wanted`, or within 2 MiB. A sample is written
/// after a step of 1 MiB, so smaller growth of a process since its last row is not recorded, and
/// the process (a raylet of 12 MiB, too) goes on allocating between that row and the truth's reading.
fn is_within(found: u64, wanted: u64) -> bool {
    found.abs_diff(wanted) <= (wanted / 20).max(2 << 20)
}

/// Its size is right within a twentieth.
#[test]
fn each_holder_of_memory_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("growth.raytrace");
    let recorder = Recorder::start(&file, &[]).expect("a recorder");
    let done = Command::new(staging::ray("2.60.0").join("bin/python"))
        .arg(staging::root().join("tests/staging/growth.py"))
        .output()
        .expect("a script");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let recorded = recorder.stop().expect("a recording");
    let lines = String::from_utf8_lossy(&done.stdout).into_owned();
    let held: Vec<Holder> = lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    assert_eq!(held.len(), 12, "{lines}{said}");

    let events = recording::read(&file).expect("a recording").events;
    let peaks = peaks(&events);
    let deaths = recorded.report["deaths"].as_array().expect("deaths");
    check_store(&recorded.report, &events, &held);
    for one in &held {
        let found = match one.label.as_str() {
            "puts" => shared(&events),
            "memfd" | "file" => shared_file(&recorded.report, one),
            "gcs" | "raylet" | "dashboard" => last(&events, Pid(one.pid)),
            _ => peaks.get(&Pid(one.pid)).copied().unwrap_or_default(),
        };
        let death = deaths.iter().find(|death| death["pid"] == one.pid);
        let death = death.unwrap_or(&Value::Null);
        println!(
            "{one:?}: seen {found}, {} {} {}",
            death["role"], death["title"], death["actor_class"]
        );
        let wanted = match one.label.as_str() {
            "puts" => of(&held, &["puts", "memfd", "file"]),
            _ => one.bytes,
        };
        assert!(is_within(found, wanted), "{one:?}: {found}");
        let (role, name) = match one.label.as_str() {
            "leaky" => ("worker", "Leaky"),
            "subprocess" => ("descendant", "python"),
            "task" => ("worker", "ray::"),
            "memfd" => ("worker", "Keeper"),
            "file" => ("worker", "Mapper"),
            "gcs" => ("gcs", "gcs_server"),
            "raylet" => ("raylet", "raylet"),
            "dashboard" => ("dashboard", "dashboard"),
            _ => ("driver", "growth_job.py"),
        };
        let text = format!("{} {}", death["title"], death["actor_class"]);
        assert!(
            death["role"] == role && text.contains(name),
            "{one:?}: {text} {}",
            death["role"]
        );
    }
}

/// Returns the private memory that a process was last seen to hold.
fn last(events: &[Event], pid: Pid) -> u64 {
    let rows = events.iter().rev().filter_map(|event| match &event.what {
        Observation::Memory(row) if row.process.pid == pid => row.memory.anon,
        _ => None,
    });
    rows.map(|bytes| bytes.0).next().unwrap_or_default()
}

/// Returns the size of the file that is held by the process of `one`, as the report says.
fn shared_file(report: &Value, one: &Holder) -> u64 {
    let files = report["shared_memory"]["files"].as_array().expect("files");
    let its = files.iter().find(|file| file["holder_pid"] == one.pid);
    let its = its.unwrap_or_else(|| panic!("{one:?}: {files:#?}"));
    let kind = if one.label == "memfd" {
        "memfd"
    } else {
        "file"
    };
    let class = if one.label == "memfd" {
        "Keeper"
    } else {
        "Mapper"
    };
    assert!(its["kind"] == kind && its["holder"] == class, "{its}");
    its["bytes"].as_u64().expect("a size")
}

/// Checks that the object store is one file of the raylet's, however many processes have mapped it,
/// and that it is as large as what was put into it.
fn check_store(report: &Value, events: &[Event], held: &[Holder]) {
    let of = |label: &str| held.iter().find(|one| one.label == label).expect(label);
    let rows = events.iter().filter_map(|event| match &event.what {
        Observation::SharedFile(file) if owned(file, of("raylet").pid) => Some(file.bytes),
        _ => None,
    });
    let largest = rows.max().unwrap_or_default();
    assert!(is_within(largest.0, of("puts").bytes), "{largest:?}");
    let shared = &report["shared_memory"];
    println!("{shared:#}");
    let files = shared["files"].as_array().expect("files");
    let stores = files.iter().filter(|file| file["kind"] == "object-store");
    assert_eq!(stores.count(), 1, "{shared}");
    let heads = files.iter().map(|file| file["bytes"].as_i64());
    let whole: i64 =
        heads.flatten().sum::<i64>() + shared["remainder_bytes"].as_i64().expect("a rest");
    assert_eq!(shared["shared_bytes"], whole);
}

fn owned(file: &SharedFile, raylet: u32) -> bool {
    let first = file.holders.first();
    first.is_some_and(|holder| holder.pid == Pid(raylet)) && file.bytes > Bytes(0)
}

/// Returns the sum of what is held under one of `labels`.
fn of(held: &[Holder], labels: &[&str]) -> u64 {
    let named = held
        .iter()
        .filter(|one| labels.contains(&one.label.as_str()));
    named.map(|one| one.bytes).sum()
}

/// Returns by how much shared memory in the cluster's cgroup rose, as counted by the kernel.
fn shared(events: &[Event]) -> u64 {
    let states = events.iter().filter_map(|event| match &event.what {
        Observation::Cgroup(state) if state.path.contains("raytrace-growth-") => state.shmem,
        _ => None,
    });
    let all: Vec<u64> = states.map(|bytes| bytes.0).collect();
    let (low, high) = (all.iter().min(), all.iter().max());
    high.copied().unwrap_or_default() - low.copied().unwrap_or_default()
}
