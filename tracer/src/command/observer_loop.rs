//! Runs the observers for `record` and `top`.
//!
//! It runs one step at a time, so that each command can have its own loop around it.

use std::{os::fd::OwnedFd, pin::Pin, time::Duration};

use anyhow::Context as _;
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::mpsc,
    time::{Instant, Interval, MissedTickBehavior, Sleep},
};

use super::attach::Attached;
use crate::{
    collect::{ClusterFilter, Collector, Ids, kernel_thread},
    event::{Event, Previous},
    ids::Pid,
    observe::{
        clock,
        kernel::{AttachedPrograms, Ring},
    },
    recording::Sender,
};

/// How often logs and verdicts are checked while a death waits for them. Ray's logs appear up to 60
/// ms after the act.
const TICK: Duration = Duration::from_millis(25);
/// How often all processes of the machine are scanned, to find what no hook has reported.
const SCAN: Duration = Duration::from_secs(10);
/// On a machine with many processes, the next scan comes after this many times the CPU time that
/// the last one took, but within [`SCAN_AT_MOST`].
const SCAN_REST: u32 = 400;
const SCAN_AT_MOST: Duration = Duration::from_secs(60);
/// How often everything that is polled has its turn: logs while no death waits for them, drivers,
/// new processes in procfs mode, and memory near a limit. They share one wake-up, because a wake-up
/// costs as much as the work itself.
const BEAT: Duration = Duration::from_millis(100);
/// How long to wait for Ray's last log lines after recording was asked to end.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// The most events that are handled before anything else has its turn.
const AT_ONCE: usize = 4096;

/// The kind of work that a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A second has passed.
    Second,
    /// Something else.
    Other,
}

/// The observers, the collector, and the timers for each kind of work.
pub(super) struct ObserverLoop {
    pub(super) collector: Collector,
    /// The kernel's ring buffer, until a thread starts to empty it.
    ring: Option<(Ring, Ids, Sender)>,
    events: Option<mpsc::Receiver<Event>>,
    kernel: Option<kernel_thread::KernelThread>,
    /// Fires between two beats while a death waits.
    tick: Pin<Box<Sleep>>,
    beat: Interval,
    second: Interval,
    scan: Interval,
    /// Whether more events are waiting than one step takes, so that other work goes first.
    is_backlogged: bool,
    /// The ring buffer of large mappings, if there is one.
    mappings: Option<AsyncFd<OwnedFd>>,
    /// Keeps the programs attached.
    _programs: Option<AttachedPrograms>,
}

impl ObserverLoop {
    /// Prepares everything except the thread that empties the ring. All events go to `sender`;
    /// `previous` is the recording that an earlier recorder left, `supervisor` the process that
    /// hands signals on to a wrapped command.
    pub(super) fn prepare(
        attached: Attached,
        sender: Sender,
        wanted: ClusterFilter,
        previous: Option<Previous>,
        supervisor: Option<Pid>,
    ) -> anyhow::Result<Self> {
        let ids = Ids::default();
        let ring = attached.ring;
        let ring = ring.map(|ring| (ring, ids.clone(), sender.clone()));
        // A duplicated descriptor, because the ring is waited for while the collector uses it.
        let mappings = attached.watch.mappings();
        let mappings = mappings.map(|ring| ring.try_clone_to_owned()).transpose()?;
        // SAFETY: an OwnedFd names the same open descriptor until it is dropped, and it is dropped
        // together with the AsyncFd that waits for it.
        let wait = |ring| unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) };
        let mappings = mappings.map(wait).transpose();
        let mappings = mappings.context("cannot wait for the ring of mappings")?;
        let mut collector = Collector::new(ids, sender, attached.watch, attached.kmsg, wanted);
        collector.begin(attached.mode, attached.probes, previous, supervisor);
        Ok(Self {
            collector,
            ring,
            events: None,
            kernel: None,
            tick: Box::pin(tokio::time::sleep(TICK)),
            beat: every(BEAT),
            second: every(Duration::from_secs(1)),
            scan: every(SCAN),
            is_backlogged: false,
            mappings,
            _programs: attached.programs,
        })
    }

    /// Starts the thread that empties the ring, with the rights that the current thread has now.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        if let Some((ring, ids, sender)) = self.ring.take() {
            let (thread, receiver) = kernel_thread::start(ring, ids, sender)
                .context("cannot start the kernel thread")?;
            self.collector.count_misses_of(&thread);
            self.kernel = Some(thread);
            self.events = Some(receiver);
        }
        Ok(())
    }

    /// Waits for the next event or timer and handles it. May be cancelled while it waits.
    pub(super) async fn step(&mut self) -> Step {
        let soon = Instant::now() + TICK;
        if self.collector.is_waiting() && self.tick.deadline() > soon {
            self.tick.as_mut().reset(soon);
        }
        let is_backlogged = std::mem::take(&mut self.is_backlogged);
        tokio::select! {
            biased;
            event = receive(&mut self.events), if !is_backlogged => {
                self.is_backlogged = self.kernel_events(event);
            }
            () = &mut self.tick => {
                self.collector.tick();
                self.tick.as_mut().reset(Instant::now() + SCAN);
            }
            _ = self.second.tick() => {
                self.collector.second();
                return Step::Second;
            }
            _ = self.beat.tick() => {
                self.collector.sample_tick();
            }
            () = large_mapping(self.mappings.as_ref()) => {
                self.collector.take_mappings();
            }
            _ = self.scan.tick() => self.scan_processes(),
            () = std::future::ready(()), if is_backlogged => {}
        }
        Step::Other
    }

    /// Scans all processes of the machine. The longer a scan takes, the later the next one comes.
    fn scan_processes(&mut self) {
        let began = clock::cpu_time();
        self.collector.scan_processes();
        let took = clock::cpu_time().saturating_sub(began);
        self.log_queues(took);
        self.scan
            .reset_after((took * SCAN_REST).clamp(SCAN, SCAN_AT_MOST));
    }

    fn log_queues(&self, took: Duration) {
        let events = self.events.as_ref().map_or(0, mpsc::Receiver::len);
        let (deaths, samples) = self.collector.waiting_to_be_written();
        tracing::debug!(
            "looked over the machine in {took:?}; {events} events wait for the collector, {deaths} others and {samples} samples to be written"
        );
    }

    /// Handles `first` and the events that wait behind it, at most [`AT_ONCE`]. Returns whether
    /// there may be more.
    fn kernel_events(&mut self, first: Option<Event>) -> bool {
        let behind = std::iter::from_fn(|| self.events.as_mut()?.try_recv().ok());
        let events = first.into_iter().chain(behind).take(AT_ONCE);
        self.collector.kernel_events(events) == AT_ONCE
    }

    /// Waits for Ray's last log lines, then detaches. `tell` is called whenever there may be news.
    pub(super) async fn finish(&mut self, mut tell: impl FnMut(&mut Collector)) {
        self.collector.sweep();
        let until = Instant::now() + LAST_WORDS;
        while Instant::now() < until {
            tokio::time::sleep(TICK).await;
            self.kernel_events(None);
            self.collector.tick();
            tell(&mut self.collector);
        }
        if let Some(kernel) = self.kernel.take() {
            kernel.stop();
        }
        while self.kernel_events(None) {}
        self.collector.sweep();
        tell(&mut self.collector);
        self.collector.end();
        tell(&mut self.collector);
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Waits until the kernel reports a large mapping. Smaller ones are read with the next sample.
async fn large_mapping(ring: Option<&AsyncFd<OwnedFd>>) {
    match ring {
        Some(ring) => match ring.readable().await {
            Ok(mut ready) => ready.clear_ready(),
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn receive(events: &mut Option<mpsc::Receiver<Event>>) -> Option<Event> {
    match events {
        Some(events) => events.recv().await,
        None => std::future::pending().await,
    }
}
