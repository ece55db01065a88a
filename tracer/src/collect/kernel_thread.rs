//! The thread that empties the kernel's ring, and passes events to the recording and the collector.
//!
//! It numbers the events. It also turns changes of titles into calls: of thousands a second, only a
//! few may be worth a row. It accesses neither disk nor /proc nor Ray. When the collector is slow,
//! its queue fills, and it misses events that the recording has.

mod calls;

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

use calls::Calls;

use super::output::Ids;
use crate::{
    event::{Event, Observation, Source},
    ids::BootTime,
    observe::{
        clock,
        kernel::{FromRing, NewTitle, Ring},
    },
    recording,
};

/// Forks, execs and exits with status 0 do not wake the reader. It polls this often, and less often
/// after a second without events.
const LOOK: Duration = Duration::from_millis(30);
const QUIET_LOOK: Duration = Duration::from_millis(100);
const QUIET: Duration = Duration::from_secs(1);
/// How often exits that did not fit into the ring are collected.
const HARVEST: Duration = Duration::from_secs(1);
/// The most events that wait for the collector.
const QUEUE: usize = 16_384;

/// The running thread.
pub struct KernelThread {
    stop: Arc<AtomicBool>,
    /// Events that the collector did not get. The recording has them.
    pub missed: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

/// Starts the thread. The receiver is for the collector.
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
            let mut calls = Calls::default();
            let mut harvested = Instant::now();
            let mut busy = Instant::now();
            loop {
                let last = stopping.load(Ordering::Relaxed);
                let is_quiet = busy.elapsed() > QUIET;
                wait(&ring, if is_quiet { QUIET_LOOK } else { LOOK });
                let mut any = false;
                ring.drain(|time, what| {
                    any = true;
                    match what {
                        FromRing::Title(new) => titled(&mut calls, time, new, &mut pass),
                        FromRing::Other(what) => with_calls(&mut calls, time, what, &mut pass),
                    }
                });
                if any {
                    busy = Instant::now();
                }
                for call in calls.due(clock::boot()) {
                    pass(call.began, Observation::Call(call));
                }
                if last || harvested.elapsed() > HARVEST {
                    ring.harvest(|time, what| with_calls(&mut calls, time, what, &mut pass));
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

/// Passes a title on. A title of Ray's is passed on as the call that it ended.
fn titled(
    calls: &mut Calls,
    time: BootTime,
    new: NewTitle<'_>,
    pass: &mut impl FnMut(BootTime, Observation),
) {
    if !new.title.starts_with("ray::") {
        return pass(time, new.into());
    }
    if new.after_gap {
        calls.lost_titles(new.process);
    }
    if let Some(call) = calls.titled(new.process, &new.title, time, &new.memory) {
        pass(time, Observation::Call(call));
    }
}

/// Passes an observation on. Before an exit, the call that the exit interrupted is passed on.
fn with_calls(
    calls: &mut Calls,
    time: BootTime,
    what: Observation,
    pass: &mut impl FnMut(BootTime, Observation),
) {
    match what {
        Observation::Exit(exit) => {
            if let Some(call) = calls.ended(exit.process) {
                pass(call.began, Observation::Call(call));
            }
            pass(time, Observation::Exit(exit));
        }
        other => pass(time, other),
    }
}

fn wait(ring: &Ring, at_most: Duration) {
    let fd = ring.as_fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: at_most.subsec_nanos().into(),
    };
    let _interrupted = poll(&mut fds, Some(&time));
}

impl KernelThread {
    /// Takes the rest of the ring and ends the thread.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        let _panicked = self.thread.join();
    }
}
