//! Threads that look through chunks, and the chunks in their order.

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

/// More threads would wait for the one that joins what they find.
const MAX_THREADS: usize = 8;
/// Chunks that wait or are looked through, for each thread.
const AHEAD: usize = 3;
/// Texts that are smaller together are looked through where they are read: starting threads would take longer.
const WORTH_THREADS: usize = 1 << 20;

/// A chunk to be looked through.
struct Job {
    chunk: Arc<Chunk>,
    done: SyncSender<Scanned>,
}

/// A chunk that was handed in.
#[derive(Debug)]
struct Pending {
    text: usize,
    chunk: Arc<Chunk>,
    scanned: Receiver<Scanned>,
}

/// A chunk that was looked through, of text number `text`.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) text: usize,
    pub(super) chunk: Arc<Chunk>,
    pub(super) scanned: Scanned,
}

/// The threads, and what they were given.
#[derive(Debug)]
pub(super) struct Pool {
    threads: usize,
    worth: usize,
    /// Bytes that were handed in.
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
    /// So many threads once `worth` bytes have come.
    pub(super) fn new(threads: usize, worth: usize) -> Self {
        Self {
            threads: threads.min(MAX_THREADS),
            worth,
            bytes: 0,
            jobs: None,
            pending: VecDeque::new(),
        }
    }

    /// Hands in the next chunk. What must be taken before another is handed in comes back.
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
        // Nobody takes it where no thread could be started: `pop` looks through it then.
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

    /// The oldest chunk that was not taken, once it is looked through.
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

    /// Where jobs go; the threads end with it.
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

/// Looks through chunks until there are no more.
fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = match queue.lock() {
            Ok(queue) => queue.recv(),
            Err(_) => return,
        };
        let Ok(job) = job else { return };
        // Whoever asked may be gone.
        let _gone = job.done.send(scan(&job.chunk.bytes));
    }
}
