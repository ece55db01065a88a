//! The command line.

use clap::{Parser, Subcommand};

#[cfg(feature = "record")]
use crate::command::record::RecordArgs;
use crate::command::{
    diff::DiffArgs, doctor::DoctorArgs, explain::ExplainArgs, export::ExportArgs,
    publish::PublishArgs, report::ReportArgs, slice::SliceArgs, top::TopArgs,
};

/// Flight recorder for memory deaths on Ray clusters: who killed each process, what grew, and what to change.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    /// Increase log verbosity (-v, -vv); `RUST_LOG` overrides it.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, display_order = 998)]
    pub verbose: u8,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record every death on this Ray node and prove who caused it.
    #[cfg(feature = "record")]
    Record(RecordArgs),
    /// Print who killed whom, with the evidence, from one or many recordings.
    Report(ReportArgs),
    /// Explain deaths from logs alone: no recording, no root.
    Explain(ExplainArgs),
    /// Check before a run: who will kill first, and which settings have no effect.
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
    /// Write a man page for each command into a folder: for packages.
    #[command(hide = true)]
    Man {
        /// The folder.
        folder: std::path::PathBuf,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}
