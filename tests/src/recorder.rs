//! The recorder under test, run as a user runs it: a program that prints lines and writes a file.

use std::{
    io::{BufRead as _, BufReader, ErrorKind},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::keep;

/// Returns the program under test: `RAYTRACE`, or else the one that cargo built beside this test.
pub fn raytrace() -> PathBuf {
    if let Some(path) = std::env::var_os("RAYTRACE") {
        return path.into();
    }
    let here = std::env::current_exe().unwrap_or_default();
    let target = here.ancestors().nth(2).unwrap_or(Path::new("."));
    target.join("raytrace")
}

/// Returns a command that runs `program` as root without any capability, as in an unprivileged
/// container.
pub fn without_privilege(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set=-all", "--inh-caps=-all", "--"])
        .arg(program)
        .args(arguments);
    command
}

/// A line that the recorder printed, and when it was read.
#[derive(Debug, Clone)]
pub struct Line {
    /// Nanoseconds since 1970.
    pub read_at: i128,
    /// The line, without its line feed.
    pub text: String,
}

/// A running recorder.
pub struct Recorder {
    child: Child,
    lines: Receiver<Line>,
    seen: Vec<Line>,
    file: PathBuf,
}

impl Recorder {
    /// Starts `raytrace record -o FILE ARGUMENTS`, and returns once it records.
    pub fn start(file: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(raytrace());
        command.arg("record").arg("-o").arg(file).args(arguments);
        Self::run(command, file)
    }

    /// Starts `command`, a recorder that writes `file`.
    pub fn run(mut command: Command, file: &Path) -> Result<Self> {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut started = command.spawn();
        // A fresh copy of the program may still be open for writing in a process that another test
        // forks now.
        while started
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::ExecutableFileBusy)
        {
            thread::sleep(Duration::from_millis(10));
            started = command.spawn();
        }
        let mut child = started.with_context(|| {
            format!("cannot start {command:?}; build it, or run cargo xtask test")
        })?;
        let errors = child.stderr.take().context("no stderr")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for text in BufReader::new(errors).lines().map_while(Result::ok) {
                let read_at = now();
                if sender.send(Line { read_at, text }).is_err() {
                    return;
                }
            }
        });
        let mut recorder = Self {
            child,
            lines,
            seen: Vec::new(),
            file: file.to_owned(),
        };
        recorder.wait_for("Recording to", Duration::from_secs(120))?;
        Ok(recorder)
    }

    /// Waits for a line that contains `text`.
    pub fn wait_for(&mut self, text: &str, patience: Duration) -> Result<Line> {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                bail!(
                    "the recorder did not say {text:?} within {patience:?}; it said: {:#?}",
                    self.seen
                );
            };
            self.seen.push(line.clone());
            if line.text.contains(text) {
                return Ok(line);
            }
        }
    }

    /// Returns the recorder's pid. With a command it is a child of the process that was started.
    pub fn pid(&self) -> u32 {
        let started = self.supervisor();
        let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm"));
        let own = name(started).unwrap_or_default();
        let children = std::fs::read_to_string(format!("/proc/{started}/task/{started}/children"));
        let children = children.unwrap_or_default();
        let mut children = children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok());
        let recorder = children.find(|pid| name(*pid).is_ok_and(|name| name == own));
        recorder.unwrap_or(started)
    }

    /// Returns the pid of the process that was started. It supervises the command, if there is one.
    pub fn supervisor(&self) -> u32 {
        self.child.id()
    }

    /// Ends the recorder with SIGINT, as Ctrl-C does, and reads its recording.
    pub fn stop(mut self) -> Result<RecorderOutput> {
        self.signal(Signal::INT)?;
        let status = self.wait(Duration::from_secs(120))?;
        if !status.success() {
            bail!("the recorder ended with {status}: {:#?}", self.seen);
        }
        self.seen.extend(self.lines.iter());
        keep::file(&self.file)?;
        let report = report(&self.file)?;
        Ok(RecorderOutput {
            lines: std::mem::take(&mut self.seen),
            report,
        })
    }

    /// Sends the recorder a signal. SIGKILL ends the supervisor of its command too.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let (recorder, started) = (self.pid(), Pid::from_child(&self.child));
        let pid = Pid::from_raw(recorder.cast_signed()).context("no recorder")?;
        kill_process(pid, signal)?;
        if signal == Signal::KILL && pid != started {
            let stat = || std::fs::read_to_string(format!("/proc/{recorder}/stat"));
            while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
                thread::sleep(Duration::from_millis(1));
            }
            kill_process(started, signal)?;
        }
        Ok(())
    }

    /// Returns all lines that it has printed so far.
    pub fn lines(&mut self) -> &[Line] {
        self.seen.extend(self.lines.try_iter());
        &self.seen
    }

    /// Waits until the recorder has ended.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(10));
        }
        bail!("the recorder did not end within {patience:?}")
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ended = self.signal(Signal::KILL);
        }
        let _status = self.child.wait();
    }
}

/// The output and the report of a recorder that has ended.
pub struct RecorderOutput {
    /// All lines that it printed.
    pub lines: Vec<Line>,
    /// `raytrace report --format json`.
    pub report: Value,
}

impl RecorderOutput {
    /// Returns the milliseconds from each exit, by the kernel's clock, to the moment when its line
    /// was read here, sorted.
    pub fn latencies(&self) -> Vec<f64> {
        let deaths = self.report["deaths"].as_array();
        let exit = |pid: u64| {
            let mut deaths = deaths
                .into_iter()
                .flatten()
                .filter(|death| death["pid"] == pid);
            // A pid that was used twice is left out.
            deaths.next().filter(|_| deaths.next().is_none())
        };
        let first = |line: &&Line| line.text.contains("Z ") && !line.text.contains(" final: ");
        let mut found: Vec<f64> = self
            .lines
            .iter()
            .filter(first)
            .filter_map(|line| {
                let rest = line.text.split(" pid ").nth(1)?;
                let exit = exit(rest.split_whitespace().next()?.parse().ok()?)?;
                let exited: jiff::Timestamp = exit["exit_time"].as_str()?.parse().ok()?;
                Some((line.read_at - exited.as_nanosecond()) as f64 / 1e6)
            })
            .collect();
        found.sort_by(f64::total_cmp);
        found
    }
}

/// Returns the JSON report of a recording.
pub fn report(file: &Path) -> Result<Value> {
    let output = Command::new(raytrace())
        .args(["report", "--format", "json"])
        .arg(file)
        .output()?;
    if !output.status.success() {
        bail!(
            "raytrace report ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    serde_json::from_slice(&output.stdout).context("the report is not JSON")
}

/// Rows of the ledger that count misses which are not events.
///
/// Lines of the kernel log: on a small machine a storm of the kernel's own reports overwrites them
/// before anybody reads them. Reads of a process that took too long: on a busy machine any thread
/// may wait longer for its turn than the timeout of a read.
const NO_EVENTS: [&str; 2] = ["kernel log", "reads that hang"];

/// Returns how many misses were not events.
pub fn missed_besides_events(report: &Value) -> u64 {
    let ledgers = report["recordings"][0]["ledgers"].as_array();
    let rows = ledgers.into_iter().flatten();
    let theirs = rows.filter(|row| NO_EVENTS.iter().any(|hook| row["hook"] == *hook));
    theirs.filter_map(|row| row["missed"].as_u64()).sum()
}

/// Checks the loss ledger: everything is counted, and no event was lost.
///
/// # Panics
///
/// If it does not balance.
pub fn assert_balanced(report: &Value) {
    assert_balanced_but(report, missed_besides_events(report));
}

/// Does the same where only these raylets are the test's own. Each cluster has a row of its own in
/// the ledger for what was left out of its logs. Rows of other clusters of the machine say nothing
/// about this test: their users may write more than is read. Rows of the test's own clusters must be
/// empty, also while others write so much.
///
/// # Panics
///
/// If it does not balance.
pub fn assert_balanced_of(report: &Value, raylets: &[u32]) {
    let ledgers = report["recordings"][0]["ledgers"].as_array();
    let others = ledgers.into_iter().flatten().filter(|row| {
        let hook = row["hook"].as_str().unwrap_or_default();
        let raylet = hook.split_once("logs of raylet ");
        raylet.is_some_and(|(_, pid)| raylets.iter().all(|own| own.to_string() != pid))
    });
    let others: u64 = others.filter_map(|row| row["missed"].as_u64()).sum();
    assert_balanced_but(report, missed_besides_events(report) + others);
}

fn assert_balanced_but(report: &Value, missed: u64) {
    let recording = &report["recordings"][0];
    let lost = recording["lost_events"].as_u64();
    assert_eq!(lost, Some(missed), "{}", recording["ledgers"]);
    for row in recording["ledgers"].as_array().into_iter().flatten() {
        let count = |name: &str| row[name].as_u64().unwrap_or_default();
        assert_eq!(
            count("seen"),
            count("submitted") + count("filtered") + count("ring_full") + count("map_full"),
            "{row}"
        );
        assert_eq!(
            count("received"),
            count("written") + count("dropped"),
            "{row}"
        );
    }
    assert!(
        recording["ledgers"]
            .as_array()
            .is_some_and(|rows| rows.iter().any(|row| row["seen"] != 0)),
        "a ledger"
    );
}

fn now() -> i128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos().cast_signed())
}

/// Returns the most memory that a process has had, in KiB; `None` once it is gone.
pub fn peak_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
