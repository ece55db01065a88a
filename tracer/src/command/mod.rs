//! The subcommands, one file each.

#[cfg(feature = "record")]
mod attach;
pub mod diff;
pub mod doctor;
pub mod explain;
pub mod export;
mod fleet;
#[cfg(feature = "record")]
mod observer_loop;
pub mod only;
pub mod own_path;
#[cfg(feature = "record")]
mod privileges;
pub mod publish;
mod reading;
#[cfg(feature = "record")]
pub mod record;
mod recorder_events;
pub mod report;
pub mod slice;
pub mod top;
pub mod view;

use tracing_subscriber::EnvFilter;

use crate::recording::RecordingError;

/// Exit codes beyond 0 (ok) and 1 (unexpected).
pub mod code {
    /// What was asked for cannot be done or is not there; clap's too.
    pub const USAGE: u8 = 2;
    /// A privilege is missing, with `--require-ebpf`.
    pub const PRIVILEGE: u8 = 3;
    /// The kernel lacks something, with `--require-ebpf`.
    pub const KERNEL: u8 = 4;
    /// No Ray where one was demanded.
    pub const NO_RAY: u8 = 5;
    /// A recording is damaged or from a newer raytrace.
    pub const RECORDING: u8 = 6;
    /// `--require-all-probes` and a probe is missing.
    pub const REQUIRE_ALL_PROBES: u8 = 7;
    /// `--fail-on` or `--fail-above` was met.
    pub const FAIL_ON: u8 = 8;
    /// `doctor` found a problem.
    pub const PROBLEM: u8 = 9;
}

/// A failure with its own exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The code.
    pub code: u8,
    /// What failed, what was found, what to type.
    pub message: String,
}

/// What was asked for cannot be done or is not there.
fn usage(message: impl Into<String>) -> anyhow::Error {
    Failure {
        code: code::USAGE,
        message: message.into(),
    }
    .into()
}

/// An error with its causes, each once: many say themselves what caused them.
#[must_use]
pub fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if message.contains(&cause) {
            continue;
        }
        if !message.is_empty() {
            message.push_str(": ");
        }
        message.push_str(&cause);
    }
    message
}

/// The exit code of an error.
#[must_use]
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

/// Messages about raytrace itself go to stderr.
pub fn init_log(verbose: u8) {
    let level = match verbose {
        // What a reader of stacks could not read is told in the recording, process by process.
        0 => "warn,py_spy=off,remoteprocess=off",
        1 => "raytrace=info",
        _ => "raytrace=debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .without_time()
        .init();
}

/// Writes to stdout; a pipe that is closed is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    view::output::print(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anyhow::Context as _;

    use super::*;

    #[test]
    fn what_caused_an_error_is_said_once() {
        let missing = crate::recording::read(Path::new("/nowhere/a.raytrace")).map(drop);
        let said = message(&missing.context("a report").expect_err("no file"));
        assert!(said.starts_with("a report: cannot open"), "{said}");
        assert_eq!(said.matches("No such file").count(), 1, "{said}");
    }
}
