//! The subcommands, one file each.

pub mod diff;
pub mod doctor;
pub mod explain;
pub mod export;
mod observing;
pub mod record;
pub mod report;
pub mod top;
pub mod view;

use std::process::ExitCode;

use clap::CommandFactory as _;
use tracing_subscriber::EnvFilter;

use crate::{
    cli::{Cli, Command},
    recording::RecordingError,
};

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
    /// `--strict` and a probe is missing.
    pub const STRICT: u8 = 7;
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

/// The exit code of an error.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.code;
    }
    match error.downcast_ref::<RecordingError>() {
        Some(
            RecordingError::Damaged { .. }
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

/// Talk about raytrace itself goes to stderr.
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

/// Runs a subcommand.
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Record(args) => record::run(args),
        Command::Report(args) => report::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Export(args) => export::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Completions { shell } => {
            // Into a buffer: clap_complete panics where a pipe is closed early.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "raytrace", &mut script);
            view::output::print(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
