//! Reads a recording: also one that is being written, that was cut off, or that lies in a read-only folder.

use std::{
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{
    error::RecordingError,
    merge,
    schema::{APPLICATION_ID, VERSION},
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

/// What is to be said of events that were told in batches.
#[derive(Debug, Default)]
pub struct Told {
    /// How many they were.
    pub count: usize,
    /// What is missing, in words for the user.
    pub warnings: Vec<String>,
    /// Whether some events could not be read because the file is damaged.
    pub damaged: bool,
}

/// Events of a batch.
const BATCH: usize = 1024;
/// Batches that wait at most.
const WAITING: usize = 8;

/// Reads all events into memory.
pub fn read(path: &Path) -> Result<Read, RecordingError> {
    let mut events = Vec::new();
    let told = in_batches(path, |batch| events.extend(batch))?;
    Ok(Read {
        events,
        warnings: told.warnings,
        damaged: told.damaged,
    })
}

/// Tells all events by id, a batch after the other: they need little room then, and a thread reads the next ones meanwhile.
pub fn in_batches(path: &Path, tell: impl FnMut(Vec<Event>)) -> Result<Told, RecordingError> {
    let open = |source| RecordingError::Open {
        path: path.to_owned(),
        source,
    };
    let header = header(path).map_err(open)?;
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(RecordingError::NotARecording(path.to_owned()));
    }
    let mut told = Told::default();
    let beside = |end: &str| PathBuf::from(format!("{}{end}", path.display()));
    // Bytes 18 and 19 are 2 for WAL; a cleanly ended recording has 1 (SQLite file format, 1.3.2).
    if header.get(18) == Some(&2) && !beside("-wal").exists() {
        told.warnings.push(format!(
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
    }
    let (sender, batches) = sync_channel(WAITING);
    thread::scope(|scope| {
        let reading = thread::Builder::new().name("reader".into());
        // The sender goes with it: the batches end when it does.
        let reading = reading.spawn_scoped(scope, move || rows(source, path, told, &sender));
        let reading = reading.map_err(open)?;
        batches.into_iter().for_each(tell);
        reading.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Opens the database at `source`, if it is a recording that this raytrace knows.
pub(super) fn connect(source: &Path, named: &Path) -> Result<Connection, RecordingError> {
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
    Ok(connection)
}

/// Sends the events in batches; returns `told` with how it went.
fn rows(
    source: &Path,
    named: &Path,
    mut told: Told,
    sender: &SyncSender<Vec<Event>>,
) -> Result<Told, RecordingError> {
    let damaged = |source| RecordingError::Damaged {
        path: named.to_owned(),
        source,
    };
    let connection = connect(source, named)?;
    let mut batch = Vec::with_capacity(BATCH);
    let mut unknown = 0u64;
    let result = merge::each(&connection, i64::MIN, |event| {
        let Ok(Some(event)) = event else {
            unknown += 1;
            return Ok(());
        };
        told.count += 1;
        batch.push(event);
        if batch.len() == BATCH {
            let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
            // Nobody waits for it only after a panic there.
            let _told_there = sender.send(full);
        }
        Ok(())
    });
    let _told_there = sender.send(batch);
    match result {
        Err(error) if told.count == 0 || !is_damage(&error) => return Err(damaged(error)),
        Err(error) => {
            told.damaged = true;
            told.warnings.push(format!(
                "{} is damaged ({error}): what follows event {} is missing",
                named.display(),
                told.count
            ));
        }
        Ok(()) => {}
    }
    if unknown > 0 {
        told.warnings.push(format!(
            "{unknown} events of {} are of kinds that this raytrace does not know",
            named.display()
        ));
    }
    Ok(told)
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::SystemIoFailure)
    )
}

/// The file's first bytes.
pub(super) fn header(path: &Path) -> std::io::Result<Vec<u8>> {
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
