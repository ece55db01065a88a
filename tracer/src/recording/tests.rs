//! Round trips, cuts, kills and full disks.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::{
    event::{
        Call, CgroupState, Event, Exit, Mapped, MemorySplit, NodeMemory, Observation,
        ProcessMemory, RayLog, Source,
    },
    ids::{BootTime, Bytes, EventId, Pid, ProcessKey},
    ray::facts::RayFact,
};

fn exit_of(id: u64) -> Exit {
    Exit {
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
    }
}

fn exit(id: u64) -> Event {
    Event {
        id: EventId(id),
        time: BootTime(id * 10),
        source: Source::Kernel,
        what: Observation::Exit(exit_of(id)),
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

/// A sample of each kind with another number in every column.
fn samples() -> [Event; 4] {
    let at = |id: u64, source, what| Event {
        id: EventId(id),
        time: BootTime(id * 10),
        source,
        what,
    };
    let some = |bytes: u64| Some(Bytes(bytes));
    let process = ProcessMemory {
        process: ProcessKey::new(7, 70),
        memory: MemorySplit {
            anon: some(1),
            file: some(2),
            shmem: some(3),
            swap: some(0),
            peak: some(5),
        },
    };
    let node = NodeMemory {
        total: Bytes(1),
        available: Bytes(2),
        free: Bytes(3),
        shmem: Bytes(4),
        swap_used: Bytes(5),
        anon: some(6),
        file: some(7),
        kernel: some(8),
        huge: some(9),
        cpu_lists: some(10),
        stalled_us: Some(11),
    };
    let cgroup = CgroupState {
        path: "/pod".into(),
        usage: Bytes(1),
        limit: some(2),
        oom_kills: Some(3),
        anon: some(4),
        file: some(5),
        shmem: some(6),
        kernel: some(7),
        swap: some(8),
        stalled_us: Some(9),
    };
    let mapped = Mapped {
        process: ProcessKey::new(7, 70),
        tid: Pid(8),
        bytes: Bytes(1),
        all_bytes: Bytes(2),
        calls: 3,
    };
    [
        at(1, Source::Kernel, Observation::Mapped(mapped)),
        at(2, Source::Cgroup, Observation::Cgroup(cgroup)),
        at(3, Source::Proc, Observation::Node(node)),
        at(4, Source::Proc, Observation::Memory(process)),
    ]
}

#[test]
fn every_figure_of_a_sample_comes_back() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let _ = record(&path, &samples());
    assert_eq!(read(&path).expect("read").events, samples());
}

#[test]
fn a_recording_from_before_some_figures_were_kept_is_read_without_them() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let _ = record(&path, &samples());
    let connection = rusqlite::Connection::open(&path).expect("open");
    let early = "DROP TABLE mapped; ALTER TABLE node_memory DROP COLUMN huge;
        ALTER TABLE cgroup_memory DROP COLUMN anon";
    connection.execute_batch(early).expect("an early recording");
    drop(connection);
    let [_, mut cgroup, mut node, process] = samples();
    if let Observation::Cgroup(state) = &mut cgroup.what {
        state.anon = None;
    }
    if let Observation::Node(state) = &mut node.what {
        state.huge = None;
    }
    assert_eq!(read(&path).expect("read").events, [cgroup, node, process]);
    let mut follower = Follower::open(&path).expect("a recording");
    assert_eq!(follower.new_events().expect("events").len(), 3);
}

#[test]
fn a_recording_of_many_batches_is_told_in_the_order_of_ids() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let event = |id: u64| match id % 3 {
        0 => exit(id),
        1 => sample(id),
        _ => node(id),
    };
    let events: Vec<Event> = (1..2000).map(event).collect();
    let _ = record(&path, &events);
    let (mut found, mut batches) = (Vec::new(), 0);
    let told = in_batches(&path, |batch| {
        found.extend(batch);
        batches += 1;
    });
    assert_eq!(told.expect("read").count, events.len());
    assert!(batches > 1, "{batches}");
    assert_eq!(found, events);
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
fn words_of_logs_leave_room_for_deaths() {
    let folder = tempfile::tempdir().expect("folder");
    let prepared = Writer::prepare(
        &folder.path().join("a.raytrace"),
        None,
        Retention::default(),
    );
    let prepared = prepared.expect("a file");
    let sender = prepared.sender();
    let words = |id: u64| {
        let what = Observation::RayLog(RayLog {
            cluster: None,
            file: "raylet.out".into(),
            local_time: None,
            text: "a line".into(),
            fact: RayFact::MonitorDisabled,
        });
        Event { what, ..exit(id) }
    };
    // Nobody writes yet.
    for id in 1..=20_000 {
        sender.send(words(id));
    }
    for id in 20_001..=21_000 {
        sender.send(exit(id));
    }
    assert_eq!(sender.dropped(), (0, 0));
    assert_eq!(sender.dropped_words(), 20_000 - 8192);
}

#[test]
fn what_comes_in_masses_leaves_room_for_deaths() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let prepared = Writer::prepare(&path, None, Retention::default()).expect("a file");
    let sender = prepared.sender();
    let process = ProcessKey::new(7, 70);
    let masses = [
        Observation::Fork {
            parent: process,
            child: process,
        },
        Observation::Exit(Exit {
            status: Some(0),
            ..exit_of(1)
        }),
        Observation::Call(Call {
            process,
            title: "ray::f".into(),
            nth: 1,
            began: BootTime(1),
            ended: Some(BootTime(2)),
            before: None,
            after: None,
            peak: None,
        }),
        Observation::Freed {
            process,
            mapping: None,
            bytes: Bytes(1),
        },
    ];
    // Nobody writes yet.
    for (id, what) in (1..).zip(masses.iter().cycle().take(80_000)) {
        let what = what.clone();
        sender.send(Event { what, ..exit(id) });
    }
    let (lost_before, samples) = sender.dropped();
    assert_eq!((lost_before, samples), (40_000 - 12_288, 40_000 - 16_384));
    for id in 80_001..=84_000 {
        sender.send(exit(id));
    }
    assert_eq!(sender.dropped().0, lost_before, "a death was dropped");
}

#[test]
fn what_is_old_by_the_clock_is_given_up_though_nothing_new_comes() {
    use std::time::{Duration, Instant};
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let retention = Retention {
        keep: Duration::ZERO,
        max_bytes: None,
    };
    let prepared = Writer::prepare(&path, None, retention).expect("a file");
    // Before the first time to thin all has been written.
    let prepared = prepared.thinning_every(Duration::from_secs(2));
    let sender = prepared.sender();
    for id in 1..=100 {
        sender.send(sample(id));
    }
    let writer = prepared.start().expect("a thread");
    let began = Instant::now();
    let left = || read(&path).expect("read").events;
    while left().len() != 1 && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(), [sample(100)]);
    assert_eq!(writer.finish().failure, None);
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

#[test]
fn a_recording_that_is_written_anew_is_followed_from_its_beginning() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, other) = (folder.path().join("x"), folder.path().join("y"));
    let record = |path: &Path, events: &[Event]| {
        let writer = Writer::create(path, None).expect("a recording");
        let sender = writer.sender();
        for event in events {
            sender.send(event.clone());
        }
        let _summary = writer.finish();
    };
    record(&file, &[exit(1), exit(2)]);
    let mut follower = Follower::open(&file).expect("a recording");
    assert_eq!(follower.new_events().expect("events").len(), 2);
    assert!(follower.replaced().is_none());

    // Gone, empty, no recording: the old one goes on.
    std::fs::remove_file(&file).expect("removed");
    assert!(follower.replaced().is_none());
    std::fs::write(&file, "").expect("a file");
    assert!(follower.replaced().is_none());
    assert_eq!(follower.new_events().expect("events"), []);

    record(&other, &[exit(1)]);
    std::fs::rename(&other, &file).expect("renamed");
    let mut anew = follower.replaced().expect("another recording");
    assert_eq!(anew.new_events().expect("events"), [exit(1)]);
    assert!(anew.replaced().is_none());
}
