//! `raytrace record`: attaches, records, prints each death, and ends with a recording.

mod cgroup;
mod directory;
mod output;
pub(super) mod self_protection;
mod service;
mod supervisor;
mod wrapped;

use std::{
    ffi::CString,
    mem::MaybeUninit,
    path::{Path, PathBuf},
    process::ExitCode,
    ptr,
    sync::LazyLock,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    attach,
    observer_loop::{ObserverLoop, Step},
    privileges,
};
use crate::{
    collect::{ClusterFilter, Collector},
    ids::Pid,
    observe::{clusters, processes, timed_read},
    recording::{Retention, Writer},
};
use supervisor::{Part, Start};
use wrapped::{Told, Wrapped};

/// The most bytes of a user's texts: name, home, shell. glibc proposes 1024.
const USER_BYTES: usize = 1 << 16;

/// How long to wait for the first events to be in the file; normally it takes some milliseconds. If
/// the disk hangs or is full, the user is told and writing is tried again.
const FIRST_EVENTS: Duration = Duration::from_secs(10);

/// The defaults of `--keep` and `--max-size`, as they are typed.
static KEEP: LazyLock<String> =
    LazyLock::new(|| format!("{}h", Retention::default().keep.as_secs() / 3600));
static MAX_SIZE: LazyLock<String> =
    LazyLock::new(|| format!("{}GiB", Retention::default().max_bytes >> 30));

/// Arguments of `record`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  sudo raytrace record                      Record every cluster, now or when one starts
  sudo raytrace record -o oom.raytrace --duration 2h
                                            Record two hours into this file
  sudo raytrace record --directory /var/lib/raytrace --rotate 6h --keep-files 28
                                            Record always; delete the oldest files
  sudo --preserve-env env \"PATH=$PATH\" raytrace record -- python3 train.py
                                            Also record this job; end with its exit code. Without
                                            --preserve-env and PATH, sudo removes the environment
  raytrace record                           Record without root: senders of signals are not recorded

Exit codes:
  0    success; with -- COMMAND, the command's own
  1    the recording could not be written (it exists, no permission, a network file system)
  2    a bad option, or no such session or raylet
  3    a privilege is missing (--require-ebpf)
  4    the kernel lacks a feature (--require-ebpf)
  5    no Ray is running (--require-ray)
  7    a probe is missing (--require-all-probes)
  126  COMMAND cannot be run
  127  COMMAND was not found")]
pub struct RecordArgs {
    /// Output file [default: raytrace-HOST-TIME.raytrace in the current folder].
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    #[command(flatten)]
    directory: directory::DirectoryArgs,
    /// Stop after this time: 90s, 15m, 2h.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Output")]
    duration: Option<Duration>,
    /// Keep all samples of the last TIME.
    ///
    /// Older ones are downsampled, beginning with those far from deaths.
    #[arg(long, value_name = "TIME", default_value = KEEP.as_str(), value_parser = parse_duration, help_heading = "Output")]
    keep: Duration,
    /// Keep the file below this size: 500MiB, 8GiB.
    ///
    /// The file with its -wal is kept below it by downsampling older samples.
    #[arg(long, value_name = "SIZE", default_value = MAX_SIZE.as_str(), value_parser = parse_size, help_heading = "Output")]
    max_size: u64,
    /// Record only the cluster with this session folder (/tmp/ray/session_…).
    #[arg(long, value_name = "DIR", help_heading = "What to record")]
    session_dir: Option<PathBuf>,
    /// Record only the cluster of this raylet.
    #[arg(long, value_name = "PID", value_parser = super::parse_pid, help_heading = "What to record")]
    raylet_pid: Option<u32>,
    /// Record only clusters of this user.
    ///
    /// These are the clusters whose raylet runs as the user. Names of other users' processes are
    /// hidden.
    #[arg(long, value_name = "NAME|UID", value_parser = parse_user, help_heading = "What to record")]
    user: Option<u32>,
    /// Fail instead of falling back to procfs mode.
    #[arg(long, help_heading = "Requirements")]
    require_ebpf: bool,
    /// Fail instead of waiting for Ray to start.
    #[arg(long, help_heading = "Requirements")]
    require_ray: bool,
    /// Fail if any probe is missing.
    ///
    /// A probe is a hook in the kernel, or the kernel log.
    #[arg(long, help_heading = "Requirements")]
    require_all_probes: bool,
    /// Do not read Python stacks.
    #[arg(long, help_heading = "What to record")]
    no_stacks: bool,
    /// Run COMMAND as root instead of as the user who ran sudo.
    #[arg(long, help_heading = "Recorder")]
    as_root: bool,
    /// Move the recorder into its own memory cgroup.
    ///
    /// The job's limits then do not apply to it.
    #[arg(long, help_heading = "Recorder")]
    own_cgroup: bool,
    /// Sample memory ten times a second all the time, not only near a limit (for measurements).
    #[arg(long, hide = true)]
    armed: bool,
    /// Give the thread that reads Python stacks this share of its time, in percent (for tests).
    #[arg(long, hide = true, value_name = "PERCENT", default_value_t = 100)]
    stacks_time: u32,
    /// Ask Ray's GCS for names of actors, placement groups and jobs.
    ///
    /// It is asked every 10 s, with the raylet's token if it needs one.
    #[arg(long, help_heading = "What to record")]
    gcs: bool,
    /// Run this command, also record everything that it starts, and end as it ends.
    ///
    /// Signals to raytrace reach the command, except SIGKILL and SIGSTOP. Clusters on this node are
    /// recorded as without a command: as root those of all users.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Parses a user: a number, or a name that this node knows.
fn parse_user(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    number_of(text).ok_or_else(|| format!("this node knows no user {text}; give the number"))
}

/// Returns the number of a user, from all that this node has for names: `/etc/passwd`, LDAP, SSSD.
fn number_of(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let (mut user, mut found) = (MaybeUninit::<libc::passwd>::uninit(), ptr::null_mut());
    let mut texts = vec![0; USER_BYTES];
    // SAFETY: the name ends with a NUL, and `texts` has room for as many bytes as it says.
    let code = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            user.as_mut_ptr(),
            texts.as_mut_ptr(),
            texts.len(),
            &raw mut found,
        )
    };
    // SAFETY: the function has filled `user` if it set `found`.
    (code == 0 && !found.is_null()).then(|| unsafe { user.assume_init() }.pw_uid)
}

/// Parses a time with its unit: `90s`, `15m`, `2h`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let span = text.parse::<jiff::SignedDuration>().ok();
    span.and_then(|span| Duration::try_from(span).ok())
        .ok_or_else(|| {
            format!("{text} is not a time: give a number with a unit, for example 90s, 15m or 2h")
        })
}

/// Parses a size: `500MiB`, `2GiB`, or bytes.
fn parse_size(text: &str) -> Result<u64, String> {
    let split = text
        .find(|one: char| !one.is_ascii_digit())
        .unwrap_or(text.len());
    let (figure, unit) = text.split_at(split);
    let example = "for example 500MiB or 2GiB";
    if figure.is_empty() {
        return Err(format!(
            "{text} is not a size: give a number with a unit, {example}"
        ));
    }
    let shift = match unit.trim() {
        "" | "B" => 0,
        "MiB" | "M" => 20,
        "GiB" | "G" => 30,
        other => return Err(format!("unknown unit {other}: use MiB or GiB, {example}")),
    };
    let bytes = figure.parse::<u64>().ok();
    let bytes = bytes.and_then(|figure| figure.checked_mul(1 << shift));
    match bytes {
        // Even an empty recording needs some pages.
        Some(bytes) if bytes >= 1 << 20 => Ok(bytes),
        Some(_) => Err(format!("{text} is below the minimum of 1 MiB, {example}")),
        None => Err(format!("{text} is too large, {example}")),
    }
}

/// Runs the subcommand.
pub fn run(args: RecordArgs) -> anyhow::Result<ExitCode> {
    let owner = if args.as_root {
        None
    } else {
        self_protection::sudo_user()
    };
    if args.command.is_empty() {
        return run_recorder(args, owner, None);
    }
    match supervisor::split(&args.command, owner)? {
        Part::Recorder(start) => run_recorder(args, owner, Some(start)),
        Part::Supervisor(code) => Ok(code),
    }
}

/// The user and the group that own the files, if they are not this process's.
type Owner = Option<(u32, u32)>;

fn run_recorder(args: RecordArgs, owner: Owner, start: Option<Start>) -> anyhow::Result<ExitCode> {
    super::block_on(record(args, owner, start))
}

/// Fails if a session's folder does not exist, either here or in the root of a container whose
/// raylet was given that folder.
fn refuse_missing_session(folder: &Path) -> anyhow::Result<()> {
    let given = |pid: &Pid| {
        let raylet = processes::describe(*pid)?;
        let session = clusters::describe(&raylet).session_dir?;
        Some(Path::new(&session) == folder)
    };
    let raylets = clusters::raylets();
    if folder.is_dir() || raylets.iter().any(|pid| given(pid) == Some(true)) {
        return Ok(());
    }
    let raylets = match raylets.len() {
        0 => "no raylet is running here",
        _ => "no raylet here has it",
    };
    Err(super::usage(format!(
        "--session-dir {}: there is no such folder, and {raylets}; list them: ls -d /tmp/ray/session_*",
        folder.display()
    )))
}

/// Fails if no raylet has this pid.
fn refuse_missing_raylet(pid: Pid) -> anyhow::Result<()> {
    if clusters::raylets().contains(&pid) {
        return Ok(());
    }
    Err(super::no_raylet(pid))
}

/// Returns the failure of `--require-ray`.
fn no_ray() -> anyhow::Error {
    super::failure(super::code::NO_RAY, output::no_ray())
}

/// The signals that a recorder handles, caught before it says that it records.
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
    observers: ObserverLoop,
    writer: Writer,
    began: Instant,
    screen: output::Screen,
}

async fn record(args: RecordArgs, owner: Owner, start: Option<Start>) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.session_dir {
        refuse_missing_session(folder)?;
    }
    if let Some(pid) = args.raylet_pid {
        refuse_missing_raylet(Pid(pid))?;
    }
    // What is known to fail leaves no file.
    if args.require_ray && clusters::raylets().is_empty() {
        return Err(no_ray());
    }
    if let Some(program) = args.command.first() {
        wrapped::refuse_missing(program)?;
    }
    let directory = args.directory.open()?;
    let path = match &directory {
        Some(directory) => directory.path.clone(),
        None => output::choose(args.output.clone())?,
    };
    let narrow = args.session_dir.is_some() || args.raylet_pid.is_some() || args.user.is_some();
    let attached = attach::attach(narrow, args.require_ebpf)?;
    if args.require_all_probes {
        attach::refuse_missing(&attached.probes)?;
    }
    let retention = Retention {
        keep: args.keep,
        max_bytes: args.max_size,
    };
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    let (rotation, previous) = directory.map_or((None, None), |directory| {
        (Some(directory.rotation), directory.previous)
    });
    let prepared = Writer::prepare(&path, owner, retention)?.rotating(rotation);
    let wanted = ClusterFilter {
        session_dir: args.session_dir.clone(),
        raylet: args.raylet_pid.map(Pid),
        user: args.user,
    };
    let (mode, probes) = (attached.mode, attached.probes.clone());
    let supervisor = start.as_ref().map(|start| Pid(start.supervisor));
    let mut observers =
        ObserverLoop::prepare(attached, prepared.sender(), wanted, previous, supervisor)?;
    if args.armed {
        observers.collector.sample_as_near_limit();
    }
    let wrapped = start
        .map(|start| Wrapped::start(start, &args.command[0], &mut observers.collector))
        .transpose()?;
    let _own_cgroup = args.own_cgroup.then(cgroup::OwnCgroup::enter).transpose()?;
    self_protection::protect();
    // Threads inherit the rights of the thread that starts them, so those from here on have few.
    let writer = privileges::reduce(owner, Some(folder), args.own_cgroup, || prepared.start())?;
    timed_read::begin();
    observers.start()?;
    let gpus = observers.collector.watch_gpus();
    let collector = &mut observers.collector;
    if args.gcs {
        let asked = collector.ask_gcs();
        asked.context("cannot start the thread that asks the GCS")?;
    }
    if !args.no_stacks {
        collector
            .read_stacks(args.stacks_time)
            .context("cannot start the thread that reads stacks")?;
    }
    collector.scan();
    if args.require_ray && collector.clusters() == 0 {
        return Err(no_ray());
    }
    let signals = Signals::catch().context("cannot catch signals")?;
    let mut screen = output::Screen::new(wrapped.is_some());
    // A user who reads that recording has started may end it at once, and must then have a readable
    // file.
    if !writer.wait_for_first(FIRST_EVENTS) {
        screen.trouble(&writer.sender());
    }
    screen.started(
        &path,
        mode,
        &probes,
        collector.clusters(),
        collector.workers(),
        &gpus,
    );
    service::ready();
    let mut session = Session {
        observers,
        writer,
        began: Instant::now(),
        screen,
    };
    session.run(args.duration, signals, wrapped).await;
    let whole = Box::pin(session.end()).await;
    Ok(ExitCode::from(u8::from(!whole)))
}

impl Session {
    /// Records until it is told to end, the time is over, or the wrapped command has ended.
    async fn run(
        &mut self,
        duration: Option<Duration>,
        mut signals: Signals,
        wrapped: Option<Wrapped>,
    ) {
        let far = Duration::from_secs(100 * 365 * 24 * 3600);
        let over = tokio::time::sleep(duration.unwrap_or(far));
        tokio::pin!(over);
        loop {
            tokio::select! {
                biased;
                step = self.observers.step() => if step == Step::Second { self.second(); },
                told = Wrapped::wait(wrapped.as_ref()) => match told {
                    Told::Ended => return,
                    Told::Signalled(signal) => {
                        let (number, code) = (signal.number, signal.code);
                        let sender = (Pid(signal.pid), signal.uid);
                        self.observers.collector.was_signalled(number, code, sender);
                    }
                },
                // Beside a wrapped command, all signals are blocked.
                _ = signals.hangup.recv() => {}
                _ = signals.interrupt.recv() => return,
                _ = signals.terminate.recv() => return,
                () = &mut over => return,
            }
            for told in self.observers.collector.take_updates() {
                self.screen.death(&told);
            }
        }
    }

    fn second(&mut self) {
        service::alive();
        self.screen
            .gcs_updates(self.observers.collector.gcs_updates());
        for (time, warning) in self.observers.collector.warnings() {
            self.screen.warning(time, &warning);
        }
        self.screen
            .status(self.began.elapsed(), &self.observers.collector);
        self.screen.trouble(&self.writer.sender());
    }

    /// Waits for Ray's last log lines and ends the recording. Returns whether the file is complete.
    async fn end(mut self) -> bool {
        service::ending();
        let screen = &mut self.screen;
        let tell = |collector: &mut Collector| {
            for told in collector.take_updates() {
                screen.death(&told);
            }
        };
        self.observers.finish(tell).await;
        let ledger = self.observers.collector.ledger();
        let lost = ledger.iter().map(crate::event::Ledger::lost).sum();
        let path = self.writer.path();
        let summary = self.writer.finish();
        self.screen
            .ended(&path, self.began.elapsed(), &summary, lost);
        self.screen.hanging(&timed_read::hanging());
        summary.failure.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_a_number_or_a_known_name() {
        assert_eq!(parse_user("1000"), Ok(1000));
        assert_eq!(parse_user("root"), Ok(0));
        let error = parse_user("nobody-has-this-name").expect_err("no user");
        assert!(error.contains("no user nobody-has-this-name"), "{error}");
    }

    #[test]
    fn size_errors_name_what_is_wrong() {
        assert_eq!(parse_size("500MiB"), Ok(500 << 20));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        for (text, expected) in [
            ("5TB", "unknown unit TB: use MiB or GiB"),
            ("10K", "unknown unit K"),
            ("100", "100 is below the minimum of 1 MiB"),
            ("all", "all is not a size"),
        ] {
            let error = parse_size(text).expect_err("no size");
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn time_errors_ask_for_a_unit() {
        assert_eq!(parse_duration("15m"), Ok(Duration::from_secs(900)));
        for text in ["5", "forever", "-5m"] {
            let error = parse_duration(text).expect_err("no time");
            let expected = format!("{text} is not a time: give a number with a unit");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn unknown_raylet_is_a_usage_error() {
        let error = refuse_missing_raylet(Pid(1)).expect_err("pid 1 is no raylet");
        assert_eq!(super::super::exit_code(&error), super::super::code::USAGE);
    }
}
