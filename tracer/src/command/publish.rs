//! `raytrace publish`: follows the recordings of a folder without privileges and publishes deaths.

mod events;
mod folder;
mod recent;
mod serve;
mod sink;
mod state;
mod tail;

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::signal::unix::{SignalKind, signal};

use super::usage;
use crate::{
    observe::clock,
    recording::place,
    show::publish::{self, metrics::Snapshot},
};
use events::Events;
use folder::Folder;
use sink::Sink;
use state::State;

/// How often the folder is read. A recorder writes events twice a second.
const POLL: Duration = Duration::from_secs(1);

/// How many times in a row lines may fail to be written before `publish` gives up. A full disk may
/// be cleared in the meantime.
const FAILURES: u32 = 60;

/// Where the kubelet mounts the service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Arguments of `publish`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  raytrace publish --json -                             Print a line for each death and warning
  raytrace publish --json - --metrics 127.0.0.1:9464    Serve metrics too
  raytrace publish --directory /data/raytrace --metrics 0.0.0.0:9464
  raytrace publish --k8s-events --json -                Create Events on the pods too

It only needs permission to read the recordings. The group raytrace may read those of the systemd
service; those of `sudo raytrace record` belong to the user who ran sudo.

Exit codes:
  0  ended by a signal
  1  the output could not be written
  2  nothing to publish was named, or the folder is missing")]
pub struct PublishArgs {
    /// Folder of the recordings.
    #[arg(long, value_name = "DIR", default_value = place::FALLBACK, help_heading = "Input")]
    directory: PathBuf,
    /// Append JSON lines to this file; - is stdout.
    ///
    /// There is a line for each death (once its verdict is final), each warning while the recorder
    /// runs, and each loss or gap in the recording.
    #[arg(long, value_name = "PATH|-", help_heading = "Output")]
    json: Option<PathBuf>,
    /// Serve Prometheus metrics at this address, under /metrics.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address, help_heading = "Output")]
    metrics: Option<SocketAddr>,
    /// Create a Warning Event on the pod of each first cause and memory kill.
    ///
    /// It needs a service account that may create and patch Events.
    #[arg(long, help_heading = "Output")]
    k8s_events: bool,
    /// Folder with the service account's token and the cluster's certificate.
    #[arg(long, value_name = "DIR", default_value = SERVICE_ACCOUNT, requires = "k8s_events", help_heading = "Output")]
    service_account: PathBuf,
    /// Include command lines, paths and names of non-Ray processes.
    #[arg(long, help_heading = "Output")]
    with_arguments: bool,
    /// Command with which a reader runs raytrace where the recordings are.
    ///
    /// It is printed before the command that shows more of a death.
    #[arg(long, value_name = "COMMAND", help_heading = "Output")]
    reached_by: Option<String>,
    /// State file, to resume after a restart.
    ///
    /// The default is publish.json in `$STATE_DIRECTORY`, else in ~/.local/state/raytrace.
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    state: Option<PathBuf>,
}

/// Parses an address with its port.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().ok();
    address.ok_or_else(|| "give ADDRESS:PORT, for example 127.0.0.1:9464".to_owned())
}

/// Runs the subcommand.
pub fn run(args: &PublishArgs) -> anyhow::Result<ExitCode> {
    if args.json.is_none() && args.metrics.is_none() && !args.k8s_events {
        return Err(usage(
            "nothing to publish: give --json PATH, --metrics ADDRESS, --k8s-events or several of them",
        ));
    }
    if !args.directory.is_dir() {
        return Err(usage(format!(
            "there is no folder {}: name the folder of the recordings, --directory DIR",
            args.directory.display()
        )));
    }
    super::block_on(publish(args))
}

async fn publish(args: &PublishArgs) -> anyhow::Result<ExitCode> {
    let path = match &args.state {
        Some(path) => path.clone(),
        None => state::default_path().map_err(usage)?,
    };
    let state = State::read(&path)?;
    let sink = args.json.as_deref().map(Sink::open).transpose()?;
    let events = args
        .k8s_events
        .then(|| Events::start(&args.service_account, &state.events));
    let events = events.transpose()?;
    let snapshot = Arc::new(Mutex::new(Snapshot::default()));
    if let Some(address) = args.metrics {
        let address = serve::start(address, Arc::clone(&snapshot))?;
        anstream::eprintln!("Metrics at http://{address}/metrics");
    }
    let mut publisher = Publisher {
        folder: Folder::new(
            &args.directory,
            args.with_arguments,
            args.reached_by.clone(),
        ),
        state,
        sink,
        events,
        path,
        snapshot,
        lines: Vec::new(),
        failures: 0,
        written: true,
    };
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut poll = tokio::time::interval(POLL);
    poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    anstream::eprintln!(
        "Publishing the recordings in {}. Press Ctrl-C to stop.",
        args.directory.display()
    );
    loop {
        tokio::select! {
            biased;
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            _ = poll.tick() => publisher.look()?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

struct Publisher {
    folder: Folder,
    state: State,
    sink: Option<Sink>,
    events: Option<Events>,
    path: PathBuf,
    snapshot: Arc<Mutex<Snapshot>>,
    /// Lines that could not be written yet.
    lines: Vec<serde_json::Value>,
    /// How many times in a row writing has failed.
    failures: u32,
    /// Whether the state file is up to date.
    written: bool,
}

impl Publisher {
    /// Reads what is new, publishes it and then saves the state, in this order, so that nothing is
    /// lost if the process ends in between.
    fn look(&mut self) -> anyhow::Result<()> {
        let before = self.state.clone();
        let updates = self.folder.look(&mut self.state, clock::boot());
        if let Some(events) = &self.events {
            events.push(updates.events);
            events.count_unnamed(&updates.unnamed);
            self.state.events = events.waiting();
        }
        self.written &= self.state == before;
        self.lines.extend(updates.lines);
        if self.hand_on()? && !self.written {
            self.state.write(&self.path)?;
            self.written = true;
        }
        let mut snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        let last_kill = updates.snapshot.last_kill;
        let last_kill = last_kill.or_else(|| snapshot.last_kill.take());
        *snapshot = Snapshot {
            counts: self.state.counts.clone(),
            last_kill,
            events: self.events.as_ref().map(Events::counts),
            ..updates.snapshot
        };
        Ok(())
    }

    /// Writes all lines, and returns whether that worked. Until then the state is not saved, so
    /// that the next `publish` writes them again.
    fn hand_on(&mut self) -> anyhow::Result<bool> {
        let lines = std::mem::take(&mut self.lines);
        let Some(Err(error)) = self.sink.as_mut().map(|sink| sink.write(&lines)) else {
            self.failures = 0;
            return Ok(true);
        };
        let io = error.downcast_ref::<std::io::Error>();
        let nobody_reads = io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe);
        self.failures += 1;
        if nobody_reads || self.failures > FAILURES {
            return Err(error);
        }
        tracing::warn!("{error:#}");
        self.lines = lines;
        Ok(false)
    }
}

/// Returns the five-line summary and the killer of a death, if it is a memory kill.
fn last_kill(
    death: &crate::judge::report::Death,
    line: &serde_json::Value,
) -> Option<(String, &'static str)> {
    let killer = death.verdict.killer;
    let summary = line.get("raytrace.summary")?.as_str()?;
    killer
        .is_memory_kill()
        .then(|| (summary.to_owned(), killer.name()))
}

/// Formats lines as they are written to a file or pipe.
fn rendered(lines: &[serde_json::Value]) -> String {
    let lines = lines.iter().map(publish::render);
    lines.fold(String::new(), |text, line| text + &line + "\n")
}
