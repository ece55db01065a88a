//! Reads a recording: also one being written, one cut short, or one in a read-only folder.
//!
//! Reading changes nothing: no log is checkpointed into the file, and none is removed. The file is
//! not trusted. It must be an SQLite database, its tables must have plain columns only, and no code
//! in its schema is run.

use std::{
    ops::ControlFlow,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::mpsc::{SyncSender, sync_channel},
    thread,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

use super::{
    error::RecordingError,
    lock, merge,
    place::beside,
    schema::{APPLICATION_ID, VERSION},
};
use crate::{bounded, event::Event};

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

/// What to say about events that were read in batches.
#[derive(Debug, Default)]
pub struct ReadSummary {
    /// The number of events.
    pub count: usize,
    /// What is missing, in words for the user.
    pub warnings: Vec<String>,
    /// Whether some events could not be read because the file is damaged.
    pub damaged: bool,
    /// Whether the recording was being written when it was opened.
    pub live: bool,
}

/// The number of events in a batch.
const BATCH: usize = 512;
/// The most batches that wait. An event has a kilobyte or more if it is a line of a log.
const WAITING: usize = 4;

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

/// Whether this is an SQLite file, as every recording is.
pub fn is_recording(path: &Path) -> bool {
    header(path).is_ok_and(|header| header.starts_with(MAGIC))
}

/// The beginning of every SQLite file (SQLite file format, 1.3.1).
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Passes all events to `tell` by id, in batches. Batches need little memory, and a thread reads
/// the next one meanwhile.
pub fn in_batches(
    path: &Path,
    mut tell: impl FnMut(Vec<Event>),
) -> Result<ReadSummary, RecordingError> {
    in_batches_until(path, |batch| {
        tell(batch);
        ControlFlow::Continue(())
    })
}

/// Does the same until `tell` breaks.
pub(super) fn in_batches_until(
    path: &Path,
    tell: impl FnMut(Vec<Event>) -> ControlFlow<()>,
) -> Result<ReadSummary, RecordingError> {
    let open = RecordingError::open(path);
    let source = Source::open(path)?;
    let mut told = ReadSummary {
        live: source.live,
        ..ReadSummary::default()
    };
    let warning = source.warning.clone();
    told.warnings.extend(warning.clone());
    let source = source.path();
    let (sender, batches) = sync_channel(WAITING);
    thread::scope(|scope| {
        let reading = thread::Builder::new().name("reader".into());
        // The sender moves into the thread, so the batches end when the thread does.
        let reading = reading.spawn_scoped(scope, move || rows(source, path, told, &sender));
        let reading = reading.map_err(open)?;
        let _all_or_enough = batches.into_iter().try_for_each(tell);
        let read = reading.join();
        match (read.unwrap_or_else(|panic| resume_unwind(panic)), warning) {
            // All of its events may have been in its log.
            (Err(RecordingError::Damaged { path, .. }), Some(_)) => {
                let reason = "it was not ended, and the -wal file beside it is missing".to_owned();
                Err(RecordingError::Cut { path, reason })
            }
            (read, _) => read,
        }
    })
}

/// The file that is read: the recording itself, or a copy of it.
pub(super) struct Source<'a> {
    named: &'a Path,
    aside: Option<Aside>,
    /// What is missing beside it, in words for the user.
    pub(super) warning: Option<String>,
    /// Whether it is being written.
    pub(super) live: bool,
}

impl<'a> Source<'a> {
    pub(super) fn open(path: &'a Path) -> Result<Self, RecordingError> {
        let open = RecordingError::open(path);
        let kind = kind(path)?;
        let live = lock::is_held(path);
        let warning = (kind == Kind::WithoutLog && !live).then(|| {
            format!(
                "{} was not ended cleanly and the -wal file beside it is missing: its last seconds are lost",
                path.display()
            )
        });
        // A copy is read where the folder cannot be written: SQLite needs a -shm file beside a WAL
        // recording.
        let copied = kind == Kind::WithLog && !writable(path);
        let aside = copied.then(|| copy(path, &beside(path, "-wal")));
        Ok(Self {
            named: path,
            aside: aside.transpose().map_err(open)?,
            warning,
            live,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.aside.as_ref().map_or(self.named, |aside| &aside.path)
    }
}

/// The kind of recording at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A recording that is a single file.
    Whole,
    /// One that is being written, or was not ended, with its log.
    WithLog,
    /// The same without its log.
    WithoutLog,
}

/// Refuses a file that is not a recording, or has a newer format.
pub(super) fn check(path: &Path) -> Result<(), RecordingError> {
    kind(path)?;
    connect(path, path).map(drop)
}

/// Finds the kind of a recording by its first bytes.
fn kind(path: &Path) -> Result<Kind, RecordingError> {
    let mut kind = kind_now(path)?;
    // A writer that is ending, or rewriting its file, may be between two steps.
    for _ in 0..100 {
        if kind != Kind::WithoutLog || !lock::is_held(path) {
            break;
        }
        thread::sleep(Duration::from_millis(10));
        kind = kind_now(path)?;
    }
    Ok(kind)
}

fn kind_now(path: &Path) -> Result<Kind, RecordingError> {
    let header = header(path).map_err(RecordingError::open(path))?;
    if header.is_empty() {
        return Err(RecordingError::Empty(path.to_owned()));
    }
    if !header.starts_with(MAGIC) {
        return Err(RecordingError::NotARecording(path.to_owned()));
    }
    // Bytes 18 and 19 are 2 for WAL; a cleanly ended recording has 1 (SQLite file format, 1.3.2).
    Ok(
        match (header.get(18) == Some(&2), beside(path, "-wal").exists()) {
            (false, _) => Kind::Whole,
            (true, true) => Kind::WithLog,
            (true, false) => Kind::WithoutLog,
        },
    )
}

/// A recording that is open for reading.
pub(super) struct Opened {
    pub(super) connection: Connection,
    /// Why it cannot be complete.
    pub(super) damage: Option<rusqlite::Error>,
}

/// Opens the database at `source`, if it is a recording of a format that this version knows.
pub(super) fn connect(source: &Path, named: &Path) -> Result<Opened, RecordingError> {
    let damaged = RecordingError::damaged(named);
    let connection = open(source).map_err(damaged)?;
    let number = |name: &str| {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
    };
    let mut application = number("application_id");
    let mut damage = None;
    if let Err(error) = &application
        && error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
    {
        // SQLite refuses a file that is shorter than its header says, unless repairing its schema
        // is allowed.
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, true)
            .map_err(damaged)?;
        let again = number("application_id");
        damage = std::mem::replace(&mut application, again).err();
    }
    if application.map_err(damaged)? != APPLICATION_ID {
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
    Ok(Opened { connection, damage })
}

/// Opens a connection that changes nothing.
fn open(source: &Path) -> rusqlite::Result<Connection> {
    let alone = kind_now(source).is_ok_and(|kind| kind == Kind::WithoutLog);
    let connection = if alone {
        // SQLite would otherwise make an empty log.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(immutable(source), flags | OpenFlags::SQLITE_OPEN_URI)?
    } else {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(source, flags)
            .or_else(|_| Connection::open_with_flags(source, OpenFlags::SQLITE_OPEN_READ_ONLY))?
    };
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // SQLite advises this for untrusted files (sqlite.org/security.html).
    connection.execute_batch("PRAGMA query_only=ON; PRAGMA cell_size_check=ON")?;
    Ok(connection)
}

/// Returns a path as a URI that tells SQLite that no process writes the file.
fn immutable(path: &Path) -> String {
    use std::{fmt::Write as _, os::unix::ffi::OsStrExt as _};
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            let _never_fails = write!(uri, "%{byte:02X}");
        }
    }
    uri + "?immutable=1"
}

/// Sends the events in batches. Returns `told`, completed with the result.
fn rows(
    source: &Path,
    named: &Path,
    mut told: ReadSummary,
    sender: &SyncSender<Vec<Event>>,
) -> Result<ReadSummary, RecordingError> {
    let damaged = RecordingError::damaged(named);
    let Opened { connection, damage } = connect(source, named)?;
    let mut batch = Vec::with_capacity(BATCH);
    let mut unknown = 0u64;
    let result = merge::for_each_row(
        &connection,
        i64::MIN,
        |_| true,
        |event| {
            let Ok(Some(event)) = event else {
                unknown += 1;
                return Ok(ControlFlow::Continue(()));
            };
            told.count += 1;
            batch.push(event);
            if batch.len() < BATCH {
                return Ok(ControlFlow::Continue(()));
            }
            let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
            // The receiver is gone if it panicked or has enough events.
            Ok(match sender.send(full) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
        },
    );
    let _told_there = sender.send(batch);
    let ended_early = result.map_err(damaged)?;
    if let Some((_, error)) = ended_early.first().filter(|_| told.count == 0) {
        return Err(RecordingError::Cut {
            path: named.to_owned(),
            reason: error.to_string(),
        });
    }
    if let Some(error) = damage
        .as_ref()
        .or(ended_early.first().map(|(_, error)| error))
    {
        told.damaged = true;
        told.warnings.push(format!(
            "{} is cut short or damaged ({error}): {}",
            named.display(),
            missing(&ended_early, told.count)
        ));
    }
    if unknown > 0 {
        let events = match unknown {
            1 => "1 event".to_owned(),
            many => format!("{many} events"),
        };
        // In a damaged file, what an event refers to may be missing.
        let why = if told.damaged {
            "could not be read"
        } else {
            "could not be read: this raytrace does not know their kinds"
        };
        told.warnings
            .push(format!("{events} of {} {why}", named.display()));
    }
    Ok(told)
}

/// Says in words what a damaged file lacks.
fn missing(ended_early: &[(merge::Part, rusqlite::Error)], count: usize) -> String {
    let parts: Vec<String> = ended_early
        .iter()
        .map(|(part, _)| part.to_string())
        .collect();
    if parts.is_empty() {
        return format!("events left: {count}; others may be missing");
    }
    format!("events left: {count}; missing are {}", parts.join(", "))
}

/// Reads the file's first bytes.
fn header(path: &Path) -> std::io::Result<Vec<u8>> {
    bounded::file(path, 100)
}

fn writable(path: &Path) -> bool {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
        && rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// A copy in a temporary folder, which is removed when this is dropped.
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
