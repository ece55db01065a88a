//! `raytrace report`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// The recording; without it the newest one of this folder, else of /var/lib/raytrace.
    file: Option<PathBuf>,
    /// `text` or `json`.
    #[arg(long, default_value = "text")]
    format: String,
}

/// Runs it.
pub fn run(args: ReportArgs) -> anyhow::Result<ExitCode> {
    let file = args
        .file
        .or_else(crate::recording::place::newest)
        .context("no recording here")?;
    let read = crate::recording::read(&file)?;
    let report = crate::judge::judge(&read.events);
    println!("{}", crate::show::json::render(&report)?);
    Ok(ExitCode::SUCCESS)
}
