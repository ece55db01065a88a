//! The file of a recording that is being written, and what is done when it is deleted meanwhile.

use std::{
    fs::File,
    os::unix::fs::{MetadataExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::Connection;

use super::{error::RecordingError, retention::Thinning, schema, writer::is_urgent};
use crate::event::Event;

/// An open recording.
pub(super) struct Disk {
    path: PathBuf,
    owner: Option<(u32, u32)>,
    connection: Connection,
    inode: u64,
}

impl Disk {
    /// Makes a new file (0600; `owner` is the user who ran sudo) with empty tables.
    pub(super) fn create(path: &Path, owner: Option<(u32, u32)>) -> Result<Self, RecordingError> {
        let inode = make(path, owner).map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => RecordingError::Exists(path.to_owned()),
            _ => RecordingError::NotWritable {
                path: path.to_owned(),
                source,
            },
        })?;
        let damaged = |source| RecordingError::Damaged {
            path: path.to_owned(),
            source,
        };
        let connection = Connection::open(path).map_err(damaged)?;
        schema::create(&connection).map_err(damaged)?;
        Ok(Self {
            path: path.to_owned(),
            owner,
            connection,
            inode,
        })
    }

    /// Where the file was deleted, renamed or lost its log, all that it held is written anew to its path; then true.
    pub(super) fn stay(&mut self) -> rusqlite::Result<bool> {
        if self.is_there() {
            return Ok(false);
        }
        // The open files stay readable without their names; what is left under them belongs to nothing any more.
        for end in ["", "-wal", "-shm"] {
            let _gone_already = std::fs::remove_file(beside(&self.path, end));
        }
        let failed = |error: std::io::Error| {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
            rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
        };
        let inode = make(&self.path, self.owner).map_err(failed)?;
        let path = self.path.to_string_lossy();
        self.connection.execute("VACUUM INTO ?1", [path.as_ref()])?;
        let connection = Connection::open(&self.path)?;
        schema::settings(&connection)?;
        self.connection = connection;
        self.inode = inode;
        Ok(true)
    }

    /// Whether path and log are still those that are written.
    fn is_there(&self) -> bool {
        let same = std::fs::symlink_metadata(&self.path).is_ok_and(|data| data.ino() == self.inode);
        same && beside(&self.path, "-wal").exists()
    }

    /// Writes a batch as one transaction; one that holds a death is on disk when it returns.
    pub(super) fn write(&self, batch: &[Event]) -> rusqlite::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let death = batch.iter().any(|event| is_urgent(&event.what));
        let synchronous = if death { "FULL" } else { "NORMAL" };
        self.connection
            .pragma_update(None, "synchronous", synchronous)?;
        let transaction = self.connection.unchecked_transaction()?;
        for event in batch {
            schema::insert(&transaction, event)?;
        }
        transaction.commit()
    }

    /// Gives up some of what is older than wanted.
    pub(super) fn thin(&self, thinning: &mut Thinning, at_most: Duration) -> rusqlite::Result<()> {
        if thinning.is_busy() {
            // The batch before may have held a death; nobody waits for this one.
            self.connection
                .pragma_update(None, "synchronous", "NORMAL")?;
        }
        thinning.work(&self.connection, at_most)
    }

    /// Leaves one file.
    pub(super) fn close(&self) -> rusqlite::Result<()> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        self.connection
            .pragma_update(None, "journal_mode", "DELETE")
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    PathBuf::from(format!("{}{end}", path.display()))
}

/// An empty file that was not there; its inode.
fn make(path: &Path, owner: Option<(u32, u32)>) -> std::io::Result<u64> {
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    if let Some((uid, gid)) = owner {
        // SQLite gives the -wal and -shm files the mode and owner of the main file.
        let _stays_with_root = fchown(&file, Some(uid), Some(gid));
    }
    Ok(file.metadata()?.ino())
}
