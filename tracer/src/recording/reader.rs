//! Reads a recording: also one that is being written, that was cut off, or that lies in a read-only folder.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{
    error::RecordingError,
    schema::{self, APPLICATION_ID, VERSION},
};
use crate::event::Event;

/// What a recording holds.
#[derive(Debug, Default)]
pub struct Read {
    /// Its events, by id.
    pub events: Vec<Event>,
    /// What is missing, in words for the user.
    pub warnings: Vec<String>,
    /// Whether some events could not be read because the file is damaged.
    pub damaged: bool,
}

/// Reads all events.
pub fn read(path: &Path) -> Result<Read, RecordingError> {
    let open = |source| RecordingError::Open {
        path: path.to_owned(),
        source,
    };
    let header = header(path).map_err(open)?;
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(RecordingError::NotARecording(path.to_owned()));
    }
    let mut found = Read::default();
    let beside = |end: &str| PathBuf::from(format!("{}{end}", path.display()));
    // Bytes 18 and 19 are 2 for WAL; a cleanly ended recording has 1 (SQLite file format, 1.3.2).
    if header.get(18) == Some(&2) && !beside("-wal").exists() {
        found.warnings.push(format!(
            "{} was not ended cleanly and the -wal file beside it is missing: its last seconds are lost",
            path.display()
        ));
    }
    // A copy is read where the folder cannot be written: SQLite needs a -shm file beside a WAL recording.
    let aside;
    let mut source = path;
    if header.get(18) == Some(&2) && !writable(path) {
        aside = copy(path, &beside("-wal")).map_err(open)?;
        source = aside.path.as_path();
        return rows(source, path, found);
    }
    rows(source, path, found)
}

fn rows(source: &Path, named: &Path, mut found: Read) -> Result<Read, RecordingError> {
    let damaged = |source| RecordingError::Damaged {
        path: named.to_owned(),
        source,
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(source, flags)
        .or_else(|_| Connection::open_with_flags(source, OpenFlags::SQLITE_OPEN_READ_ONLY))
        .map_err(damaged)?;
    connection
        .busy_timeout(std::time::Duration::from_secs(5))
        .map_err(damaged)?;
    let number = |name: &str| {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
    };
    if number("application_id").map_err(damaged)? != APPLICATION_ID {
        return Err(RecordingError::NotARecording(named.to_owned()));
    }
    let version = number("user_version").map_err(damaged)?;
    if version > VERSION {
        return Err(RecordingError::Newer {
            path: named.to_owned(),
            found: version,
            known: VERSION,
        });
    }
    let mut statement = connection.prepare(schema::SELECT).map_err(damaged)?;
    let mut rows = statement.query([]).map_err(damaged)?;
    let mut unknown = 0u64;
    loop {
        match rows.next() {
            Ok(Some(row)) => match schema::event(row) {
                Ok(Some(event)) => found.events.push(event),
                _ => unknown += 1,
            },
            Ok(None) => break,
            Err(error) if found.events.is_empty() || !is_damage(&error) => {
                return Err(damaged(error));
            }
            Err(error) => {
                found.damaged = true;
                found.warnings.push(format!(
                    "{} is damaged ({error}): what follows event {} is missing",
                    named.display(),
                    found.events.len()
                ));
                break;
            }
        }
    }
    if unknown > 0 {
        found.warnings.push(format!(
            "{unknown} events of {} are of kinds that this raytrace does not know",
            named.display()
        ));
    }
    Ok(found)
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::SystemIoFailure)
    )
}

fn header(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(100)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn writable(path: &Path) -> bool {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
        && rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// A copy in a folder of its own, removed at the end.
struct Aside {
    folder: PathBuf,
    path: PathBuf,
}

fn copy(path: &Path, wal: &Path) -> std::io::Result<Aside> {
    let folder = std::env::temp_dir().join(format!(
        "raytrace-read-{}-{:x}",
        std::process::id(),
        std::ptr::from_ref(path).addr()
    ));
    std::fs::create_dir(&folder)?;
    let aside = Aside {
        path: folder.join("copy.raytrace"),
        folder,
    };
    std::fs::copy(path, &aside.path)?;
    if wal.exists() {
        std::fs::copy(wal, aside.folder.join("copy.raytrace-wal"))?;
    }
    Ok(aside)
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _stays_in_tmp = std::fs::remove_dir_all(&self.folder);
    }
}
