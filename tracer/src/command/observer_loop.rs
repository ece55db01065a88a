//! The observers, running: what `record` and `top` share. One step at a time, so that each has its own loop around it.

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
    observe::{
        clock,
        kernel::{Keep, Ring},
    },
    recording::Sender,
};

/// Logs and verdicts are looked at this often while a death waits for them; Ray's logs come up to 60 ms after the act.
const TICK: Duration = Duration::from_millis(25);
/// The whole machine is looked over this often, for what no hook tells.
const SCAN: Duration = Duration::from_secs(10);
/// Where that is many processes, less often: after so many times the processor time that it took, but within a minute.
const SCAN_REST: u32 = 400;
const SCAN_AT_MOST: Duration = Duration::from_secs(60);
/// All that is looked at again and again has its turn this often, at one time: each wake-up costs as much as the looks themselves. Logs while
/// no death waits for them, drivers, in procfs mode new processes, and near a limit memory.
const BEAT: Duration = Duration::from_millis(100);
/// After the end is asked for, Ray's last lines are waited for.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Events that are taken before anything else has its turn.
const AT_ONCE: usize = 4096;

/// What was done in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A second has passed.
    Second,
    /// Something else.
    Other,
}

/// The observers, the collector and the times at which each has its turn.
pub(super) struct ObserverLoop {
    pub(super) collector: Collector,
    /// The ring that no thread empties yet.
    ring: Option<(Ring, Ids, Sender)>,
    events: Option<mpsc::Receiver<Event>>,
    kernel: Option<kernel_thread::KernelThread>,
    /// Between two beats, while a death waits.
    tick: Pin<Box<Sleep>>,
    beat: Interval,
    second: Interval,
    scan: Interval,
    /// So many events wait that something else has a turn before the next.
    is_backlogged: bool,
    /// The ring of mappings, where there is one.
    mappings: Option<AsyncFd<OwnedFd>>,
    /// Keeps the programs attached.
    _keep: Option<Keep>,
}

impl ObserverLoop {
    /// Everything but the thread that empties the ring; all goes to `sender`. `previous` is the recording that an earlier recorder left.
    pub(super) fn prepare(
        attached: Attached,
        sender: Sender,
        wanted: ClusterFilter,
        previous: Option<Previous>,
    ) -> anyhow::Result<Self> {
        let ids = Ids::default();
        let ring = attached.ring;
        let ring = ring.map(|ring| (ring, ids.clone(), sender.clone()));
        // A descriptor of its own: the ring is waited for while the collector works.
        let mappings = attached.watch.mappings();
        let mappings = mappings.map(|ring| ring.try_clone_to_owned()).transpose()?;
        // SAFETY: an OwnedFd names the same open descriptor until it is dropped, and it is dropped with what waits for it.
        let wait = |ring| unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) };
        let mappings = mappings.map(wait).transpose();
        let mappings = mappings.context("cannot wait for the ring of mappings")?;
        let mut collector = Collector::new(ids, sender, attached.watch, attached.kmsg, wanted);
        collector.begin(attached.mode, attached.probes, previous);
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
            _keep: attached.keep,
        })
    }

    /// Begins to empty the ring, in a thread with the rights that this one has now.
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

    /// Waits for the next thing to do and does it. May be cancelled while it waits.
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

    /// Looks at all processes of the machine, the more seldom the longer that takes.
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

    /// Takes the event and those that wait behind it, but not for ever while ever more come; true when there may be more.
    fn kernel_events(&mut self, first: Option<Event>) -> bool {
        let behind = std::iter::from_fn(|| self.events.as_mut()?.try_recv().ok());
        let events = first.into_iter().chain(behind).take(AT_ONCE);
        self.collector.kernel_events(events) == AT_ONCE
    }

    /// Waits for Ray's last lines, and detaches; `tell` is called for what may be new.
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

/// Until the kernel wakes for one; smaller ones are taken with the next sample.
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
