//! Defines the command line and runs its subcommands.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{ArgAction, CommandFactory as _, Parser, Subcommand};

#[cfg(feature = "record")]
use crate::command::record::{self, RecordArgs};
use crate::command::{
    self,
    diff::{self, DiffArgs},
    doctor::{self, DoctorArgs},
    explain::{self, ExplainArgs},
    export::{self, ExportArgs},
    publish::{self, PublishArgs},
    report::{self, ReportArgs},
    slice::{self, SliceArgs},
    top::{self, TopArgs},
};

/// The options of every command. They are last, as their heading comes last.
const GENERAL: &str = "General";

/// Flight recorder for memory deaths on Ray clusters: who killed each process, what grew, and what
/// to change.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
#[command(disable_help_flag = true, disable_version_flag = true)]
#[command(after_long_help = "Examples:
  sudo raytrace record              Record this node while a job runs
  raytrace report                   Read the newest recording: who killed, what grew, what to change
  raytrace explain driver.log       Explain a death of which there are only logs
  sudo raytrace doctor              See who will kill first on this machine")]
pub struct Cli {
    /// Log more: -v, -vv.
    ///
    /// `RUST_LOG` overrides it.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = GENERAL)]
    pub verbose: u8,
    /// Print help: -h in short, --help with details and examples.
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = GENERAL)]
    help: Option<bool>,
    /// Print version.
    #[arg(short = 'V', long, action = ArgAction::Version, help_heading = GENERAL)]
    version: Option<bool>,
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record each death of a Ray process on this node, and who caused it.
    #[cfg(feature = "record")]
    Record(RecordArgs),
    /// Print who killed whom, with the evidence, from one or many recordings.
    Report(ReportArgs),
    /// Explain deaths from logs alone: no recording, no root.
    Explain(ExplainArgs),
    /// Check this machine and its Ray: who will kill first, which settings have no effect.
    Doctor(DoctorArgs),
    /// Watch memory, the next killer and the latest deaths live.
    Top(TopArgs),
    /// Publish deaths as JSON lines and Prometheus metrics, without privilege.
    Publish(PublishArgs),
    /// Export a recording as a Perfetto trace, flame graph, CSV or JSON lines.
    Export(ExportArgs),
    /// Cut one job, one death or a span of time out of a recording.
    Slice(SliceArgs),
    /// Compare two recordings: settings, memory and deaths.
    Diff(DiffArgs),
    /// Write a man page for each command into a folder (for packagers).
    #[command(hide = true)]
    Man {
        /// Output folder.
        folder: std::path::PathBuf,
    },
    /// Print a completion script for a shell.
    Completions {
        /// Shell to complete in.
        shell: clap_complete::Shell,
    },
}

/// Runs a subcommand.
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        #[cfg(feature = "record")]
        Command::Record(args) => record::run(args),
        Command::Report(args) => report::run(&args),
        Command::Slice(args) => slice::run(&args),
        Command::Explain(args) => explain::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Export(args) => export::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Publish(args) => publish::run(&args),
        Command::Man { folder } => {
            clap_mangen::generate_to(Cli::command(), &folder)
                .with_context(|| format!("cannot write into {}", folder.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            // Written to a buffer first, because clap_complete panics if a pipe is closed early.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "raytrace", &mut script);
            command::print(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
