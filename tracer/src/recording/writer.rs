//! Writes a recording: a thread of its own, batches, and queues that drop samples before deaths.

use std::{
    fs::File,
    os::unix::fs::{OpenOptionsExt, fchown},
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use rusqlite::Connection;

use super::{error::RecordingError, schema};
use crate::event::{Event, Observation};

/// Events about deaths that wait at most; about 1 KiB each.
const DEATHS_QUEUE: usize = 16_384;
/// Samples that wait at most; about 100 bytes each.
const SAMPLES_QUEUE: usize = 16_384;
/// What was seen is on disk within a second: a batch each half.
const BATCH: Duration = Duration::from_millis(500);
/// After a failure (a full disk) it is tried again this often.
const RETRY: Duration = Duration::from_secs(2);

/// What waits to be written.
#[derive(Default)]
struct Queues {
    deaths: Vec<Event>,
    samples: Vec<Event>,
    urgent: bool,
    closing: bool,
}

#[derive(Default)]
struct Shared {
    queues: Mutex<Queues>,
    wake: Condvar,
    dropped_deaths: AtomicU64,
    dropped_samples: AtomicU64,
    written: AtomicU64,
    /// The last failure, until it is taken or a write succeeds.
    failure: Mutex<Option<String>>,
}

/// Hands events to the writer; never waits.
#[derive(Clone)]
pub struct Sender(Arc<Shared>);

impl Sender {
    /// Queues an event. When its queue is full it is dropped and counted.
    pub fn send(&self, event: Event) {
        let sample = matches!(
            event.what,
            Observation::Memory(_) | Observation::Node(_) | Observation::Cgroup(_)
        );
        let urgent = matches!(event.what, Observation::Exit(_) | Observation::OomVictim(_));
        let mut queues = self.0.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let (queue, limit, dropped) = if sample {
            (&mut queues.samples, SAMPLES_QUEUE, &self.0.dropped_samples)
        } else {
            (&mut queues.deaths, DEATHS_QUEUE, &self.0.dropped_deaths)
        };
        if queue.len() >= limit {
            dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.push(event);
        if urgent && !queues.urgent {
            queues.urgent = true;
            self.0.wake.notify_one();
        }
    }

    /// Events that were dropped: about deaths, and samples.
    #[must_use]
    pub fn dropped(&self) -> (u64, u64) {
        (
            self.0.dropped_deaths.load(Ordering::Relaxed),
            self.0.dropped_samples.load(Ordering::Relaxed),
        )
    }

    /// The failure to write that is new since the last call.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.0
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

/// How a recording ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Size of the file.
    pub bytes: u64,
    /// Events in it.
    pub events: u64,
    /// Events about deaths that were dropped.
    pub dropped: u64,
    /// Why the end could not be written, if so.
    pub failure: Option<String>,
}

/// The writing thread and its file.
pub struct Writer {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Option<String>>>,
}

impl Writer {
    /// Makes a new file (0600; `owner` is the user who ran sudo) and starts its thread.
    pub fn create(path: &Path, owner: Option<(u32, u32)>) -> Result<Self, RecordingError> {
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path);
        let file = file.map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => RecordingError::Exists(path.to_owned()),
            _ => RecordingError::NotWritable {
                path: path.to_owned(),
                source,
            },
        })?;
        if let Some((uid, gid)) = owner {
            // SQLite gives the -wal and -shm files the mode and owner of the main file.
            let _stays_with_root = fchown(&file, Some(uid), Some(gid));
        }
        drop(file);
        let damaged = |source| RecordingError::Damaged {
            path: path.to_owned(),
            source,
        };
        let connection = Connection::open(path).map_err(damaged)?;
        schema::create(&connection).map_err(damaged)?;
        let shared = Arc::new(Shared::default());
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .stack_size(512 << 10);
        let for_thread = Arc::clone(&shared);
        let thread = thread.spawn(move || run(&for_thread, &connection));
        let thread = thread.map_err(|source| RecordingError::NotWritable {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            shared,
            thread: Some(thread),
        })
    }

    /// A handle to send events with.
    #[must_use]
    pub fn sender(&self) -> Sender {
        Sender(Arc::clone(&self.shared))
    }

    /// Where it writes.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what waits and leaves one file.
    #[must_use]
    pub fn finish(mut self) -> Summary {
        self.shared
            .queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closing = true;
        self.shared.wake.notify_one();
        let failure = self
            .thread
            .take()
            .and_then(|thread| thread.join().unwrap_or(Some("the writer panicked".into())));
        Summary {
            bytes: std::fs::metadata(&self.path).map_or(0, |data| data.len()),
            events: self.shared.written.load(Ordering::Relaxed),
            dropped: self.shared.dropped_deaths.load(Ordering::Relaxed),
            failure,
        }
    }
}

/// The thread: a batch each half second, at once for a death, until it is told to close.
fn run(shared: &Shared, connection: &Connection) -> Option<String> {
    let mut backlog: Vec<Event> = Vec::new();
    loop {
        let wait = if backlog.is_empty() { BATCH } else { RETRY };
        let closing = take(shared, &mut backlog, wait);
        let result = write(connection, &backlog);
        match result {
            Ok(()) => {
                shared
                    .written
                    .fetch_add(backlog.len() as u64, Ordering::Relaxed);
                backlog.clear();
                backlog.shrink_to(1024);
            }
            Err(error) => {
                let text = error.to_string();
                *shared
                    .failure
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = Some(text.clone());
                if closing {
                    return Some(text);
                }
            }
        }
        if closing {
            return close(connection).err().map(|error| error.to_string());
        }
    }
}

/// Waits for work and moves it behind the backlog, as far as that has room.
fn take(shared: &Shared, backlog: &mut Vec<Event>, wait: Duration) -> bool {
    let queues = shared.queues.lock().unwrap_or_else(PoisonError::into_inner);
    let retrying = !backlog.is_empty();
    let idle = |queues: &mut Queues| !(queues.closing || queues.urgent && !retrying);
    let (mut queues, _) = shared
        .wake
        .wait_timeout_while(queues, wait, idle)
        .unwrap_or_else(PoisonError::into_inner);
    queues.urgent = false;
    if backlog.len() < DEATHS_QUEUE {
        backlog.append(&mut queues.deaths);
        backlog.append(&mut queues.samples);
    } else {
        let lost = queues.samples.len() as u64;
        queues.samples.clear();
        shared.dropped_samples.fetch_add(lost, Ordering::Relaxed);
    }
    queues.closing
}

/// Writes a batch as one transaction; one that holds a death is on disk when it returns.
fn write(connection: &Connection, batch: &[Event]) -> rusqlite::Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let death = batch
        .iter()
        .any(|event| matches!(event.what, Observation::Exit(_) | Observation::OomVictim(_)));
    connection.pragma_update(None, "synchronous", if death { "FULL" } else { "NORMAL" })?;
    let transaction = connection.unchecked_transaction()?;
    for event in batch {
        schema::insert(&transaction, event)?;
    }
    transaction.commit()
}

fn close(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    connection.pragma_update(None, "journal_mode", "DELETE")
}
