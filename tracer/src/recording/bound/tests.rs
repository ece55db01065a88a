//! Tests that a flood with a reader in its way leaves no file larger than its bound.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::*;
use crate::{
    event::{CgroupState, MemorySplit, ProcessMemory, PythonFrame, PythonStack, RayLog, Source},
    ids::{BootTime, Bytes, EventId, ProcessKey},
    ray::facts::RayFact,
    recording::{Retention, Sender, Writer, read, tests::exit_of},
};

const MIB: u64 = 1 << 20;
/// So many deaths are among the events of each part of the flood.
const DEATHS: u128 = 150;

/// Returns an event that is no death. Their sizes differ, and each stack has new frames.
fn other(id: u64) -> Observation {
    let process = ProcessKey::new(u32::try_from(id % 500).unwrap_or(1) + 10, 70);
    match id % 5 {
        0 => Observation::RayLog(RayLog {
            cluster: None,
            file: "raylet.out".into(),
            local_time: None,
            text: "a line ".repeat(usize::try_from(id % 600).unwrap_or(1)),
            fact: RayFact::MonitorDisabled,
        }),
        1 => Observation::Cgroup(CgroupState {
            path: format!(
                "/{}",
                "group/".repeat(usize::try_from(id % 300).unwrap_or(1))
            ),
            ..CgroupState::default()
        }),
        2 => Observation::Title {
            process,
            title: format!("{id} ").repeat(30),
            memory: MemorySplit::default(),
        },
        3 => Observation::Stack(PythonStack {
            process,
            tid: None,
            grown: Bytes(id),
            shared: Bytes(0),
            mapping: None,
            repeats: false,
            frames: (0..20)
                .map(|line| PythonFrame {
                    // A hash, so that the index is entered everywhere.
                    file: format!(
                        "{:x}.py",
                        (id * 20 + line).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    ),
                    function: "f".into(),
                    line: 1,
                })
                .collect(),
            unsampled: None,
            native: Vec::new(),
        }),
        _ => Observation::Memory(ProcessMemory {
            process,
            memory: MemorySplit::default(),
        }),
    }
}

/// Sends events for this long, with deaths among them. Returns the deaths that were taken.
fn send(sender: &Sender, ids: &mut u64, how_long: Duration) -> Vec<EventId> {
    let (began, mut deaths) = (Instant::now(), Vec::new());
    while began.elapsed() < how_long {
        let due = DEATHS * began.elapsed().as_millis() / how_long.as_millis();
        for _ in 0..50 {
            *ids += 1;
            let is_death = (deaths.len() as u128) < due;
            let what = if is_death {
                Observation::Exit(exit_of(*ids))
            } else {
                other(*ids)
            };
            let (id, time) = (EventId(*ids), BootTime(*ids * 1000));
            let event = Event {
                id,
                time,
                source: Source::Kernel,
                what,
            };
            if sender.send(event) && is_death {
                deaths.push(id);
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    deaths
}

/// Watches the files until it is told to stop. Returns their largest size together.
fn largest(path: &Path, stop: &AtomicBool) -> u64 {
    let mut largest = 0;
    while !stop.load(Ordering::Relaxed) {
        let length = |end: &str| std::fs::metadata(beside(path, end)).map_or(0, |data| data.len());
        let all = ["", "-wal", "-shm", "-journal"].map(length);
        largest = largest.max(all.iter().sum());
        thread::sleep(Duration::from_micros(300));
    }
    largest
}

/// When the reader ends that is in the way of a flood.
#[derive(Clone, Copy)]
enum ReaderEnds {
    Meanwhile,
    AtClosing,
}

fn flood(max_bytes: u64, ends: ReaderEnds) {
    let folder = tempfile::tempdir().expect("folder");
    let path: PathBuf = folder.path().join("a.raytrace");
    let retention = Retention {
        keep: Duration::ZERO,
        max_bytes,
    };
    let prepared = Writer::prepare(&path, None, retention).expect("a file");
    let writer = prepared.downsampling_every(Duration::from_millis(500));
    let writer = writer.start().expect("a thread");
    let sender = writer.sender();
    let (stop, seen, mut ids) = (AtomicBool::new(false), AtomicU64::new(0), 0);
    let mut deaths = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| seen.store(largest(&path, &stop), Ordering::Relaxed));
        deaths.extend(send(&sender, &mut ids, Duration::from_millis(600)));
        let reader = Connection::open(&path).expect("a reader");
        let read = "BEGIN; SELECT max(id) FROM events";
        reader.execute_batch(read).expect("a transaction");
        deaths.extend(send(&sender, &mut ids, Duration::from_secs(2)));
        let summary = match ends {
            ReaderEnds::Meanwhile => {
                reader.execute_batch("COMMIT").expect("an end");
                drop(reader);
                deaths.extend(send(&sender, &mut ids, Duration::from_millis(600)));
                writer.finish()
            }
            ReaderEnds::AtClosing => {
                let closing = scope.spawn(move || writer.finish());
                // The reader goes on for this long.
                thread::sleep(Duration::from_secs(1));
                drop(reader);
                closing.join().expect("an end")
            }
        };
        stop.store(true, Ordering::Relaxed);
        assert_eq!(summary.failure, None);
    });
    let seen = seen.into_inner();
    assert!(seen <= max_bytes, "{seen} of {max_bytes}");
    assert!(
        seen > max_bytes / 2,
        "a flood of {seen} of {max_bytes} bytes only"
    );
    assert!(sender.dropped().1 > 0, "what was left out is counted");
    let found = read(&path).expect("read");
    let written = found
        .events
        .iter()
        .filter(|event| matches!(event.what, Observation::Exit(_)));
    let written: Vec<EventId> = written.map(|event| event.id).collect();
    assert_eq!(written, deaths);
}

#[test]
fn flood_stays_below_a_small_bound() {
    flood(4 * MIB, ReaderEnds::Meanwhile);
}

#[test]
fn flood_stays_below_a_larger_bound() {
    flood(16 * MIB, ReaderEnds::Meanwhile);
}

/// Deaths wait for a reader that is still there when the recorder ends.
#[test]
fn flood_before_the_end_loses_no_death() {
    flood(4 * MIB, ReaderEnds::AtClosing);
}

/// Samples that are all too recent or too close to a death to be thinned still go before deaths.
#[test]
fn full_file_gives_up_samples_before_deaths() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let retention = Retention {
        keep: Duration::from_secs(3600),
        max_bytes: 4 * MIB,
    };
    let writer = Writer::create_with_retention(&path, None, retention).expect("a file");
    let (sender, mut ids) = (writer.sender(), 0);
    let event = |id: u64, what| Event {
        id: EventId(id),
        time: BootTime(id * 1000),
        source: Source::Kernel,
        what,
    };
    while sender.dropped().1 == 0 {
        for _ in 0..50 {
            ids += 1;
            let what = other(ids);
            // Frames are stored once, and stay.
            if !matches!(what, Observation::Stack(_)) {
                sender.send(event(ids, what));
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    let deaths: Vec<EventId> = (ids + 1..=ids + 1000).map(EventId).collect();
    for id in &deaths {
        let what = Observation::Exit(exit_of(id.0));
        assert!(sender.send(event(id.0, what)), "room in the queue");
    }
    let summary = writer.finish();
    assert_eq!(summary.failure, None);
    let found = read(&path).expect("read");
    let exits = found.events.iter();
    let exits = exits.filter(|event| matches!(event.what, Observation::Exit(_)));
    assert_eq!(exits.map(|event| event.id).collect::<Vec<_>>(), deaths);
}

/// What was changed in one transaction is never more than was foreseen.
#[test]
fn each_kind_of_row_adds_no_more_than_estimated() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let bound = Bound(1 << 40);
    let disk = super::super::disk::Disk::create(&path, None, bound).expect("a file");
    let mut id = 0;
    for count in [1, 2, 3, 10, 100, 400].repeat(4) {
        let connection = disk.connection();
        let before = Size::of(connection, &path).expect("sizes");
        let pages = |size: Size| (size.file + size.log) / PAGE;
        let mut growth = Growth::default();
        let transaction = connection.unchecked_transaction().expect("a transaction");
        for _ in 0..count {
            id += 1;
            // Not in the order of ids.
            let event = Event {
                id: EventId(id ^ 7),
                time: BootTime(id),
                source: Source::Kernel,
                what: other(id),
            };
            let row = NewRow::of(&event);
            growth = growth.with(row.kind(), row.bytes, row.others);
            row.insert(connection).expect("a row");
        }
        transaction.commit().expect("a commit");
        let after = Size::of(connection, &path).expect("sizes");
        let foreseen = before.after(growth.pages(), growth.logged(), bound);
        assert!(
            pages(after) <= foreseen / PAGE,
            "{count} rows: {after:?} of {foreseen}"
        );
    }
}
