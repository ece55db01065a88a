//! Reads the files of one recorder as one recording: rows that a later file carried over come once.

use std::{
    collections::HashSet,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use super::{
    Outline, ReadSummary,
    error::RecordingError,
    reader::{self, in_batches_until},
};
use crate::{
    event::{Event, Observation},
    ids::EventId,
};

/// Passes the events of consecutive files to `tell`, the first file first.
pub fn parts_in_batches(
    paths: &[PathBuf],
    mut tell: impl FnMut(Vec<Event>),
) -> Result<ReadSummary, RecordingError> {
    parts_in_batches_until(paths, |batch| {
        tell(batch);
        ControlFlow::Continue(())
    })
}

/// Does the same until `tell` breaks.
pub fn parts_in_batches_until(
    paths: &[PathBuf],
    mut tell: impl FnMut(Vec<Event>) -> ControlFlow<()>,
) -> Result<ReadSummary, RecordingError> {
    let mut all = ReadSummary::default();
    let mut enough = ControlFlow::Continue(());
    for (number, path) in paths.iter().enumerate() {
        let carried = if number == 0 {
            HashSet::new()
        } else {
            carried(path)?
        };
        let last = number + 1 == paths.len();
        let told = in_batches_until(path, |mut batch| {
            // In a single file, nothing is left out.
            if !carried.is_empty() || !last {
                batch.retain(|event| {
                    let ended = matches!(event.what, Observation::RecordingEnded);
                    !carried.contains(&event.id) && (last || !ended)
                });
            }
            enough = tell(batch);
            enough
        })?;
        all.count += told.count;
        all.damaged |= told.damaged;
        all.live = told.live;
        all.warnings.extend(told.warnings);
        if enough.is_break() {
            break;
        }
    }
    Ok(all)
}

/// Returns the rows of a file that the file before it has too.
pub fn carried(path: &Path) -> Result<HashSet<EventId>, RecordingError> {
    let source = reader::Source::open(path)?;
    let reader::Opened { connection, .. } = reader::connect(source.path(), path)?;
    let read = || {
        let mut statement = connection.prepare("SELECT id FROM carried")?;
        let ids = statement.query_map([], |row| row.get::<_, i64>(0))?;
        ids.map(|id| Ok(EventId(id?.max(0).cast_unsigned())))
            .collect::<rusqlite::Result<_>>()
    };
    read().map_err(RecordingError::damaged(path))
}

/// Groups files by their recorder. Each group is read as one recording. A file without its
/// predecessor begins a group.
pub fn group_by_recorder(mut files: Vec<Outline>) -> Vec<Vec<Outline>> {
    files.sort_by(|one, other| {
        let key = |file: &Outline| (file.started.wall, file.part());
        key(one).cmp(&key(other))
    });
    let mut groups: Vec<Vec<Outline>> = Vec::new();
    for file in files {
        let follows = |group: &&mut Vec<Outline>| {
            group.last().is_some_and(|last| {
                last.started.boot_id == file.started.boot_id
                    && last.started.host == file.started.host
                    && last.began() == file.began()
                    && last.part() + 1 == file.part()
            })
        };
        match groups.iter_mut().find(follows) {
            Some(group) => group.push(file),
            None => groups.push(vec![file]),
        }
    }
    groups
}

/// Writes these events as two files of one recorder. The second file begins with the event at
/// `cut`.
#[cfg(test)]
pub(crate) fn write_two(folder: &Path, events: &[Event], cut: usize) -> [PathBuf; 2] {
    use crate::ids::WallTime;

    let paths = ["a.raytrace", "b.raytrace"].map(|name| folder.join(name));
    let first =
        super::disk::Disk::create(&paths[0], None, super::bound::Bound(1 << 40)).expect("a file");
    first.write(&events[..cut], |_, _| 0).expect("written");
    let now = (events[cut].time, WallTime(1_795_161_600_000_000_000));
    let second = first.next(&paths[1], 1, now).expect("the next file");
    second.write(&events[cut..], |_, _| 0).expect("written");
    for disk in [first, second] {
        disk.close(std::time::Duration::ZERO).expect("closed");
    }
    paths
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        event::{LimitOwner, MemorySplit, ProcessMemory, Source},
        ids::{Bytes, ProcessKey, WallTime},
        observe::clock,
        recording::{Retention, Rotation, Sender, Writer, place, read, staged},
    };

    fn event(id: u64, what: Observation) -> Event {
        Event {
            id: EventId(id),
            time: clock::boot(),
            source: Source::Kernel,
            what,
        }
    }

    fn sample(pid: u32, mib: u64) -> Observation {
        Observation::Memory(ProcessMemory {
            process: ProcessKey::new(pid, 1),
            memory: MemorySplit {
                anon: Some(Bytes(mib << 20)),
                ..MemorySplit::default()
            },
        })
    }

    /// The end of a warning is carried over too.
    #[test]
    fn active_warning_is_carried_over() {
        let cgroup = |name: &str| LimitOwner::Cgroup(format!("/{name}"));
        let events: Vec<Event> = (1..)
            .zip([
                Observation::RecordingStarted(staged::started("b", staged::WALL)),
                staged::warning(cgroup("a"), true),
                staged::warning(cgroup("b"), true),
                staged::warning(LimitOwner::Machine, true),
                staged::warning(LimitOwner::Machine, false),
                sample(7, 1),
            ])
            .map(|(id, what)| event(id, what))
            .collect();
        let folder = tempfile::tempdir().expect("a folder");
        let [_, second] = write_two(folder.path(), &events, 5);
        let events = read(&second).expect("the next file").events.into_iter();
        let carried = events.filter_map(|event| match event.what {
            Observation::LimitWarning(warning) => Some((warning.limit, warning.within.is_some())),
            _ => None,
        });
        let last = [
            (cgroup("a"), true),
            (cgroup("b"), true),
            (LimitOwner::Machine, false),
        ];
        assert_eq!(carried.collect::<Vec<_>>(), last);
    }

    fn wait_for_next_file(sender: &Sender) {
        while sender.take_next_file().is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Records events of processes over at least three files. One process dies in the first file,
    /// one in the last.
    fn record(folder: &Path) -> Vec<PathBuf> {
        let rotation = Rotation {
            folder: folder.to_owned(),
            host: "node".into(),
            every: Duration::from_millis(1),
            keep_files: 100,
            max_total: 1 << 30,
        };
        let first = folder.join("raytrace-node-20200101T000000Z.raytrace");
        let prepared = Writer::prepare(&first, None, Retention::default()).expect("prepared");
        let prepared = prepared.rotating(Some(rotation));
        let sender = prepared.sender();
        let before = [
            Observation::RecordingStarted(staged::started("b", staged::WALL)),
            staged::worker(ProcessKey::new(7, 1)),
            staged::worker(ProcessKey::new(8, 1)),
            sample(7, 1),
            sample(7, 2),
            staged::killed(ProcessKey::new(8, 1)),
        ];
        let sent: u64 = before.len() as u64;
        for (id, what) in (1..).zip(before) {
            sender.send(event(id, what));
        }
        let writer = prepared.start().expect("started");
        wait_for_next_file(&sender);
        sender.send(event(sent + 1, sample(7, 3)));
        wait_for_next_file(&sender);
        sender.send(event(sent + 2, staged::killed(ProcessKey::new(7, 1))));
        sender.send(event(sent + 3, Observation::RecordingEnded));
        assert_eq!(writer.finish().failure, None);
        place::of_host(folder, "node")
    }

    #[test]
    fn each_event_is_read_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = record(folder.path());
        assert!(files.len() >= 3, "{files:?}");
        let mut ids = Vec::new();
        parts_in_batches(&files, |batch| {
            ids.extend(batch.iter().map(|event| event.id.0));
        })
        .expect("read");
        assert_eq!(ids, (1..=9).collect::<Vec<_>>());
        let deaths = files.iter().flat_map(|file| {
            let events = read(file).expect("one file").events;
            events.into_iter().filter_map(|event| match event.what {
                Observation::Exit(exit) => Some(exit.process.pid.0),
                _ => None,
            })
        });
        assert_eq!(deaths.collect::<Vec<_>>(), [8, 7]);
    }

    #[test]
    fn later_file_has_live_processes_and_sizes() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = record(folder.path());
        let read = files.iter().map(|file| read(file).expect("read").events);
        let (number, last) = read
            .enumerate()
            .find(|(_, events)| {
                events
                    .iter()
                    .any(|event| event.what == staged::killed(ProcessKey::new(7, 1)))
            })
            .expect("the file with the second death");
        let Observation::RecordingStarted(started) = &last[0].what else {
            panic!("{:?}", last[0]);
        };
        let part = started.part.as_ref().expect("a part");
        assert_eq!(part.number as usize, number);
        assert_eq!(part.began, WallTime(1_795_161_600_000_000_000));
        assert!(part.began < started.wall);
        let about: Vec<u32> = last
            .iter()
            .filter_map(|event| match &event.what {
                Observation::Process(process) => Some(process.process.pid.0),
                _ => None,
            })
            .collect();
        assert_eq!(about, [7], "the one that ended is left out");
        let sizes: Vec<Option<Bytes>> = last
            .iter()
            .filter_map(|event| match &event.what {
                Observation::Memory(sample) => Some(sample.memory.anon),
                _ => None,
            })
            .collect();
        assert_eq!(sizes, [Some(Bytes(3 << 20))], "its last sample");
    }

    #[test]
    fn files_of_one_recorder_form_one_group() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = record(folder.path());
        let outlines = |files: &[PathBuf]| -> Vec<Outline> {
            let outlines = files.iter().rev().map(|file| Outline::of(file));
            outlines.collect::<Result<_, _>>().expect("outlines")
        };
        let groups = group_by_recorder(outlines(&files));
        assert_eq!(groups.len(), 1);
        let paths: Vec<&PathBuf> = groups[0].iter().map(|file| &file.path).collect();
        assert_eq!(paths, files.iter().collect::<Vec<_>>());
        assert!(groups[0].iter().all(|file| file.clean));
        let ends: Vec<WallTime> = groups[0].iter().map(|file| file.ended).collect();
        assert!(ends.is_sorted(), "{ends:?}");
        let without_second = [&files[..1], &files[2..]].concat();
        assert_eq!(group_by_recorder(outlines(&without_second)).len(), 2);
    }
}
