//! Outlines a recording without judging it: its host, its time span, and its part number.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _};

use super::{error::RecordingError, reader, row, schema};
use crate::{
    event::{Observation, Previous, RecordingStarted},
    ids::WallTime,
};

/// A recording's first and last moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    /// The file.
    pub path: PathBuf,
    /// Its first event.
    pub started: RecordingStarted,
    /// When its last event happened.
    pub ended: WallTime,
    /// Whether it ended as requested.
    pub clean: bool,
}

impl Outline {
    /// Reads the outline of a recording. This reads a few rows, however long the recording is.
    pub fn of(path: &Path) -> Result<Self, RecordingError> {
        let source = reader::Source::open(path)?;
        let reader::Opened { connection, .. } = reader::connect(source.path(), path)?;
        let damaged = RecordingError::damaged(path);
        let started = first(&connection).map_err(damaged)?;
        let (started_at, started) =
            started.ok_or_else(|| RecordingError::Empty(path.to_owned()))?;
        let (last, clean) = last(&connection).map_err(damaged)?;
        let clock = clock(&connection).map_err(damaged)?;
        let (boot, wall) = clock.unwrap_or((started_at, started.wall));
        Ok(Self {
            path: path.to_owned(),
            ended: WallTime(wall.0.saturating_add(last.saturating_sub(boot))),
            started,
            clean,
        })
    }

    /// Returns when its recorder began. This is equal for all files of one recorder.
    pub fn began(&self) -> WallTime {
        let part = self.started.part.as_ref();
        part.map_or(self.started.wall, |part| part.began)
    }

    /// Returns the number of files that its recorder wrote before it.
    pub fn part(&self) -> u32 {
        self.started.part.as_ref().map_or(0, |part| part.number)
    }

    /// Returns what the next recorder records about it.
    pub fn as_previous(&self) -> Previous {
        let name = self.path.file_name().unwrap_or_default();
        Previous {
            file: name.to_string_lossy().into_owned(),
            ended: self.ended,
            clean: self.clean,
        }
    }
}

/// Returns the boot time that belongs to a time of the wall clock; `None` in an empty file.
pub(super) fn boot_time(connection: &Connection, wall: WallTime) -> rusqlite::Result<Option<i64>> {
    let mut read = clock(connection)?;
    if read.is_none() {
        read = first(connection)?.map(|(boot, started)| (boot, started.wall));
    }
    Ok(read.map(|(boot, then)| boot.saturating_add(wall.0.saturating_sub(then.0))))
}

/// Returns the boot time and content of the first event, if it is the one that every recording
/// begins with.
fn first(connection: &Connection) -> rusqlite::Result<Option<(i64, RecordingStarted)>> {
    let select = "SELECT time, body FROM events WHERE kind = 'recording_started' LIMIT 1";
    let row = connection
        .query_row(select, [], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?))
        })
        .optional()?;
    Ok(row.and_then(|(time, body)| match row::read(&body) {
        Some(Observation::RecordingStarted(started)) => Some((time, started)),
        _ => None,
    }))
}

/// Returns the boot time of the newest event, and whether the recording ended as requested.
fn last(connection: &Connection) -> rusqlite::Result<(i64, bool)> {
    let clean = "SELECT time FROM events WHERE kind = 'recording_ended' LIMIT 1";
    let ended: Option<i64> = connection
        .query_row(clean, [], |row| row.get(0))
        .optional()?;
    match ended {
        Some(time) => Ok((time, true)),
        None => Ok((schema::last_time(connection)?, false)),
    }
}

/// Returns the last reading of the wall clock: boot time and wall time.
fn clock(connection: &Connection) -> rusqlite::Result<Option<(i64, WallTime)>> {
    let select = "SELECT time, body FROM events WHERE kind = 'clock' ORDER BY id DESC LIMIT 1";
    let row = connection
        .query_row(select, [], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?))
        })
        .optional()?;
    Ok(row.and_then(|(time, body)| match row::read(&body) {
        Some(Observation::Clock { wall, .. }) => Some((time, wall)),
        _ => None,
    }))
}
