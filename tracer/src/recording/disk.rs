//! Writes a recording's file, and writes it anew if it is deleted meanwhile.

use std::{
    fs::{File, Permissions},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use rustix::process::{getegid, geteuid};

use super::{
    bound::{self, Bound, Pieces},
    carry,
    error::{RecordingError, is_busy},
    lock,
    place::beside,
    retention::{Downsampling, Space},
    row::Priority,
    schema,
};
use crate::{
    event::{Event, Observation, Part, Source},
    ids::{BootTime, EventId, WallTime},
};

/// How often closing checks whether the last reader has closed the file.
const LOOK: Duration = Duration::from_millis(20);

/// An open recording.
pub(super) struct Disk {
    path: PathBuf,
    owner: Option<(u32, u32)>,
    bound: Bound,
    connection: Connection,
    /// Holds the writer's lock. It is closed after the connection (see [`lock`]).
    file: File,
    inode: u64,
}

impl Disk {
    /// Makes a new file with empty tables. Its mode is 0600; `owner` is the user who ran sudo.
    pub(super) fn create(
        path: &Path,
        owner: Option<(u32, u32)>,
        bound: Bound,
    ) -> Result<Self, RecordingError> {
        let (file, inode) = make(path, owner).map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => RecordingError::Exists(path.to_owned()),
            _ => RecordingError::NotWritable {
                path: path.to_owned(),
                source,
            },
        })?;
        let damaged = RecordingError::damaged(path);
        let connection = Connection::open(path).map_err(damaged)?;
        schema::create(&connection).map_err(damaged)?;
        bound.apply(&connection).map_err(damaged)?;
        Ok(Self {
            path: path.to_owned(),
            owner,
            bound,
            connection,
            file,
            inode,
        })
    }

    /// Writes the whole recording anew to its path if the file was deleted, renamed or lost its
    /// log. Returns true if it did.
    pub(super) fn rewrite_if_missing(&mut self) -> rusqlite::Result<bool> {
        if self.is_there() {
            return Ok(false);
        }
        // The open files stay readable without their names. Files that are left under these names
        // belong to nothing any more.
        for end in ["", "-wal", "-shm"] {
            let _gone_already = std::fs::remove_file(beside(&self.path, end));
        }
        let failed = |error: std::io::Error| {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
            rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
        };
        let (file, inode) = make(&self.path, self.owner).map_err(failed)?;
        let path = self.path.to_string_lossy();
        self.connection.execute("VACUUM INTO ?1", [path.as_ref()])?;
        let connection = Connection::open(&self.path)?;
        schema::settings(&connection)?;
        self.bound.apply(&connection)?;
        self.connection = connection;
        self.file = file;
        self.inode = inode;
        Ok(true)
    }

    /// Whether the file at the path and its log are still those that are written.
    fn is_there(&self) -> bool {
        let same = std::fs::symlink_metadata(&self.path).is_ok_and(|data| data.ino() == self.inode);
        same && beside(&self.path, "-wal").exists()
    }

    /// Writes the events of a batch for which there is room. A batch with a death is on disk when
    /// this returns. Returns for each event whether it is written.
    /// `left` says how much a row must leave free.
    pub(super) fn write(
        &self,
        batch: &[Event],
        left: impl Fn(&Event, Bound) -> u64,
    ) -> rusqlite::Result<Vec<bool>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let death = batch
            .iter()
            .any(|event| Priority::of(&event.what) == Priority::Urgent);
        let synchronous = if death { "FULL" } else { "NORMAL" };
        self.connection
            .pragma_update(None, "synchronous", synchronous)?;
        let mut pieces = Pieces::of(&self.connection, &self.path, self.bound)?;
        let mut written = Vec::with_capacity(batch.len());
        for event in batch {
            written.push(pieces.write(event, left(event, self.bound))?);
        }
        pieces.commit()?;
        Ok(written)
    }

    /// Returns the size of the file.
    pub(super) fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |data| data.len())
    }

    /// Returns the space on the file system of the recording.
    pub(super) fn space(&self) -> Option<Space> {
        let found = rustix::fs::statvfs(
            self.path
                .parent()
                .filter(|folder| *folder != Path::new(""))
                .unwrap_or(Path::new(".")),
        )
        .ok()?;
        Some(Space {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }

    /// Downsamples some of the rows that are older than wanted. Returns false if there is no room
    /// for that now.
    pub(super) fn downsample(
        &self,
        downsampling: &mut Downsampling,
        at_most: Duration,
    ) -> rusqlite::Result<bool> {
        if downsampling.is_busy() {
            // The last batch may have held a death. Nothing waits for this transaction.
            self.connection
                .pragma_update(None, "synchronous", "NORMAL")?;
        }
        let has_room = || bound::has_room_to_change(&self.connection, &self.path, self.bound);
        downsampling.work(&self.connection, at_most, has_room)
    }

    /// Empties the log. Returns false if a reader still needs it.
    pub(super) fn empties_log(&self) -> rusqlite::Result<bool> {
        bound::empty_log(&self.connection)
    }

    /// Makes the next file at `path`, which begins with what is known of live processes. This file
    /// is ended as if its recorder had ended.
    pub(super) fn next(
        &self,
        path: &Path,
        number: u32,
        now: (BootTime, WallTime),
    ) -> Result<Self, RecordingError> {
        let next = Self::create(path, self.owner, self.bound)?;
        let before = self.path.file_name().unwrap_or_default().to_string_lossy();
        let part = Part {
            began: now.1,
            number,
            before: before.into_owned(),
        };
        let carried = Pieces::of(&next.connection, path, self.bound)
            .and_then(|new| carry::carry_over(&self.connection, new, &part, now));
        if let Err(source) = carried.and_then(|()| self.end(now.0)) {
            for end in ["", "-wal", "-shm"] {
                let _not_there = std::fs::remove_file(beside(path, end));
            }
            return Err(RecordingError::damaged(path)(source));
        }
        Ok(next)
    }

    /// Writes the last event of a file that is followed by another one.
    fn end(&self, now: BootTime) -> rusqlite::Result<()> {
        let last = schema::last_id(&self.connection)?;
        let ended = Event {
            id: EventId(last + 1),
            time: now,
            source: Source::Recorder,
            what: Observation::RecordingEnded,
        };
        schema::insert(&self.connection, &ended)
    }

    #[cfg(test)]
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Turns the recording into a single file. Waits for readers for at most `patience`.
    pub(super) fn close(&self, patience: Duration) -> rusqlite::Result<()> {
        self.connection.busy_timeout(LOOK)?;
        let until = Instant::now() + patience;
        loop {
            let done = self.become_one_file();
            match done {
                Err(error) if is_busy(&error) && Instant::now() < until => thread::sleep(LOOK),
                done => return done,
            }
        }
    }

    fn become_one_file(&self) -> rusqlite::Result<()> {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let blocked: i64 = self
            .connection
            .query_row(checkpoint, [], |row| row.get(0))?;
        if blocked != 0 {
            let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
            return Err(rusqlite::Error::SqliteFailure(busy, None));
        }
        self.connection
            .pragma_update(None, "journal_mode", "DELETE")
    }
}

/// Makes an empty file that did not exist, and locks it. Returns it with its inode.
fn make(path: &Path, owner: Option<(u32, u32)>) -> std::io::Result<(File, u64)> {
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    // Root with another group, as a service has by `Group=`: that group may read recordings.
    if geteuid().is_root() && !getegid().is_root() {
        file.set_permissions(Permissions::from_mode(0o640))?;
    }
    if let Some((uid, gid)) = owner {
        // SQLite gives the -wal and -shm files the mode and owner of the main file.
        let _stays_with_root = fchown(&file, Some(uid), Some(gid));
    }
    lock::hold(&file);
    let inode = file.metadata()?.ino();
    Ok((file, inode))
}
