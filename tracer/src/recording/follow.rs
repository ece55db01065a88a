//! Follows a recording while it is written: each call returns the new events.

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    error::{RecordingError, is_busy},
    lock, merge, reader,
};
use crate::{event::Event, ids::EventId};

/// Two threads number events and pass them on. An event may reach the file after one with a higher
/// number, but at most this many later, which is one batch of either thread.
const LATE: u64 = 4096;

/// The most events in memory at a time. A file may have days of them.
const MOST: usize = 4_096;

/// A recording and how far it was read. It is not kept open between two calls, so that its writer
/// can end.
pub struct Follower {
    path: PathBuf,
    /// The file that was opened.
    file: Option<Identity>,
    /// The events that were returned, of the last [`LATE`] ids.
    given: BTreeSet<EventId>,
}

impl Follower {
    /// Opens a recording. Another process may be writing it.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let (found, ()) = (file(path), reader::check(path)?);
        Ok(Self {
            path: path.to_owned(),
            file: found,
            given: BTreeSet::new(),
        })
    }

    /// Returns the recording that replaced this one, if another file has its name now and is a
    /// recording.
    #[must_use]
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
            read => read.map_err(|source| RecordingError::Damaged {
                path: self.path.clone(),
                source,
            }),
        }
    }

    /// Whether its writer has it open.
    #[must_use]
    pub fn is_written(&self) -> bool {
        lock::is_held(&self.path)
    }

    fn read(&mut self, opened: &reader::Opened) -> rusqlite::Result<Vec<Event>> {
        let last = self.given.last().map_or(0, |id| id.0);
        let from = last.saturating_sub(LATE);
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
