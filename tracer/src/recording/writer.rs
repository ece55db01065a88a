//! Writes a recording in a thread of its own, in batches. Full queues drop samples before deaths.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::{
    Retention, Rotation,
    bound::Bound,
    disk::Disk,
    error::RecordingError,
    retention::{Downsampling, Space},
    rotation::Rotating,
    row::Priority,
};
use crate::{
    event::{Event, Observation},
    ids::BootTime,
    observe::clock,
};

/// The most events about deaths that wait, of about 1 KiB each.
const DEATHS_QUEUE: usize = 16_384;
/// Log records may fill only this part of that queue, so that a process that writes a million lines
/// a second causes no death to be dropped.
const LOG_RECORDS_QUEUE: usize = DEATHS_QUEUE / 2;
/// Forks, execs, titles and exits with status 0 may fill only this part.
const LIFECYCLE_QUEUE: usize = DEATHS_QUEUE / 4 * 3;
/// The most samples that wait, of about 100 bytes each.
const SAMPLES_QUEUE: usize = 16_384;
/// Events are on disk within a second: a batch is written every half second.
const BATCH: Duration = Duration::from_millis(500);
/// How often rows that are older than wanted are downsampled.
const DOWNSAMPLE_EVERY: Duration = Duration::from_secs(300);
/// How often a file that has become too large meanwhile is downsampled.
const DOWNSAMPLE_AGAIN: Duration = Duration::from_secs(10);
/// How long downsampling runs at a time. Then the writer rests for as long, unless there is
/// something to write.
const DOWNSAMPLE_FOR: Duration = Duration::from_millis(30);
/// How often to check whether the first batch, which takes some ms, is written.
const FIRST_BATCH_POLL: Duration = Duration::from_millis(1);
/// After a failure (a full disk), writing is tried again this often.
const RETRY: Duration = Duration::from_secs(2);
/// How long closing waits for readers: `report` of a large file takes some seconds.
const WAIT_FOR_READERS: Duration = Duration::from_secs(20);
/// How often closing tries to write deaths for which there was no room.
const CLOSING_RETRY: Duration = Duration::from_millis(50);

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
    dropped_log_records: AtomicU64,
    dropped_samples: AtomicU64,
    written: AtomicU64,
    /// The last failure, until it is taken or a write succeeds.
    failure: Mutex<Option<String>>,
    /// Whether the file is too large and nothing more can be given up, until this is taken.
    too_large: AtomicBool,
    /// Whether the file was gone and has been written anew, until this is taken.
    rewritten: AtomicBool,
    /// The file that is written now.
    file: Mutex<PathBuf>,
    /// Whether a new file was begun, until this is taken.
    has_next_file: AtomicBool,
    /// The last time at which there was nothing to downsample.
    settled: AtomicU64,
}

/// The clock that downsampling uses.
type Clock = Arc<dyn Fn() -> BootTime + Send + Sync>;

impl Shared {
    fn file(&self) -> PathBuf {
        lock(&self.file).clone()
    }

    fn fail(&self, text: String) {
        *lock(&self.failure) = Some(text);
    }
}

/// Locks what threads share. A thread that panicked left it whole.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes events to the writer. Never waits.
#[derive(Clone)]
pub struct Sender {
    shared: Arc<Shared>,
    discards: bool,
}

impl Sender {
    fn of(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            discards: false,
        }
    }

    /// Makes a sender that discards events.
    pub fn discarding() -> Self {
        Self {
            shared: Arc::default(),
            discards: true,
        }
    }

    /// Queues an event. Returns whether it was taken: when its queue is full, it is dropped and
    /// counted.
    pub fn send(&self, event: Event) -> bool {
        if self.discards {
            return true;
        }
        let shared = &self.shared;
        let priority = Priority::of(&event.what);
        let mut queues = lock(&shared.queues);
        let (queue, limit, dropped) = match priority {
            Priority::Sample => (&mut queues.samples, SAMPLES_QUEUE, &shared.dropped_samples),
            Priority::LogRecord => (
                &mut queues.deaths,
                LOG_RECORDS_QUEUE,
                &shared.dropped_log_records,
            ),
            Priority::Lifecycle => (&mut queues.deaths, LIFECYCLE_QUEUE, &shared.dropped_deaths),
            Priority::Death | Priority::Urgent => {
                (&mut queues.deaths, DEATHS_QUEUE, &shared.dropped_deaths)
            }
        };
        if queue.len() >= limit {
            dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let many_records = priority == Priority::LogRecord && queue.len() >= LOG_RECORDS_QUEUE / 2;
        let urgent = priority == Priority::Urgent || many_records;
        queue.push(event);
        if urgent && !queues.urgent {
            queues.urgent = true;
            shared.wake.notify_one();
        }
        true
    }

    /// Returns how many events wait to be written: those about deaths, and samples.
    pub fn waiting(&self) -> (usize, usize) {
        let queues = lock(&self.shared.queues);
        (queues.deaths.len(), queues.samples.len())
    }

    /// Returns how many events were dropped: those about deaths, and samples.
    pub fn dropped(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (
            of(&self.shared.dropped_deaths),
            of(&self.shared.dropped_samples),
        )
    }

    /// Returns for how many log records there is room. Logs are files, and may be read later. A
    /// quarter of the room is left for what other threads send meanwhile.
    pub fn room_for_log_records(&self) -> u64 {
        let most = LOG_RECORDS_QUEUE / 4 * 3;
        let waiting = self.waiting().0;
        most.saturating_sub(waiting) as u64
    }

    /// Returns how many log records were dropped.
    pub fn dropped_log_records(&self) -> u64 {
        self.shared.dropped_log_records.load(Ordering::Relaxed)
    }

    /// Returns the failure to write since the last call, if there is one.
    pub fn take_failure(&self) -> Option<String> {
        lock(&self.shared.failure).take()
    }

    /// Whether, since the last call, the file has become too large with nothing more to give up.
    pub fn take_too_large(&self) -> bool {
        self.shared.too_large.swap(false, Ordering::Relaxed)
    }

    /// Whether the file was gone and has been written anew since the last call.
    pub fn take_rewritten(&self) -> bool {
        self.shared.rewritten.swap(false, Ordering::Relaxed)
    }

    /// Returns the next file, if one was begun since the last call.
    pub fn take_next_file(&self) -> Option<PathBuf> {
        let is_new = self.shared.has_next_file.swap(false, Ordering::Relaxed);
        is_new.then(|| self.shared.file())
    }
}

/// How a recording ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The size of the file.
    pub bytes: u64,
    /// The number of events written.
    pub events: u64,
    /// The number of events about deaths that were dropped.
    pub dropped: u64,
    /// Why closing failed, if it did.
    pub failure: Option<EndFailure>,
}

/// How closing a recording can fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndFailure {
    /// The last events could not be written.
    Events(String),
    /// All events are written, but some of them are in the `-wal` file beside the recording.
    TwoFiles(String),
}

impl std::fmt::Display for EndFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Events(why) => write!(f, "the last events could not be written: {why}"),
            Self::TwoFiles(why) => write!(
                f,
                "all events are written, but the recording could not be made one file ({why}): keep the -wal file beside it"
            ),
        }
    }
}

/// A new file before its thread is started. Events that are sent meanwhile wait.
pub struct Prepared {
    shared: Arc<Shared>,
    files: Files,
}

impl Prepared {
    /// Downsamples by another clock than this machine's, so that a test can write a month in an
    /// hour.
    pub fn by_clock(mut self, clock: impl Fn() -> BootTime + Send + Sync + 'static) -> Self {
        self.files.clock = Arc::new(clock);
        self
    }

    #[cfg(test)]
    pub(super) fn downsampling_every(mut self, downsample_every: Duration) -> Self {
        self.files.downsample_every = downsample_every;
        self
    }

    /// Begins a new file from time to time.
    pub fn rotating(mut self, rotation: Option<Rotation>) -> Self {
        self.files.rotating = rotation.map(Rotating::new);
        self
    }

    /// Returns a handle to send events with.
    pub fn sender(&self) -> Sender {
        Sender::of(&self.shared)
    }

    /// Starts the thread. It has the rights of the thread that calls this.
    pub fn start(self) -> Result<Writer, RecordingError> {
        let Self { shared, mut files } = self;
        files.downsampled = (files.clock)();
        let path = files.disk.path().to_owned();
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .stack_size(512 << 10);
        let for_thread = Arc::clone(&shared);
        match thread.spawn(move || run(&for_thread, files)) {
            Ok(thread) => Ok(Writer {
                shared,
                thread: Some(thread),
            }),
            Err(source) => Err(RecordingError::NotWritable { path, source }),
        }
    }
}

/// The writing thread and its file.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Option<EndFailure>>>,
}

impl Writer {
    /// Makes a new file. Its mode is 0600; `owner` is the user who ran sudo.
    pub fn prepare(
        path: &Path,
        owner: Option<(u32, u32)>,
        retention: Retention,
    ) -> Result<Prepared, RecordingError> {
        let shared = Shared {
            file: Mutex::new(path.to_owned()),
            ..Shared::default()
        };
        let files = Files {
            disk: Disk::create(path, owner, retention.bound())?,
            downsampling: Downsampling::new(retention),
            retention,
            rotating: None,
            clock: Arc::new(clock::boot),
            downsample_every: DOWNSAMPLE_EVERY,
            downsampled: BootTime(0),
            looked: BootTime(0),
            is_starved: false,
            is_blocked: false,
        };
        let shared = Arc::new(shared);
        Ok(Prepared { shared, files })
    }

    /// Makes a new file and starts its thread.
    pub fn create(path: &Path, owner: Option<(u32, u32)>) -> Result<Self, RecordingError> {
        Self::create_with_retention(path, owner, Retention::default())
    }

    /// Does the same with other bounds on what a long recording keeps.
    pub fn create_with_retention(
        path: &Path,
        owner: Option<(u32, u32)>,
        retention: Retention,
    ) -> Result<Self, RecordingError> {
        Self::prepare(path, owner, retention)?.start()
    }

    /// Returns a handle to send events with.
    pub fn sender(&self) -> Sender {
        Sender::of(&self.shared)
    }

    /// Returns the file that it writes now.
    pub fn path(&self) -> PathBuf {
        self.shared.file()
    }

    /// Makes it write waiting events and check for old rows at once.
    pub fn flush_now(&self) {
        lock(&self.shared.queues).urgent = true;
        self.shared.wake.notify_one();
    }

    /// Returns how many events wait, and up to which time all old rows have been downsampled.
    pub fn waiting(&self) -> (usize, BootTime) {
        let (deaths, samples) = self.sender().waiting();
        let settled = self.shared.settled.load(Ordering::Relaxed);
        (deaths + samples, BootTime(settled))
    }

    /// Waits until the first events are in the file. Returns false if they are not after this time.
    pub fn wait_for_first(&self, patience: Duration) -> bool {
        let began = Instant::now();
        while self.shared.written.load(Ordering::Relaxed) == 0 {
            if began.elapsed() > patience {
                return false;
            }
            std::thread::sleep(FIRST_BATCH_POLL);
        }
        true
    }

    /// Writes waiting events and leaves a single file.
    pub fn finish(mut self) -> Summary {
        lock(&self.shared.queues).closing = true;
        self.shared.wake.notify_one();
        let failure = self.thread.take().and_then(|thread| {
            let panicked = EndFailure::Events("the writer panicked".into());
            thread.join().unwrap_or(Some(panicked))
        });
        Summary {
            bytes: std::fs::metadata(self.shared.file()).map_or(0, |data| data.len()),
            events: self.shared.written.load(Ordering::Relaxed),
            dropped: self.shared.dropped_deaths.load(Ordering::Relaxed),
            failure,
        }
    }
}

/// When a batch is written. It decides what becomes of deaths without room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Recording,
    Closing,
    /// They are dropped and counted.
    Last,
}

/// The file that is written, and when the next one is begun.
struct Files {
    disk: Disk,
    downsampling: Downsampling,
    retention: Retention,
    rotating: Option<Rotating>,
    clock: Clock,
    downsample_every: Duration,
    /// When the last pass of downsampling began.
    downsampled: BootTime,
    /// When downsampling was last called.
    looked: BootTime,
    /// Whether the disk is full and nothing more can be given up. Samples are then left out.
    is_starved: bool,
    /// Whether there is no room to downsample, because a reader needs the log.
    is_blocked: bool,
}

impl Files {
    /// Downsamples some of the rows that have become old.
    fn downsample(&mut self, shared: &Shared, every: Duration) -> rusqlite::Result<()> {
        let now = (self.clock)();
        self.looked = now;
        if self.is_due(now, every) {
            self.downsampled = now;
            self.downsampling.begin(now, self.disk.space());
        }
        let was = self.downsampling.is_too_large();
        let downsampled = self
            .disk
            .downsample(&mut self.downsampling, DOWNSAMPLE_FOR)?;
        self.is_blocked = !downsampled;
        let is = self.downsampling.is_too_large();
        self.is_starved = is && self.disk.space().is_some_and(Space::is_short);
        shared.too_large.fetch_or(is && !was, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the backlog, into a new file if the old one is gone. Only deaths for which there is
    /// no room now stay in it: a reader may end later. What else has no room is counted.
    fn write(
        &mut self,
        shared: &Shared,
        backlog: &mut Vec<Event>,
        attempt: Attempt,
    ) -> rusqlite::Result<()> {
        let rewritten = self.disk.rewrite_if_missing()?;
        shared.rewritten.fetch_or(rewritten, Ordering::Relaxed);
        // Also if writing fails: there may be room for deaths.
        if self.is_starved {
            let before = backlog.len();
            backlog.retain(|event| Priority::of(&event.what) != Priority::Sample);
            let dropped = (before - backlog.len()) as u64;
            shared.dropped_samples.fetch_add(dropped, Ordering::Relaxed);
        }
        let left = |event: &Event, bound: Bound| match (&event.what, Priority::of(&event.what)) {
            (Observation::RecordingEnded, _) => 0,
            (Observation::Ledger(_), _) if attempt != Attempt::Recording => 0,
            (_, priority) => bound.left_after(priority),
        };
        let written = self.disk.write(backlog, left)?;
        let mut stays = Vec::new();
        for (event, written) in std::mem::take(backlog).into_iter().zip(written) {
            let counted = match Priority::of(&event.what) {
                _ if written => {
                    self.downsampling.note(&event);
                    &shared.written
                }
                Priority::Sample => &shared.dropped_samples,
                Priority::LogRecord => &shared.dropped_log_records,
                Priority::Death | Priority::Urgent if attempt != Attempt::Last => {
                    stays.push(event);
                    continue;
                }
                _ => &shared.dropped_deaths,
            };
            counted.fetch_add(1, Ordering::Relaxed);
        }
        let is_death = |event: &Event| Priority::of(&event.what) == Priority::Urgent;
        self.downsampling
            .set_deaths_wait(stays.iter().any(is_death));
        *backlog = stays;
        Ok(())
    }

    /// Writes what is left and makes the recording one file. Deaths without room wait for readers
    /// to end, and for older rows to be given up.
    fn close(&mut self, shared: &Shared, mut backlog: Vec<Event>) -> Result<(), EndFailure> {
        let events = |error: rusqlite::Error| {
            shared.fail(error.to_string());
            EndFailure::Events(error.to_string())
        };
        let until = Instant::now() + WAIT_FOR_READERS;
        let mut attempt = Attempt::Closing;
        loop {
            self.write(shared, &mut backlog, attempt).map_err(events)?;
            if backlog.is_empty() {
                break;
            }
            let may_have_room = self.makes_room(shared).map_err(events)?;
            if !may_have_room || Instant::now() >= until {
                attempt = Attempt::Last;
            } else {
                std::thread::sleep(CLOSING_RETRY);
            }
        }
        let patience = until.saturating_duration_since(Instant::now());
        let closed = self.disk.close(patience);
        closed.map_err(|error| EndFailure::TwoFiles(error.to_string()))
    }

    /// Gives up older rows for some time. Returns whether there may be more room later.
    fn makes_room(&mut self, shared: &Shared) -> rusqlite::Result<bool> {
        self.downsample(shared, Duration::ZERO)?;
        Ok(self.downsampling.is_busy() || !self.disk.empties_log()?)
    }

    /// Whether a pass of downsampling is due: after some time, or because the file is too large.
    fn is_due(&self, now: BootTime, every: Duration) -> bool {
        let waited = now.since(self.downsampled);
        let over = |time: Duration| waited >= i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let is_over = || {
            let size = self.disk.bytes();
            !self.downsampling.is_too_large() && self.retention.is_over(size)
        };
        let deaths_wait = self.downsampling.deaths_wait();
        deaths_wait || over(every) || over(DOWNSAMPLE_AGAIN) && is_over()
    }

    /// Begins the next file, if it is due. All events that were taken from the queues are in this
    /// one, except deaths for which it has no room.
    fn rotate(&mut self, shared: &Shared) {
        let Some(rotating) = self.rotating.as_mut().filter(|rotating| rotating.is_due()) else {
            return;
        };
        let now = clock::both();
        let next = self.disk.next(&rotating.next(now.1), rotating.part, now);
        let next = match next {
            Ok(next) => next,
            Err(error) => {
                rotating.failed();
                return shared.fail(format!("the next file cannot be made: {error}"));
            }
        };
        let last = std::mem::replace(&mut self.disk, next);
        self.downsampling = Downsampling::new(self.retention);
        // If this fails, the recording is still complete with its -wal file.
        if let Err(error) = last.close(Duration::ZERO) {
            tracing::info!("{} is not one file: {error}", last.path().display());
        }
        drop(last);
        rotating.begun();
        self.disk.path().clone_into(&mut lock(&shared.file));
        shared.has_next_file.store(true, Ordering::Relaxed);
        rotating.prune(self.disk.path());
    }
}

/// Runs the thread: writes a batch each half second, or at once for a death, until it is told to
/// close.
fn run(shared: &Shared, mut files: Files) -> Option<EndFailure> {
    let downsample_every = files.downsample_every;
    let mut backlog: Vec<Event> = Vec::new();
    let mut has_failed = false;
    if let Some(rotating) = &files.rotating {
        rotating.prune(files.disk.path());
    }
    loop {
        let is_downsampling = files.downsampling.is_busy() && !files.is_blocked && !has_failed;
        let wait = match (backlog.is_empty(), is_downsampling) {
            (_, true) => DOWNSAMPLE_FOR,
            (false, false) => RETRY,
            (true, false) => BATCH,
        };
        if take(shared, &mut backlog, wait) {
            return files.close(shared, backlog).err();
        }
        let result = files.write(shared, &mut backlog, Attempt::Recording);
        if result.is_ok() {
            files.rotate(shared);
        }
        // Downsampling does not run while a death waits to be written.
        let result = result.and_then(|()| files.downsample(shared, downsample_every));
        if result.is_ok() && !files.downsampling.is_busy() {
            shared.settled.store(files.looked.0, Ordering::Relaxed);
        }
        has_failed = result.is_err();
        if let Err(error) = result {
            shared.fail(error.to_string());
        }
    }
}

/// Waits for events and appends them to the backlog, if that has room or nothing comes any more.
/// Returns whether to close.
fn take(shared: &Shared, backlog: &mut Vec<Event>, wait: Duration) -> bool {
    let queues = lock(&shared.queues);
    let retrying = !backlog.is_empty();
    let idle = |queues: &mut Queues| !(queues.closing || queues.urgent && !retrying);
    let (mut queues, _) = shared
        .wake
        .wait_timeout_while(queues, wait, idle)
        .unwrap_or_else(PoisonError::into_inner);
    queues.urgent = false;
    if backlog.len() < DEATHS_QUEUE || queues.closing {
        backlog.append(&mut queues.deaths);
        backlog.append(&mut queues.samples);
    } else {
        let lost = queues.samples.len() as u64;
        queues.samples.clear();
        shared.dropped_samples.fetch_add(lost, Ordering::Relaxed);
    }
    queues.closing
}
