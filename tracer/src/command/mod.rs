//! The subcommands, one file each.

#[cfg(feature = "record")]
mod attach;
pub mod diff;
pub mod doctor;
pub mod explain;
pub mod export;
mod frameworks;
#[cfg(feature = "record")]
mod observer_loop;
pub mod own_path;
#[cfg(feature = "record")]
mod privileges;
mod progress;
pub mod publish;
#[cfg(feature = "record")]
pub mod record;
mod recorder_events;
mod recording_files;
pub mod recording_filter;
pub mod report;
pub mod slice;
pub mod top;
pub mod view;

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing_subscriber::{
    EnvFilter,
    fmt::{format::Writer, time::FormatTime},
};

use crate::{ids::Pid, recording::RecordingError};

/// Exit codes beyond 0 (ok) and 1 (unexpected).
pub mod code {
    /// The request is impossible or names something that does not exist; clap uses this code too.
    pub const USAGE: u8 = 2;
    /// A privilege is missing, and `--require-ebpf` was given.
    pub const PRIVILEGE: u8 = 3;
    /// The kernel lacks a feature, and `--require-ebpf` was given.
    pub const KERNEL: u8 = 4;
    /// No Ray runs, and `--require-ray` was given.
    pub const NO_RAY: u8 = 5;
    /// A recording is damaged or from a newer raytrace.
    pub const RECORDING: u8 = 6;
    /// A probe is missing, and `--require-all-probes` was given.
    pub const REQUIRE_ALL_PROBES: u8 = 7;
    /// `--fail-on` or `--fail-above` was met.
    pub const FAIL_ON: u8 = 8;
    /// `doctor` found a problem.
    pub const PROBLEM: u8 = 9;
    /// The command of `record -- COMMAND` cannot be run. Shells use this code and the next one.
    pub const CANNOT_RUN: u8 = 126;
    /// The command of `record -- COMMAND` does not exist.
    pub const NOT_FOUND: u8 = 127;
}

/// A failure with its own exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What failed, what was found, and what to type next.
    pub message: String,
}

/// Returns a failure with the exit code [`code::USAGE`].
fn usage(message: impl Into<String>) -> anyhow::Error {
    failure(code::USAGE, message)
}

fn failure(code: u8, message: impl Into<String>) -> anyhow::Error {
    let message = message.into();
    Failure { code, message }.into()
}

/// Runs the event loop of a command until it is done.
fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?;
    runtime.block_on(command)
}

/// Returns the error for a pid that no raylet has.
fn no_raylet(pid: Pid) -> anyhow::Error {
    usage(format!(
        "--raylet-pid {pid}: no raylet has this pid here; find it: pgrep -a raylet"
    ))
}

/// Parses a pid.
fn parse_pid(text: &str) -> Result<u32, String> {
    let pid = text.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| "give a pid: a number above 0".to_owned())
}

/// Formats an error with its causes. A cause that repeats what was printed before is left out.
pub fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    let mut before: Option<String> = None;
    for cause in error.chain().map(ToString::to_string) {
        // SQLite's errors repeat what was printed, behind their code.
        let repeats = before.is_some_and(|before| {
            let code = cause.strip_suffix(&before);
            code.is_some_and(|code| code.starts_with("Error code "))
        });
        if !repeats && !message.contains(&cause) {
            if !message.is_empty() {
                message.push_str(": ");
            }
            message.push_str(&cause);
        }
        before = Some(cause);
    }
    message
}

/// Returns the exit code of an error.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.code;
    }
    match error.downcast_ref::<RecordingError>() {
        Some(
            RecordingError::Damaged { .. }
            | RecordingError::Cut { .. }
            | RecordingError::Empty(_)
            | RecordingError::Newer { .. }
            | RecordingError::NotARecording(_),
        ) => code::RECORDING,
        Some(RecordingError::Open { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            code::USAGE
        }
        _ => 1,
    }
}

/// Sends raytrace's own log messages to stderr.
pub fn init_log(verbose: u8) {
    let level = match verbose {
        // The recording states for each process why its stacks could not be read.
        0 => "warn,py_spy=off,remoteprocess=off",
        1 => "raytrace=info",
        _ => "raytrace=debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let on_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(on_terminal)
        .with_timer(LogTime {
            shown: !on_terminal && std::env::var_os("JOURNAL_STREAM").is_none(),
        })
        .init();
}

/// The time before a log message, which a terminal does not need and systemd's journal has.
struct LogTime {
    shown: bool,
}

impl FormatTime for LogTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        if self.shown {
            write!(writer, "{:.3} ", jiff::Timestamp::now())?;
        }
        Ok(())
    }
}

/// Writes to stdout. A closed pipe is not an error.
pub fn print(text: &str) -> anyhow::Result<()> {
    view::output::print(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_cause_of_error_is_printed_once() {
        let missing = crate::recording::read(Path::new("/nowhere/a.raytrace")).map(drop);
        let said = message(&missing.context("a report").expect_err("no file"));
        assert!(said.starts_with("a report: cannot open"), "{said}");
        assert_eq!(said.matches("No such file").count(), 1, "{said}");
        let longer = anyhow::anyhow!("Error code 11: malformed").context("malformed");
        assert_eq!(message(&longer.context("a: malformed")), "a: malformed");
    }
}
