//! Scans chunks on several threads, and returns the results in order.

use std::{
    collections::VecDeque,
    num::NonZero,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread,
};

use super::{
    chunks::Chunk,
    scan::{Scanned, scan},
};

/// More threads would wait for the one that joins their results.
const MAX_THREADS: usize = 8;
/// How many chunks per thread may wait or be scanned.
const AHEAD: usize = 3;
/// Up to this many bytes, texts are scanned without threads: starting them would take longer.
const WORTH_THREADS: usize = 1 << 20;

/// A chunk to scan.
struct Job {
    chunk: Arc<Chunk>,
    done: SyncSender<Scanned>,
}

/// A chunk that was added and has not been taken back.
#[derive(Debug)]
struct Pending {
    text: usize,
    chunk: Arc<Chunk>,
    scanned: Receiver<Scanned>,
}

/// A scanned chunk of text number `text`.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) text: usize,
    pub(super) chunk: Arc<Chunk>,
    pub(super) scanned: Scanned,
}

/// The threads and the chunks that they were given.
#[derive(Debug)]
pub(super) struct Pool {
    threads: usize,
    worth: usize,
    /// The number of bytes added so far.
    bytes: usize,
    jobs: Option<Sender<Job>>,
    pending: VecDeque<Pending>,
}

impl Default for Pool {
    fn default() -> Self {
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        Self::new(cpus, WORTH_THREADS)
    }
}

impl Pool {
    /// Creates a pool that starts `threads` threads once `worth` bytes were added.
    pub(super) fn new(threads: usize, worth: usize) -> Self {
        Self {
            threads: threads.min(MAX_THREADS),
            worth,
            bytes: 0,
            jobs: None,
            pending: VecDeque::new(),
        }
    }

    /// Adds the next chunk. The caller must process the returned chunk before it adds another one.
    pub(super) fn push(&mut self, text: usize, chunk: Arc<Chunk>) -> Option<Done> {
        self.bytes = self.bytes.saturating_add(chunk.bytes.len());
        if self.threads < 2 || self.bytes < self.worth {
            let scanned = scan(&chunk.bytes);
            return Some(Done {
                text,
                chunk,
                scanned,
            });
        }
        let (done, scanned) = sync_channel(1);
        let job = Job {
            chunk: Arc::clone(&chunk),
            done,
        };
        // If no thread could be started, nobody receives it and `pop` scans the chunk.
        let _nobody = self.jobs().send(job);
        self.pending.push_back(Pending {
            text,
            chunk,
            scanned,
        });
        if self.pending.len() > self.threads * AHEAD {
            return self.pop();
        }
        None
    }

    /// Waits for the oldest chunk to be scanned and returns it.
    pub(super) fn pop(&mut self) -> Option<Done> {
        let Pending {
            text,
            chunk,
            scanned,
        } = self.pending.pop_front()?;
        let scanned = scanned.recv().unwrap_or_else(|_| scan(&chunk.bytes));
        Some(Done {
            text,
            chunk,
            scanned,
        })
    }

    /// Returns the queue of jobs, and starts the threads first if needed. They end when it is
    /// dropped.
    fn jobs(&mut self) -> &Sender<Job> {
        let threads = self.threads;
        self.jobs.get_or_insert_with(|| {
            let (jobs, queue) = channel();
            let queue = Arc::new(Mutex::new(queue));
            for _ in 0..threads {
                let queue = Arc::clone(&queue);
                let thread = thread::Builder::new().name("explain".into());
                if let Err(error) = thread.spawn(move || work(&queue)) {
                    tracing::debug!("no thread for logs: {error}");
                }
            }
            jobs
        })
    }
}

/// Scans chunks until the queue is closed.
fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = match queue.lock() {
            Ok(queue) => queue.recv(),
            Err(_) => return,
        };
        let Ok(job) = job else { return };
        // The receiver may have been dropped.
        let _gone = job.done.send(scan(&job.chunk.bytes));
    }
}
