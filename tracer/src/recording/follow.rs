//! Follows a recording while it is written: each call gives the events that are new.

use std::{
    collections::BTreeSet,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rusqlite::Connection;

use super::{error::RecordingError, merge, reader};
use crate::{event::Event, ids::EventId};

/// Two threads number events and hand them on: an event may reach the file after one with a higher number, at most one batch of
/// either later.
const LATE: u64 = 4096;

/// A recording and how far it was read.
pub struct Follower {
    path: PathBuf,
    connection: Connection,
    /// Device and inode of what was opened.
    file: Option<(u64, u64)>,
    /// The events of the last [`LATE`] ids that were given.
    given: BTreeSet<EventId>,
}

impl Follower {
    /// Opens it; it may be written by another process.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let header = reader::header(path).map_err(|source| RecordingError::Open {
            path: path.to_owned(),
            source,
        })?;
        if !header.starts_with(b"SQLite format 3\0") {
            return Err(RecordingError::NotARecording(path.to_owned()));
        }
        Ok(Self {
            path: path.to_owned(),
            file: file(path),
            connection: reader::connect(path, path)?,
            given: BTreeSet::new(),
        })
    }

    /// The recording that has taken the place of this one, if another file has its name now and is one.
    #[must_use]
    pub fn replaced(&self) -> Option<Self> {
        let now = file(&self.path).filter(|now| Some(*now) != self.file)?;
        let mut anew = Self::open(&self.path).ok()?;
        // One that has no tables yet is looked at again.
        let readable = anew.new_events().is_ok();
        anew.given.clear();
        (readable && anew.file == Some(now)).then_some(anew)
    }

    /// The events that were not given yet, by id.
    pub fn new_events(&mut self) -> Result<Vec<Event>, RecordingError> {
        self.read().map_err(|source| RecordingError::Damaged {
            path: self.path.clone(),
            source,
        })
    }

    fn read(&mut self) -> rusqlite::Result<Vec<Event>> {
        let last = self.given.last().map_or(0, |id| id.0);
        let from = last.saturating_sub(LATE);
        let mut events = Vec::new();
        merge::each(&self.connection, from.cast_signed(), |event| {
            // An event of a kind that only a newer raytrace knows is left out.
            events.extend(event?.filter(|event| !self.given.contains(&event.id)));
            Ok(())
        })?;
        self.given.extend(events.iter().map(|event| event.id));
        let newest = self.given.last().map_or(0, |id| id.0);
        self.given = self.given.split_off(&EventId(newest.saturating_sub(LATE)));
        Ok(events)
    }
}

fn file(path: &Path) -> Option<(u64, u64)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}
