//! `raytrace record`: attach, collect, tell each death as it comes, end with a recording.

pub(super) mod attach;
mod output;
mod own;
mod wrapped;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::MissedTickBehavior,
};

use crate::{
    collect::{Collector, Ids, Wanted, kernel_thread},
    event::Event,
    ids::Pid,
    recording::Writer,
};
use wrapped::Wrapped;

/// Logs and verdicts are looked at this often; Ray's logs come up to 60 ms after the act.
const TICK: Duration = Duration::from_millis(25);
/// The whole machine is looked over this often, for what no hook tells.
const SCAN: Duration = Duration::from_secs(10);
/// Drivers, and in procfs mode new processes, are looked for this often.
const LOOK: Duration = Duration::from_millis(100);
/// After the end is asked for, Ray's last lines are waited for.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Arguments of `record`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are flags of a command line"
)]
#[command(after_help = "Examples:
  sudo raytrace record                      every cluster of this machine, now or when one starts
  sudo raytrace record -o oom.raytrace --duration 2h
  sudo raytrace record -- python3 train.py  a job and all that it starts; ends with it and gives its exit code
  raytrace record                           without privilege: exit codes and Ray's own reasons, no senders

Exit codes: 0 ok, 3 a privilege or 4 the kernel lacks something (only with --require-ebpf), 5 no Ray (only with --require-ray),
7 a probe is missing (only with --strict); with -- COMMAND, the command's own.")]
pub struct RecordArgs {
    /// Where to write; default raytrace-HOST-TIME.raytrace in the current folder.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// End after this time: 90s, 15m, 2h.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Only the cluster with this session folder (/tmp/ray/session_…).
    #[arg(long, value_name = "DIR")]
    session_dir: Option<PathBuf>,
    /// Only the cluster of this raylet.
    #[arg(long, value_name = "PID")]
    raylet_pid: Option<u32>,
    /// Fail instead of recording without eBPF.
    #[arg(long)]
    require_ebpf: bool,
    /// Fail instead of waiting when no Ray is running.
    #[arg(long)]
    require_ray: bool,
    /// Fail when any probe is missing.
    #[arg(long)]
    strict: bool,
    /// Run COMMAND as root although sudo was used by somebody else.
    #[arg(long)]
    as_root: bool,
    /// Run this command and track everything that it starts.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration = text
        .parse()
        .map_err(|error| format!("{error}; write it like 90s, 15m or 2h"))?;
    Duration::try_from(span).map_err(|error| error.to_string())
}

/// Runs it.
pub fn run(args: RecordArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?;
    runtime.block_on(record(args))
}

/// Everything that runs while recording.
struct Session {
    collector: Collector,
    events: Option<mpsc::Receiver<Event>>,
    kernel: Option<kernel_thread::KernelThread>,
    writer: Writer,
    began: Instant,
    screen: output::Screen,
}

async fn record(args: RecordArgs) -> anyhow::Result<ExitCode> {
    let path = output::choose(args.output.clone())?;
    let attached = attach::attach(&args)?;
    let owner = if args.as_root { None } else { own::sudo_user() };
    let writer = Writer::create(&path, owner)?;
    let ids = Ids::default();
    let (mut kernel, mut events) = (None, None);
    if let Some(ring) = attached.ring {
        let (thread, receiver) = kernel_thread::start(ring, ids.clone(), writer.sender())
            .context("cannot start the kernel thread")?;
        kernel = Some(thread);
        events = Some(receiver);
    }
    let wanted = Wanted {
        session_dir: args.session_dir.clone(),
        raylet: args.raylet_pid.map(Pid),
    };
    let mut collector = Collector::new(ids, writer.sender(), attached.watch, attached.kmsg, wanted);
    collector.begin(attached.mode, attached.probes.clone());
    let wrapped = Wrapped::start(&args.command, owner, &mut collector)?;
    own::survive();
    collector.scan();
    if args.require_ray && collector.clusters() == 0 {
        anyhow::bail!(super::Failure {
            code: super::code::NO_RAY,
            message: output::no_ray()
        });
    }
    let mut screen = output::Screen::new();
    screen.started(
        &path,
        attached.mode,
        &attached.probes,
        collector.clusters(),
        collector.workers(),
        !args.command.is_empty(),
    );
    let mut session = Session {
        collector,
        events,
        kernel,
        writer,
        began: Instant::now(),
        screen,
    };
    let status = session.run(args.duration, wrapped).await?;
    session.end().await;
    Ok(status.unwrap_or(ExitCode::SUCCESS))
}

impl Session {
    /// Until it is told to end, the time is over, or the wrapped command has ended.
    async fn run(
        &mut self,
        duration: Option<Duration>,
        mut wrapped: Option<Wrapped>,
    ) -> anyhow::Result<Option<ExitCode>> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        // A closed terminal does not end a recording.
        let mut hangup = signal(SignalKind::hangup())?;
        let every = |period| {
            let mut interval = tokio::time::interval(period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        };
        let (mut tick, mut second, mut scan, mut look) = (
            every(TICK),
            every(Duration::from_secs(1)),
            every(SCAN),
            every(LOOK),
        );
        let far = Duration::from_secs(100 * 365 * 24 * 3600);
        let over = tokio::time::sleep(duration.unwrap_or(far));
        tokio::pin!(over);
        loop {
            tokio::select! {
                biased;
                event = receive(&mut self.events) => self.kernel_events(event),
                _ = tick.tick() => self.collector.tick(),
                _ = second.tick() => {
                    self.collector.second();
                    self.screen.status(self.began.elapsed(), self.collector.workers(), &self.collector.ledger());
                    self.screen.trouble(&self.writer.sender());
                }
                _ = look.tick() => {
                    self.collector.find_drivers();
                    self.collector.look_for_children();
                }
                _ = scan.tick() => self.collector.scan(),
                status = Wrapped::wait(&mut wrapped) => return Ok(Some(status)),
                _ = hangup.recv() => {}
                // With a wrapped command the signal is its own business: the recording ends with it.
                _ = interrupt.recv() => if wrapped.is_none() { return Ok(None) },
                _ = terminate.recv() => if wrapped.is_none() { return Ok(None) },
                () = &mut over => return Ok(None),
            }
            for told in self.collector.told() {
                self.screen.death(&told);
            }
        }
    }

    /// Takes the event and all that wait behind it.
    fn kernel_events(&mut self, first: Option<Event>) {
        let mut next = first;
        while let Some(event) = next {
            self.collector.kernel_event(&event);
            next = self
                .events
                .as_mut()
                .and_then(|events| events.try_recv().ok());
        }
    }

    /// Ray's last lines, then the end of the recording.
    async fn end(mut self) {
        let until = Instant::now() + LAST_WORDS;
        while Instant::now() < until {
            tokio::time::sleep(TICK).await;
            self.kernel_events(None);
            let waiting = self
                .events
                .as_mut()
                .and_then(|events| events.try_recv().ok());
            self.kernel_events(waiting);
            self.collector.tick();
            for told in self.collector.told() {
                self.screen.death(&told);
            }
        }
        if let Some(kernel) = self.kernel.take() {
            kernel.stop();
        }
        let waiting = self
            .events
            .as_mut()
            .and_then(|events| events.try_recv().ok());
        self.kernel_events(waiting);
        self.collector.end();
        let lost = self
            .collector
            .ledger()
            .iter()
            .map(crate::event::Ledger::lost)
            .sum();
        let path = self.writer.path().to_owned();
        let summary = self.writer.finish();
        self.screen
            .ended(&path, self.began.elapsed(), &summary, lost);
    }
}

async fn receive(events: &mut Option<mpsc::Receiver<Event>>) -> Option<Event> {
    match events {
        Some(events) => events.recv().await,
        None => std::future::pending().await,
    }
}
