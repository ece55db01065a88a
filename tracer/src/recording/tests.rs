//! Tests of round trips, cut files, unfinished recordings and full queues.

pub(crate) mod staged;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::{
    event::{
        Call, CgroupState, ClockError, Event, Exec, Exit, FileId, ForecastProcess, LimitOwner,
        LimitWarning, Mapped, MemorySplit, MonitorCount, NodeMemory, Observation, ProcessMemory,
        RayLog, Sender, Signal, Source, SystemCall, Within,
    },
    ids::{BootTime, Bytes, EventId, Pid, ProcessKey, WallTime},
    ray::facts::RayFact,
};

pub(super) fn exit_of(id: u64) -> Exit {
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
        pending: None,
        tracer: None,
        unrecorded: None,
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

/// Returns the writer of a file that has [`exit`] 1 and no end yet.
fn with_its_first_event(path: &Path) -> Writer {
    let writer = Writer::create(path, None).expect("create");
    writer.sender().send(exit(1));
    while read(path).expect("read").events.is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    writer
}

/// The recording is a single file with mode 0600.
#[test]
fn events_are_read_back_in_order() {
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

/// Makes a sample of each kind, with a different number in every column.
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
            own: some(4),
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
        others: some(12),
        swap_total: some(13),
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

/// Makes a warning with the same process as grower and victim.
fn limit_warning(process: ProcessKey) -> LimitWarning {
    let grower = ForecastProcess {
        process,
        name: "Trainer".into(),
        call: Some("Trainer.save".into()),
        moved: Bytes(3),
    };
    LimitWarning {
        limit: LimitOwner::RayMonitor,
        at: Bytes(2),
        used: Bytes(1),
        within: Some(Within {
            soonest_ms: 60_000,
            latest_ms: 110_000,
        }),
        grower: Some(grower.clone()),
        victim: Some(grower),
        seen_ms: 9,
        at_once: 12,
    }
}

#[test]
fn sender_and_system_call_round_trip() {
    let process = ProcessKey::new(7, 70);
    let file = Some(FileId {
        inode: u64::MAX,
        device: 8,
    });
    let sender = Sender {
        process,
        tid: Pid(8),
        comm: "ray".into(),
        uid: 1000,
        exiting: false,
        process_exiting: None,
        kernel_thread: false,
        exe: Some("/usr/bin/python3.11".into()),
        cgroup: None,
        ancestors: Vec::new(),
        container_id: None,
        effective_uid: Some(0),
        saved_uid: Some(1),
        file,
        argv: vec!["python".into(), "/v/bin/ray".into()],
        exec_seen: true,
        same_root: true,
    };
    let signal = Signal {
        target: process,
        target_tid: Pid(7),
        signal: 64,
        code: -60,
        group: true,
        result: 0,
        group_exit: true,
        group_exit_code: 64,
        took_effect: true,
        parent_death_signal: 0,
        tracer: None,
        sender,
        call: Some(SystemCall {
            name: "rt_sigqueueinfo".into(),
            arguments: [-1, 64, 7],
        }),
    };
    let exec = Exec {
        process,
        parent: None,
        ns_pid: None,
        comm: "ray".into(),
        argv: Vec::new(),
        uid: None,
        file,
    };
    let count = MonitorCount {
        raylet: process,
        used: Bytes(1),
        threshold: Bytes(2),
    };
    let events = [
        Observation::Exec(exec),
        Observation::Signal(signal),
        Observation::Monitor(count),
        Observation::Clock {
            wall: WallTime(-1),
            error: Some(ClockError {
                max_us: 16_000_000,
                synchronised: false,
            }),
        },
        Observation::Clock {
            wall: WallTime(1),
            error: None,
        },
        Observation::LimitWarning(limit_warning(process)),
        Observation::LimitWarning(LimitWarning {
            limit: LimitOwner::Cgroup("/pod".into()),
            within: None,
            victim: None,
            ..limit_warning(process)
        }),
    ];
    let at = |(id, what): (u64, Observation)| Event {
        id: EventId(id),
        time: BootTime(id),
        source: Source::Kernel,
        what,
    };
    let events: Vec<Event> = (1..).zip(events).map(at).collect();
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let _ = record(&path, &events);
    assert_eq!(read(&path).expect("read").events, events);
}

#[test]
fn every_figure_of_a_sample_round_trips() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let _ = record(&path, &samples());
    assert_eq!(read(&path).expect("read").events, samples());
}

#[test]
fn early_recording_lacks_later_columns() {
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
fn batches_come_in_the_order_of_ids() {
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
fn existing_file_and_missing_folder_are_refused() {
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
fn foreign_newer_and_missing_files_differ() {
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
fn recording_is_readable_while_it_is_written() {
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

/// A warning says what is missing.
#[test]
fn truncated_recording_gives_what_is_left() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let events: Vec<Event> = (1..1200)
        .map(|id| if id % 2 == 0 { sample(id) } else { exit(id) })
        .collect();
    let _ = record(&path, &events);
    let whole = std::fs::read(&path).expect("read");
    let part = folder.path().join("part.raytrace");
    let mut most = 0;
    for cut in (0..whole.len()).step_by(1024) {
        std::fs::write(&part, &whole[..cut]).expect("write");
        match read(&part) {
            Ok(found) => {
                assert!(found.events.len() <= events.len(), "cut at {cut}");
                // A page at the very end may hold nothing that is read.
                let said = found.warnings.join(" ");
                assert!(!said.is_empty() || found.events == events, "cut at {cut}");
                assert_eq!(found.damaged, said.contains("cut short"), "{said}");
                most = most.max(found.events.len());
            }
            Err(error) => assert!(
                matches!(
                    error,
                    RecordingError::Empty(_)
                        | RecordingError::Cut { .. }
                        | RecordingError::Damaged { .. }
                        | RecordingError::NotARecording(_)
                ),
                "cut at {cut}: {error}"
            ),
        }
        // Pages of tables and of indexes alternate, so half of the file has at least an eighth of
        // the events.
        let found = read(&part).map_or(0, |found| found.events.len());
        assert!(
            cut < whole.len() / 2 || found >= events.len() / 8,
            "cut at {cut} of {}: {found} events",
            whole.len()
        );
    }
    assert!(most > 1000, "{most}");
}

/// Reading changes neither its file nor its log.
#[test]
fn reading_changes_no_unfinished_recording() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let writer = with_its_first_event(&path);
    let left = folder.path().join("left.raytrace");
    let beside = |end: &str| folder.path().join(format!("left.raytrace{end}"));
    std::fs::copy(&path, &left).expect("copy");
    std::fs::copy(folder.path().join("a.raytrace-wal"), beside("-wal")).expect("copy");
    let _ = writer.finish();
    let bytes = || [&left, &beside("-wal")].map(|path| std::fs::read(path).expect("bytes"));
    let before = bytes();
    for _ in 0..2 {
        let found = read(&left).expect("read");
        assert_eq!(found.events, [exit(1)]);
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
        assert_eq!(bytes(), before);
    }
    std::fs::remove_file(beside("-wal")).expect("removed");
    std::fs::remove_file(beside("-shm")).expect("removed");
    let warned = read(&left).map(|found| found.warnings);
    assert!(warned.is_err() || warned.is_ok_and(|warnings| !warnings.is_empty()));
    assert!(!beside("-wal").exists(), "a reader made a log");
}

#[test]
fn closing_waits_for_readers_not_followers() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let writer = Writer::create(&path, None).expect("create");
    writer.sender().send(exit(1));
    let mut follower = Follower::open(&path).expect("a recording");
    while follower.new_events().expect("events").is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let told = in_batches(&path, |_| ()).expect("read");
    assert!(told.live, "it is being written");
    // A reader still has it open.
    let reader = rusqlite::Connection::open(&path).expect("open");
    let transaction = "BEGIN; SELECT count(*) FROM events;";
    reader.execute_batch(transaction).expect("a reader");
    let leaves = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(reader);
    });
    assert_eq!(writer.finish().failure, None);
    leaves.join().expect("a thread");
    assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 1);
    let told = in_batches(&path, |_| ()).expect("read");
    assert!(!told.live && told.warnings.is_empty());
    assert_eq!(follower.new_events().expect("events"), []);
}

#[test]
fn views_and_computed_columns_are_refused() {
    let folder = tempfile::tempdir().expect("folder");
    for (name, code) in [
        (
            "view",
            "ALTER TABLE events RENAME TO e; CREATE VIEW events AS SELECT * FROM e;",
        ),
        (
            "column",
            "ALTER TABLE mapped ADD COLUMN x TEXT AS (hex(zeroblob(1000000)));",
        ),
    ] {
        let path = folder.path().join(name);
        let _ = record(&path, &[exit(1)]);
        let connection = rusqlite::Connection::open(&path).expect("open");
        connection.execute_batch(code).expect(name);
        drop(connection);
        let refused = read(&path).expect_err(name).to_string();
        assert!(refused.contains("no plain table"), "{refused}");
    }
}

#[test]
fn log_records_leave_room_for_deaths() {
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
    // The writer has not started yet.
    for id in 1..=20_000 {
        sender.send(words(id));
    }
    for id in 20_001..=21_000 {
        sender.send(exit(id));
    }
    assert_eq!(sender.dropped(), (0, 0));
    assert_eq!(sender.dropped_log_records(), 20_000 - 8192);
}

#[test]
fn frequent_events_leave_room_for_deaths() {
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
    // The writer has not started yet.
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
fn old_rows_go_without_new_events() {
    use std::time::{Duration, Instant};
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let retention = Retention {
        keep: Duration::ZERO,
        ..Retention::default()
    };
    let prepared = Writer::prepare(&path, None, retention).expect("a file");
    // All events are written before the first downsampling.
    let prepared = prepared.downsampling_every(Duration::from_secs(2));
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
fn full_queue_drops_samples_before_deaths() {
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
fn unfinished_file_without_log_warns() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.raytrace");
    let writer = with_its_first_event(&path);
    let alone = folder.path().join("alone.raytrace");
    std::fs::copy(&path, &alone).expect("copy");
    let _ = writer.finish();
    match read(&alone) {
        Ok(found) => assert!(found.warnings.iter().any(|text| text.contains("-wal"))),
        Err(error) => assert!(
            matches!(
                error,
                RecordingError::Cut { .. } | RecordingError::NotARecording(_)
            ),
            "{error}"
        ),
    }
}

#[test]
fn replaced_recording_is_followed_from_start() {
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

    // Missing, empty, not a recording: the old file is still followed.
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
