//! The command line.

use clap::{Parser, Subcommand};

use crate::command::{
    diff::DiffArgs, doctor::DoctorArgs, explain::ExplainArgs, export::ExportArgs,
    record::RecordArgs, report::ReportArgs, top::TopArgs,
};

/// The flight recorder for memory deaths on Ray clusters: who killed this process, what grew, whose it was.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    /// More talk on stderr about what raytrace itself does (-v, -vv); `RUST_LOG` overrides it.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Attach to every Ray cluster of this machine and record each death with proof of who caused it.
    Record(RecordArgs),
    /// Print what a recording says: who killed whom, with the evidence.
    Report(ReportArgs),
    /// Say from logs alone who killed what: no recording, no root.
    Explain(ExplainArgs),
    /// Before the run: can this machine record, who will kill first, which settings are without effect.
    Doctor(DoctorArgs),
    /// Watch live: memory by class, process and component, who kills first, the last deaths.
    Top(TopArgs),
    /// Turn a recording into a trace for Perfetto, or into lines for other programs.
    Export(ExportArgs),
    /// Compare two recordings: settings, memory and deaths, and which setting's change fits the change in memory.
    Diff(DiffArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}
