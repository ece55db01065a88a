//! `raytrace diff`: two recordings side by side, and which setting's change fits the change in memory.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;

use super::{
    code,
    export::{Need, parts},
    fleet,
    only::OnlyArgs,
    own_path,
    view::output,
};
use crate::{
    judge::{self, diff::compare, report::Report},
    show::{Style, diff, json, only::Only, time::Zone},
};

/// The forms of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DiffFormat {
    /// For people.
    #[default]
    Text,
    /// One object with everything; fields are added, never renamed.
    Json,
}

/// Arguments of `diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  raytrace diff before.raytrace after.raytrace      Compare before and after a change of a setting
  raytrace diff verl.raytrace easyr1.raytrace       Compare two frameworks on the same job
  raytrace diff a.raytrace b.raytrace --format json | jq '.fits'
  raytrace diff before/ after/ --node gpu-07        Compare one node of two runs

Exit codes:
  0  success
  2  a file is missing
  6  a recording is damaged or from a newer raytrace")]
pub struct DiffArgs {
    /// First recording, or a folder of one run's recordings.
    a: PathBuf,
    /// Second recording, or a folder.
    b: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: DiffFormat,
    #[command(flatten)]
    only: OnlyArgs,
}

/// Runs it.
pub fn run(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let only = args.only.only();
    let (a, damaged_a) = read(&args.a, &only)?;
    let (b, damaged_b) = read(&args.b, &only)?;
    let (first, second) = (args.a.display().to_string(), args.b.display().to_string());
    let compared = compare((&first, &a), (&second, &b));
    let text = match args.format {
        DiffFormat::Json => json::render_diff(&compared).context("cannot write the JSON")?,
        DiffFormat::Text => diff::render(
            &compared,
            &Style {
                width: output::width().into(),
                zone: Zone::default(),
                file: None,
                program: own_path::name(),
            },
        ),
    };
    output::print(&text)?;
    Ok(if damaged_a || damaged_b {
        ExitCode::from(code::RECORDING)
    } else {
        ExitCode::SUCCESS
    })
}

/// What a recording says, or those of a folder together, and whether any is damaged.
fn read(file: &Path, only: &Only) -> anyhow::Result<(Report, bool)> {
    if file.is_dir() && only.is_all() {
        return of_folder(file);
    }
    of_some(file, only)
}

/// What is asked for of a recording or a folder.
fn of_some(file: &Path, only: &Only) -> anyhow::Result<(Report, bool)> {
    let files = fleet::expand(&[file.to_owned()])?;
    let (parts, damaged) = parts(&files, only, Need::Judged)?;
    let reports = parts.iter().map(|part| part.judge.report());
    Ok((judge::fleet::join(reports.collect()), damaged))
}

fn of_folder(folder: &Path) -> anyhow::Result<(Report, bool)> {
    let files = fleet::expand(&[folder.to_owned()])?;
    let (outlines, failed) = fleet::outlines(&files);
    let joined = fleet::join(outlines, failed, fleet::Reach::default(), false)?;
    if joined.damaged {
        for note in &joined.report.notes {
            anstream::eprintln!("raytrace: {note}");
        }
    }
    Ok((joined.report, joined.damaged))
}
