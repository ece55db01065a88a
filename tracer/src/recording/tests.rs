//! Round trips, cuts, kills and full disks.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::{
    event::{Event, Exit, MemorySplit, NodeMemory, Observation, ProcessMemory, Source},
    ids::{BootTime, Bytes, EventId, ProcessKey},
};

fn exit(id: u64) -> Event {
    let what = Observation::Exit(Exit {
        process: ProcessKey::new(7, id),
        ns_pid: None,
        parent: None,
        comm: "ray::\u{202e}x\"'".into(),
        status: Some(9),
        title: Some("ray::f".into()),
        memory: MemorySplit::default(),
        mm: u64::MAX,
        uid: Some(0),
        harvested: false,
    });
    Event {
        id: EventId(id),
        time: BootTime(id * 10),
        source: Source::Kernel,
        what,
    }
}

fn sample(id: u64) -> Event {
    let memory = MemorySplit {
        anon: Some(Bytes(id << 20)),
        peak: None,
        ..MemorySplit::default()
    };
    let what = Observation::Memory(ProcessMemory {
        process: ProcessKey::new(7, 70),
        memory,
    });
    Event {
        id: EventId(id),
        time: BootTime(id),
        source: Source::Proc,
        what,
    }
}

fn node(id: u64) -> Event {
    let what = Observation::Node(NodeMemory {
        total: Bytes(10),
        available: Bytes(id),
        ..NodeMemory::default()
    });
    Event {
        id: EventId(id),
        time: BootTime(id),
        source: Source::Proc,
        what,
    }
}

fn record(path: &Path, events: &[Event]) -> Summary {
    let writer = Writer::create(path, None).expect("create");
    let sender = writer.sender();
    for event in events {
        sender.send(event.clone());
    }
    writer.finish()
}

#[test]
fn what_was_sent_is_read_back_in_order_from_one_file() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let events = [exit(1), sample(2), node(3), exit(4), sample(5)];
    let summary = record(&path, &events);
    assert_eq!(
        (summary.events, summary.dropped, summary.failure),
        (5, 0, None)
    );
    let found = read(&path).expect("read");
    assert_eq!(found.events, events);
    assert!(found.warnings.is_empty());
    assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 1);
    assert_eq!(
        path.metadata().expect("data").permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn an_existing_file_and_an_unwritable_folder_are_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    std::fs::write(&path, "mine").expect("write");
    assert!(matches!(
        Writer::create(&path, None),
        Err(RecordingError::Exists(_))
    ));
    assert_eq!(std::fs::read_to_string(&path).expect("read"), "mine");
    let nowhere = folder.path().join("no/such/a.raytrace");
    assert!(matches!(
        Writer::create(&nowhere, None),
        Err(RecordingError::NotWritable { .. })
    ));
}

#[test]
fn foreign_newer_and_missing_files_are_told_apart() {
    let folder = tempfile::tempdir().expect("folder");
    let text = folder.path().join("text");
    std::fs::write(&text, "hello").expect("write");
    assert!(matches!(read(&text), Err(RecordingError::NotARecording(_))));
    assert!(matches!(
        read(&folder.path().join("none")),
        Err(RecordingError::Open { .. })
    ));
    let path = folder.path().join("a.raytrace");
    let _ = record(&path, &[exit(1)]);
    let connection = rusqlite::Connection::open(&path).expect("open");
    connection
        .pragma_update(None, "user_version", 99)
        .expect("version");
    drop(connection);
    assert!(matches!(
        read(&path),
        Err(RecordingError::Newer { found: 99, .. })
    ));
}

#[test]
fn a_recording_is_readable_while_it_is_written() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let writer = Writer::create(&path, None).expect("create");
    let sender = writer.sender();
    let mut seen = 0;
    for round in 1..=100u64 {
        sender.send(exit(round));
        if round % 10 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let found = read(&path).expect("a live recording opens");
        assert!(found.events.len() >= seen, "nothing is lost again");
        seen = found.events.len();
    }
    assert_eq!(writer.finish().events, 100);
    assert_eq!(read(&path).expect("read").events.len(), 100);
}

#[test]
fn a_truncated_recording_gives_an_error_or_what_is_left_and_never_panics() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let events: Vec<Event> = (1..600).map(exit).collect();
    let _ = record(&path, &events);
    let whole = std::fs::read(&path).expect("read");
    for cut in (0..whole.len()).step_by(4096) {
        let part = folder.path().join("part.raytrace");
        std::fs::write(&part, &whole[..cut]).expect("write");
        match read(&part) {
            Ok(found) => assert!(
                found.events.len() < events.len() && !found.warnings.is_empty(),
                "cut at {cut}"
            ),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn when_the_queue_is_full_samples_are_dropped_before_deaths() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let writer = Writer::create(&path, None).expect("create");
    let sender = writer.sender();
    for id in 1..=60_000 {
        sender.send(sample(id));
    }
    for id in 60_001..=61_000 {
        sender.send(exit(id));
    }
    let summary = writer.finish();
    let (deaths, samples) = sender.dropped();
    assert_eq!((deaths, summary.dropped), (0, 0));
    assert_eq!(summary.events + samples, 61_000);
    let found = read(&path).expect("read").events;
    assert_eq!(
        found
            .iter()
            .filter(|event| matches!(event.what, Observation::Exit(_)))
            .count(),
        1000
    );
}

#[test]
fn a_dirty_file_without_its_log_is_read_with_a_warning() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let writer = Writer::create(&path, None).expect("create");
    writer.sender().send(exit(1));
    std::thread::sleep(std::time::Duration::from_millis(100));
    let alone = folder.path().join("alone.raytrace");
    std::fs::copy(&path, &alone).expect("copy");
    let _ = writer.finish();
    match read(&alone) {
        Ok(found) => assert!(found.warnings.iter().any(|text| text.contains("-wal"))),
        Err(error) => assert!(
            matches!(
                error,
                RecordingError::Damaged { .. } | RecordingError::NotARecording(_)
            ),
            "{error}"
        ),
    }
}
