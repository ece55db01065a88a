//! Follows a recording while it is written: each call returns the new events.

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rusqlite::Connection;

use super::{
    carry,
    error::{RecordingError, is_busy},
    lock, merge, outline, reader, schema,
};
use crate::{
    event::Event,
    ids::{EventId, MINUTE_NS, WallTime},
};

/// Two threads number events and pass them on. An event may reach the file after one with a higher
/// number, but at most this many later, which is one batch of either thread.
const LATE: u64 = 4096;

/// The most events in memory at a time. A file may have days of them.
const MOST: usize = 4_096;

/// How much is read before the event after which a file is followed: what a death after it is
/// compared with.
const BEFORE_NS: i64 = 60 * MINUTE_NS;

/// Where following a recording begins.
#[derive(Debug, Clone, Copy)]
pub enum Begin {
    /// At its first event.
    First,
    /// An hour before this event, which was read earlier.
    Near(EventId),
    /// At what happened after this time.
    At(WallTime),
}

/// A recording and how far it was read. It is not kept open between two calls, so that its writer
/// can end.
pub struct Follower {
    path: PathBuf,
    /// The file that was opened.
    file: Option<Identity>,
    /// The events that were returned, of the last [`LATE`] ids.
    given: BTreeSet<EventId>,
    /// Only later events are read.
    after: EventId,
    /// What was still true then, until it is returned.
    true_then: Vec<Event>,
}

impl Follower {
    /// Opens a recording. Another process may be writing it.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let (found, ()) = (file(path), reader::check(path)?);
        Ok(Self {
            path: path.to_owned(),
            file: found,
            given: BTreeSet::new(),
            after: EventId(0),
            true_then: Vec::new(),
        })
    }

    /// Opens a recording of which only the last part is to be read. What was still true before that
    /// comes first, without samples.
    pub fn open_at(path: &Path, begin: Begin) -> Result<Self, RecordingError> {
        let mut follower = Self::open(path)?;
        let opened = reader::connect(path, path)?;
        let begun = follower.begin(&opened.connection, begin);
        begun.map_err(RecordingError::damaged(path))?;
        Ok(follower)
    }

    fn begin(&mut self, connection: &Connection, begin: Begin) -> rusqlite::Result<()> {
        let time = match begin {
            Begin::First => None,
            Begin::Near(event) => schema::time_of(connection, event.0.cast_signed())?
                .map(|time| time.saturating_sub(BEFORE_NS)),
            Begin::At(wall) => outline::boot_time(connection, wall)?,
        };
        let after = time.map(|time| schema::last_before(connection, time));
        let after = after.transpose()?.flatten();
        let after = after.map(|after| match begin {
            Begin::Near(event) => after.min(event.0.cast_signed()),
            Begin::First | Begin::At(_) => after,
        });
        if let Some(after) = after {
            self.true_then = schema::events_with(connection, &carry::true_after(after))?;
            self.after = EventId(after.max(0).cast_unsigned());
        }
        Ok(())
    }

    /// Returns the event after which it is read; 0 if it is read from the first.
    pub fn after(&self) -> EventId {
        self.after
    }

    /// Returns the recording that replaced this one, if another file has its name now and is a
    /// recording.
    pub fn replaced(&self) -> Option<Self> {
        let now = file(&self.path).filter(|now| Some(*now) != self.file)?;
        let mut anew = Self::open(&self.path).ok()?;
        // A file without tables is checked again at the next call.
        let readable = anew.new_events().is_ok();
        anew.given.clear();
        (readable && anew.file == Some(now)).then_some(anew)
    }

    /// Passes some of the new events to `tell`, by id, and returns whether there are more. There are
    /// none while another file, or no file, has its name.
    pub fn each_next(&mut self, tell: impl FnMut(Event)) -> Result<bool, RecordingError> {
        let events = self.new_events()?;
        let more = events.len() >= MOST;
        events.into_iter().for_each(tell);
        Ok(more)
    }

    /// Returns the next of the new events. If there are many, more are left for the next call.
    pub fn new_events(&mut self) -> Result<Vec<Event>, RecordingError> {
        if file(&self.path).is_none_or(|now| Some(now) != self.file) {
            return Ok(Vec::new());
        }
        let opened = match reader::connect(&self.path, &self.path) {
            Err(RecordingError::Damaged { source, .. }) if is_busy(&source) => {
                return Ok(Vec::new());
            }
            opened => opened?,
        };
        match self.read(&opened) {
            // It is ending or being rewritten. The next call finds the events.
            Err(source) if is_busy(&source) => Ok(Vec::new()),
            read => read.map_err(RecordingError::damaged(&self.path)),
        }
    }

    /// Whether its writer has it open.
    pub fn is_written(&self) -> bool {
        lock::is_held(&self.path)
    }

    fn read(&mut self, opened: &reader::Opened) -> rusqlite::Result<Vec<Event>> {
        let last = self.given.last().map_or(0, |id| id.0);
        let from = last.saturating_sub(LATE).max(self.after.0);
        let mut events = Vec::new();
        // Events that were returned are not parsed again: there are thousands of them at each call.
        let wanted = |id: i64| !self.given.contains(&EventId(id.cast_unsigned()));
        let ended_early =
            merge::for_each_row(&opened.connection, from.cast_signed(), wanted, |event| {
                // An event of a kind that only a newer raytrace knows is left out.
                events.extend(event?);
                Ok(if events.len() >= MOST {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            })?;
        if let Some((_, error)) = ended_early.into_iter().next() {
            return Err(error);
        }
        events.splice(..0, std::mem::take(&mut self.true_then));
        self.given.extend(events.iter().map(|event| event.id));
        let newest = self.given.last().map_or(0, |id| id.0);
        self.given = self.given.split_off(&EventId(newest.saturating_sub(LATE)));
        Ok(events)
    }
}

/// The device, inode and creation time of a file. Inode numbers are used again.
type Identity = (u64, u64, Option<SystemTime>);

fn file(path: &Path) -> Option<Identity> {
    let metadata = path.metadata().ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.created().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{NodeMemory, Observation, Source},
        ids::{BootTime, ProcessKey},
        recording::{staged, write},
    };

    const MINUTES: u64 = 60_000_000_000;

    /// Three hours of a node, with a sample each minute. One worker lives on, another one ends
    /// after an hour.
    fn three_hours(path: &Path) -> Vec<Event> {
        let (alive, dead) = (ProcessKey::new(7, 1), ProcessKey::new(8, 1));
        let started = Observation::RecordingStarted(staged::started("b", staged::WALL));
        let begin = [started, staged::worker(alive), staged::worker(dead)];
        let mut all: Vec<(u64, Observation)> = begin.map(|what| (0, what)).into();
        for minute in 1..=180 {
            all.push((minute, Observation::Node(NodeMemory::default())));
            if minute == 60 {
                all.push((minute, staged::killed(dead)));
            }
        }
        all.push((180, Observation::RecordingEnded));
        let event = |(id, (minute, what))| Event {
            id: EventId(id),
            time: BootTime(minute * MINUTES),
            source: Source::Proc,
            what,
        };
        let events: Vec<Event> = (1..).zip(all).map(event).collect();
        write(path, &events).expect("written");
        events
    }

    fn ids(follower: &mut Follower) -> Vec<u64> {
        let events = follower.new_events().expect("events").into_iter();
        events.map(|event| event.id.0).collect()
    }

    #[test]
    fn late_begin_reads_what_is_still_true_and_the_last_part() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.raytrace");
        let events = three_hours(&path);
        let last = events.last().expect("events").id;
        let open = |begin| Follower::open_at(&path, begin).expect("a recording");
        let all = ids(&mut open(Begin::First));
        assert_eq!(all.len(), events.len());
        // The start, the worker that is alive, and the last 31 minutes with the end.
        let since = WallTime(staged::WALL.0 + 150 * MINUTES.cast_signed());
        let mut follower = open(Begin::At(since));
        let found = ids(&mut follower);
        assert_eq!(found[..2], [1, 2]);
        assert_eq!(found[2..], all[all.len() - 32..]);
        assert_eq!(follower.after().0, last.0 - 32);
        assert_eq!(ids(&mut follower), [0; 0]);
        // An hour before the last event.
        let found = ids(&mut open(Begin::Near(last)));
        assert_eq!(found[..2], [1, 2]);
        assert_eq!(found[2..], all[all.len() - 62..]);
        // Of a recording that ended before, there is its end.
        let later = WallTime(staged::WALL.0 + 300 * MINUTES.cast_signed());
        let found = ids(&mut open(Begin::At(later)));
        assert_eq!(found, [1, 2, last.0]);
        // The worker that is dead is known where its end is read.
        let early = WallTime(staged::WALL.0 + 60 * MINUTES.cast_signed());
        assert_eq!(ids(&mut open(Begin::At(early)))[..3], [1, 2, 3]);
    }
}
