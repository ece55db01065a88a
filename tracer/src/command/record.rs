//! `raytrace record`: attach, collect, tell each death as it comes, end with a recording.

pub(super) mod attach;
mod cgroup;
mod output;
pub(super) mod own;
pub(super) mod privileges;
mod wrapped;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::observing::{Observing, Step};
use crate::{
    collect::{Collector, Wanted},
    ids::Pid,
    recording::{Retention, Writer},
};
use wrapped::Wrapped;

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
    /// Samples stay in full detail for this time; of older ones, except around deaths, one a minute is kept.
    #[arg(long, value_name = "TIME", default_value = "6h", value_parser = parse_duration)]
    keep: Duration,
    /// Keep the file below this size by giving up older samples, except around deaths: 500MiB, 2GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
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
    /// Do not read the Python stacks of processes that grow.
    #[arg(long)]
    no_stacks: bool,
    /// Run COMMAND as root although sudo was used by somebody else.
    #[arg(long)]
    as_root: bool,
    /// Move the recorder into a memory cgroup that it makes for itself, so that a limit on what it records is none on it.
    #[arg(long)]
    own_cgroup: bool,
    /// Sample memory ten times a second all the time, not only near a limit.
    #[arg(long)]
    armed: bool,
    /// Ask Ray's GCS every 10 s, with the raylet's own token where one is in use: names of actors and placement groups, jobs' entrypoints.
    #[arg(long)]
    gcs: bool,
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

/// `500MiB`, `2GiB`, or bytes.
fn parse_size(text: &str) -> Result<u64, String> {
    let split = text
        .find(|one: char| !one.is_ascii_digit())
        .unwrap_or(text.len());
    let (figure, unit) = text.split_at(split);
    let shift = match unit.trim() {
        "" | "B" => Some(0),
        "MiB" | "M" => Some(20),
        "GiB" | "G" => Some(30),
        _ => None,
    };
    let bytes = figure.parse::<u64>().ok().zip(shift);
    let bytes = bytes.and_then(|(figure, shift)| figure.checked_mul(1 << shift));
    // An empty recording has some pages.
    bytes
        .filter(|bytes| *bytes >= 1 << 20)
        .ok_or_else(|| format!("{text} is no size of 1 MiB or more; write it like 500MiB or 2GiB"))
}

/// Runs it.
pub fn run(args: RecordArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?;
    runtime.block_on(record(args))
}

/// The signals that a recorder takes, caught before it says that it records.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// A closed terminal does not end a recording.
    hangup: Signal,
}

impl Signals {
    fn catch() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

/// Everything that runs while recording.
struct Session {
    observing: Observing,
    writer: Writer,
    began: Instant,
    screen: output::Screen,
}

async fn record(args: RecordArgs) -> anyhow::Result<ExitCode> {
    let path = output::choose(args.output.clone())?;
    let narrow = args.session_dir.is_some() || args.raylet_pid.is_some();
    let attached = attach::attach(narrow, args.require_ebpf)?;
    if args.strict {
        attach::refuse_missing(&attached.probes)?;
    }
    let owner = if args.as_root { None } else { own::sudo_user() };
    let retention = Retention {
        keep: args.keep,
        max_bytes: args.max_size,
    };
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    let prepared = Writer::prepare(&path, owner, retention)?;
    let wanted = Wanted {
        session_dir: args.session_dir.clone(),
        raylet: args.raylet_pid.map(Pid),
    };
    let (mode, probes) = (attached.mode, attached.probes.clone());
    let mut observing = Observing::prepare(attached, prepared.sender(), wanted)?;
    if args.armed {
        observing.collector.keep_armed();
    }
    let wrapped = Wrapped::start(&args.command, owner, &mut observing.collector)?;
    let _own_cgroup = args.own_cgroup.then(cgroup::Own::enter).transpose()?;
    own::survive();
    // Threads have the rights of the one that starts them: from here on all have few.
    let writer = privileges::reduce(owner, Some(folder), args.own_cgroup, || prepared.start())?;
    observing.start()?;
    let gpus = observing.collector.watch_gpus();
    let collector = &mut observing.collector;
    if args.gcs {
        let asked = collector.ask_gcs();
        asked.context("cannot start the thread that asks the GCS")?;
    }
    if !args.no_stacks {
        collector
            .read_stacks()
            .context("cannot start the thread that reads stacks")?;
    }
    collector.scan();
    if args.require_ray && collector.clusters() == 0 {
        anyhow::bail!(super::Failure {
            code: super::code::NO_RAY,
            message: output::no_ray()
        });
    }
    let signals = Signals::catch().context("cannot catch signals")?;
    let mut screen = output::Screen::new(wrapped.is_some());
    screen.started(
        &path,
        mode,
        &probes,
        collector.clusters(),
        collector.workers(),
        &gpus,
    );
    let mut session = Session {
        observing,
        writer,
        began: Instant::now(),
        screen,
    };
    let status = session.run(args.duration, signals, wrapped).await;
    session.end().await;
    Ok(status.unwrap_or(ExitCode::SUCCESS))
}

impl Session {
    /// Until it is told to end, the time is over, or the wrapped command has ended.
    async fn run(
        &mut self,
        duration: Option<Duration>,
        mut signals: Signals,
        mut wrapped: Option<Wrapped>,
    ) -> Option<ExitCode> {
        let far = Duration::from_secs(100 * 365 * 24 * 3600);
        let over = tokio::time::sleep(duration.unwrap_or(far));
        tokio::pin!(over);
        loop {
            tokio::select! {
                biased;
                step = self.observing.step() => if step == Step::Second { self.second(); },
                status = Wrapped::wait(&mut wrapped) => return Some(status),
                _ = signals.hangup.recv() => {}
                // With a wrapped command the signal is its own business: the recording ends with it.
                _ = signals.interrupt.recv(), if wrapped.is_none() => return None,
                _ = signals.terminate.recv(), if wrapped.is_none() => return None,
                () = &mut over => return None,
            }
            for told in self.observing.collector.told() {
                self.screen.death(&told);
            }
        }
    }

    fn second(&mut self) {
        self.screen.news(self.observing.collector.gcs_news());
        self.screen
            .status(self.began.elapsed(), &self.observing.collector);
        self.screen.trouble(&self.writer.sender());
    }

    /// Ray's last lines, then the end of the recording.
    async fn end(mut self) {
        let screen = &mut self.screen;
        let tell = |collector: &mut Collector| {
            for told in collector.told() {
                screen.death(&told);
            }
        };
        self.observing.finish(tell).await;
        let ledger = self.observing.collector.ledger();
        let lost = ledger.iter().map(crate::event::Ledger::lost).sum();
        let path = self.writer.path().to_owned();
        let summary = self.writer.finish();
        self.screen
            .ended(&path, self.began.elapsed(), &summary, lost);
    }
}
