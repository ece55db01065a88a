//! The thread that empties the kernel's ring: it numbers what it takes, hands it to the recording, and passes it on.
//!
//! It touches neither disk nor /proc nor Ray. When the collector is slow its queue fills, and the collector misses events that
//! the recording has.

use std::{
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

use super::Ids;
use crate::{
    event::{Event, Source},
    observe::kernel::Ring,
    recording,
};

/// Fork and exec records do not wake the reader: it looks this often.
const LOOK: Duration = Duration::from_millis(50);
/// Exits without room in the ring are looked for this often.
const HARVEST: Duration = Duration::from_secs(1);
/// Events that wait for the collector at most.
const QUEUE: usize = 16_384;

/// The running thread.
pub struct KernelThread {
    stop: Arc<AtomicBool>,
    /// Events that the collector did not get; the recording has them.
    pub missed: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

/// Starts the thread; the receiver is the collector's.
pub fn start(
    mut ring: Ring,
    ids: Ids,
    recording: recording::Sender,
) -> std::io::Result<(KernelThread, mpsc::Receiver<Event>)> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let stop = Arc::new(AtomicBool::new(false));
    let missed = Arc::new(AtomicU64::new(0));
    let (stopping, missing) = (Arc::clone(&stop), Arc::clone(&missed));
    let thread = std::thread::Builder::new()
        .name("kernel".into())
        .stack_size(512 << 10)
        .spawn(move || {
            let mut pass = |time, what| {
                let event = Event {
                    id: ids.next(),
                    time,
                    source: Source::Kernel,
                    what,
                };
                if sender.try_send(event.clone()).is_err() {
                    missing.fetch_add(1, Ordering::Relaxed);
                }
                recording.send(event);
            };
            let mut harvested = Instant::now();
            loop {
                let last = stopping.load(Ordering::Relaxed);
                wait(&ring);
                ring.drain(&mut pass);
                if last || harvested.elapsed() > HARVEST {
                    ring.harvest(&mut pass);
                    harvested = Instant::now();
                }
                if last {
                    return;
                }
            }
        })?;
    Ok((
        KernelThread {
            stop,
            missed,
            thread,
        },
        receiver,
    ))
}

fn wait(ring: &Ring) {
    let fd = ring.as_fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK.subsec_nanos().into(),
    };
    let _interrupted = poll(&mut fds, Some(&time));
}

impl KernelThread {
    /// Takes what is left in the ring and ends.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        let _panicked = self.thread.join();
    }
}
