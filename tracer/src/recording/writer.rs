//! Writes a recording: a thread of its own, batches, and queues that drop samples before deaths.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::{Retention, disk::Disk, error::RecordingError, retention::Thinning};
use crate::{
    event::{Event, Observation},
    observe::clock,
};

/// Events about deaths that wait at most; about 1 KiB each.
const DEATHS_QUEUE: usize = 16_384;
/// Of these, what logs said waits in this part only: who writes a million lines a second drops no death.
const WORDS_QUEUE: usize = DEATHS_QUEUE / 2;
/// And forks, new programs, titles and exits with 0 in this one.
const LIVES_QUEUE: usize = DEATHS_QUEUE / 4 * 3;
/// Samples that wait at most; about 100 bytes each.
const SAMPLES_QUEUE: usize = 16_384;
/// What was seen is on disk within a second: a batch each half.
const BATCH: Duration = Duration::from_millis(500);
/// What is older than wanted is given up this often.
const THIN: Duration = Duration::from_secs(300);
/// For so long at a time, and after each such time the writer rests as long, unless there is something to write.
const THIN_FOR: Duration = Duration::from_millis(30);
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
    dropped_words: AtomicU64,
    dropped_samples: AtomicU64,
    written: AtomicU64,
    /// The last failure, until it is taken or a write succeeds.
    failure: Mutex<Option<String>>,
    /// Nothing more can be given up of a file that is too large, until it is taken.
    too_large: AtomicBool,
    /// The file was gone and has been written anew, until it is taken.
    anew: AtomicBool,
}

/// What is dropped first when there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Sample,
    Words,
    Life,
    Death,
}

impl Class {
    fn of(what: &Observation) -> Self {
        match what {
            // The call that a process may die in is told while it runs.
            Observation::Call(call) if call.ended.is_none() => Self::Life,
            Observation::Memory(_)
            | Observation::Node(_)
            | Observation::Cgroup(_)
            | Observation::Mapped(_)
            | Observation::Stack(_)
            | Observation::Freed { .. }
            | Observation::Call(_)
            | Observation::Gpu(_)
            | Observation::SharedFile(_) => Self::Sample,
            Observation::RayLog(_) => Self::Words,
            Observation::Fork { .. } | Observation::Exec(_) | Observation::Title { .. } => {
                Self::Life
            }
            Observation::Exit(exit) if exit.status == Some(0) => Self::Life,
            _ => Self::Death,
        }
    }
}

/// Hands events to the writer; never waits.
#[derive(Clone)]
pub struct Sender(Option<Arc<Shared>>);

impl Sender {
    /// One behind which nothing is written.
    #[must_use]
    pub fn nowhere() -> Self {
        Self(None)
    }

    /// Queues an event; whether it was taken. When its queue is full it is dropped and counted.
    pub fn send(&self, event: Event) -> bool {
        let Some(shared) = &self.0 else { return true };
        let class = Class::of(&event.what);
        let mut queues = shared.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let (queue, limit, dropped) = match class {
            Class::Sample => (&mut queues.samples, SAMPLES_QUEUE, &shared.dropped_samples),
            Class::Words => (&mut queues.deaths, WORDS_QUEUE, &shared.dropped_words),
            Class::Life => (&mut queues.deaths, LIVES_QUEUE, &shared.dropped_deaths),
            Class::Death => (&mut queues.deaths, DEATHS_QUEUE, &shared.dropped_deaths),
        };
        if queue.len() >= limit {
            dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let words = class == Class::Words && queue.len() >= WORDS_QUEUE / 2;
        let urgent = is_urgent(&event.what) || words;
        queue.push(event);
        if urgent && !queues.urgent {
            queues.urgent = true;
            shared.wake.notify_one();
        }
        true
    }

    /// Events that were dropped: about deaths, and samples.
    #[must_use]
    pub fn dropped(&self) -> (u64, u64) {
        self.0.as_ref().map_or((0, 0), |shared| {
            (
                shared.dropped_deaths.load(Ordering::Relaxed),
                shared.dropped_samples.load(Ordering::Relaxed),
            )
        })
    }

    /// Whether there is room for what logs say: they are files, and may be read later.
    #[must_use]
    pub fn has_room_for_words(&self) -> bool {
        let Some(shared) = &self.0 else { return true };
        let queues = shared.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.deaths.len() < WORDS_QUEUE / 2
    }

    /// Records of logs that were dropped.
    #[must_use]
    pub fn dropped_words(&self) -> u64 {
        let dropped = |shared: &Arc<Shared>| shared.dropped_words.load(Ordering::Relaxed);
        self.0.as_ref().map_or(0, dropped)
    }

    /// The failure to write that is new since the last call.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let shared = self.0.as_ref()?;
        shared
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Whether the file has become larger than wanted, and nothing more can be given up, since the last call.
    #[must_use]
    pub fn too_large(&self) -> bool {
        let too_large = |shared: &Arc<Shared>| shared.too_large.swap(false, Ordering::Relaxed);
        self.0.as_ref().is_some_and(too_large)
    }

    /// Whether the file was gone and has been written anew since the last call.
    #[must_use]
    pub fn anew(&self) -> bool {
        let anew = |shared: &Arc<Shared>| shared.anew.swap(false, Ordering::Relaxed);
        self.0.as_ref().is_some_and(anew)
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

/// A new file whose thread does not run yet; what is sent meanwhile waits.
pub struct Prepared {
    path: PathBuf,
    shared: Arc<Shared>,
    disk: Disk,
    retention: Retention,
    thin_every: Duration,
}

impl Prepared {
    #[cfg(test)]
    pub(super) fn thinning_every(self, thin_every: Duration) -> Self {
        Self { thin_every, ..self }
    }

    /// A handle to send events with.
    #[must_use]
    pub fn sender(&self) -> Sender {
        Sender(Some(Arc::clone(&self.shared)))
    }

    /// Starts the thread, which has the rights of the one that calls this.
    pub fn start(self) -> Result<Writer, RecordingError> {
        let Self {
            path,
            shared,
            disk,
            retention,
            thin_every,
        } = self;
        let thinning = Thinning::new(retention);
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .stack_size(512 << 10);
        let for_thread = Arc::clone(&shared);
        match thread.spawn(move || run(&for_thread, disk, thinning, thin_every)) {
            Ok(thread) => Ok(Writer {
                path,
                shared,
                thread: Some(thread),
            }),
            Err(source) => Err(RecordingError::NotWritable { path, source }),
        }
    }
}

/// The writing thread and its file.
pub struct Writer {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Option<String>>>,
}

impl Writer {
    /// Makes a new file: 0600; `owner` is the user who ran sudo.
    pub fn prepare(
        path: &Path,
        owner: Option<(u32, u32)>,
        retention: Retention,
    ) -> Result<Prepared, RecordingError> {
        Ok(Prepared {
            retention,
            thin_every: THIN,
            path: path.to_owned(),
            shared: Arc::default(),
            disk: Disk::create(path, owner)?,
        })
    }

    /// Makes a new file and starts its thread.
    pub fn create(path: &Path, owner: Option<(u32, u32)>) -> Result<Self, RecordingError> {
        Self::keeping(path, owner, Retention::default())
    }

    /// The same, with another bound on what a long recording keeps.
    pub fn keeping(
        path: &Path,
        owner: Option<(u32, u32)>,
        retention: Retention,
    ) -> Result<Self, RecordingError> {
        Self::prepare(path, owner, retention)?.start()
    }

    /// A handle to send events with.
    #[must_use]
    pub fn sender(&self) -> Sender {
        Sender(Some(Arc::clone(&self.shared)))
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
fn run(
    shared: &Shared,
    mut disk: Disk,
    mut thinning: Thinning,
    thin_every: Duration,
) -> Option<String> {
    let mut thinned = Instant::now();
    let mut backlog: Vec<Event> = Vec::new();
    loop {
        let wait = match (backlog.is_empty(), thinning.is_busy()) {
            (false, _) => RETRY,
            (true, true) => THIN_FOR,
            (true, false) => BATCH,
        };
        let closing = take(shared, &mut backlog, wait);
        let result = disk.stay().and_then(|anew| {
            shared.anew.fetch_or(anew, Ordering::Relaxed);
            disk.write(&backlog)
        });
        if result.is_ok() {
            thinning.note(&backlog);
            shared
                .written
                .fetch_add(backlog.len() as u64, Ordering::Relaxed);
            backlog.clear();
            backlog.shrink_to(1024);
        }
        // Not while a death waits to be written.
        let result = result.and_then(|()| {
            if closing {
                return Ok(());
            }
            if thinned.elapsed() >= thin_every {
                thinned = Instant::now();
                thinning.begin(clock::boot());
            }
            let was = thinning.is_too_large();
            disk.thin(&mut thinning, THIN_FOR)?;
            let is = thinning.is_too_large();
            shared.too_large.fetch_or(is && !was, Ordering::Relaxed);
            Ok(())
        });
        if let Err(error) = result {
            let text = error.to_string();
            *shared
                .failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(text.clone());
            if closing {
                return Some(text);
            }
        }
        if closing {
            return disk.close().err().map(|error| error.to_string());
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

/// What must outlive the machine's next instant. A normal exit can wait for its batch.
pub(super) fn is_urgent(what: &Observation) -> bool {
    match what {
        Observation::Exit(exit) => exit.status != Some(0),
        Observation::OomVictim(_) => true,
        _ => false,
    }
}
