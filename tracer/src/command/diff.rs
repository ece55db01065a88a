//! `raytrace diff`: compares two runs, and finds which setting explains which change of memory.
//!
//! A run can have recordings of one node or of many.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;

use super::{
    code,
    export::{ReadDepth, parts},
    own_path, recording_files,
    recording_filter::RecordingFilterArgs,
    usage,
    view::output,
};
use crate::{
    judge::{self, Details, diff::compare, report::Report},
    show::{Style, diff, json, recording_filter::RecordingFilter},
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
#[command(
    override_usage = "raytrace diff [OPTIONS] A B\n       raytrace diff [OPTIONS] A... --to B...",
    after_long_help = "Examples:
  raytrace diff before.raytrace after.raytrace      Compare before and after a change of a setting
  raytrace diff verl.raytrace easyr1.raytrace       Compare two frameworks on the same job
  raytrace diff a.raytrace b.raytrace --format json | jq '.explains'
  raytrace diff before/ after/                      Compare two runs of many nodes
  raytrace diff before/ after/ --node gpu-07        Compare one node of two runs
  raytrace diff a-01.raytrace a-02.raytrace --to b-01.raytrace b-02.raytrace

Exit codes:
  0  success
  2  a file is missing
  6  a recording is damaged or from a newer raytrace"
)]
pub struct DiffArgs {
    /// Two recordings, or two folders with the recordings of one run each.
    ///
    /// With --to, these are the recordings of the first run.
    #[arg(required = true, value_name = "A B")]
    files: Vec<PathBuf>,
    /// Recordings of the second run, if a run has several and no separate folder.
    #[arg(long, value_name = "B", num_args = 1..)]
    to: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: DiffFormat,
    #[command(flatten)]
    filter: RecordingFilterArgs,
}

/// Runs the subcommand.
pub fn run(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let filter = args.filter.to_filter();
    let (first, second) = args.runs()?;
    let (a, damaged_a) = read(first, &filter)?;
    let (b, damaged_b) = read(second, &filter)?;
    let (first, second) = (named(first), named(second));
    let compared = compare((&first, &a), (&second, &b));
    let text = match args.format {
        DiffFormat::Json => json::render(&compared).context("cannot write the JSON")?,
        DiffFormat::Text => diff::render(
            &compared,
            &Style {
                width: output::width().into(),
                program: own_path::name(),
                ..Style::default()
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

impl DiffArgs {
    /// Returns the recordings of each run.
    fn runs(&self) -> anyhow::Result<(&[PathBuf], &[PathBuf])> {
        match (self.files.as_slice(), self.to.as_slice()) {
            ([a, b], []) => Ok((std::slice::from_ref(a), std::slice::from_ref(b))),
            (files, []) => Err(usage(format!(
                "expected two recordings or folders, got {}; if a run has several recordings, put those of the second run after --to",
                files.len()
            ))),
            runs => Ok(runs),
        }
    }
}

/// Names a run after its first file, with the number of further files.
fn named(files: &[PathBuf]) -> String {
    let first = files.first().map(|file| file.display().to_string());
    let first = first.unwrap_or_default();
    match files.len() {
        0 | 1 => first,
        many => format!("{first} and {} more", many - 1),
    }
}

/// Joins a run's recordings into one report, and tells whether any is damaged.
fn read(files: &[PathBuf], filter: &RecordingFilter) -> anyhow::Result<(Report, bool)> {
    let one = matches!(files, [file] if !file.is_dir());
    if one || !filter.is_all() {
        return of_some(files, filter);
    }
    of_many(files)
}

/// Reads recordings or folders and keeps what `filter` selects.
fn of_some(files: &[PathBuf], filter: &RecordingFilter) -> anyhow::Result<(Report, bool)> {
    let files = recording_files::expand(files)?;
    let (parts, damaged) = parts(&files, filter, ReadDepth::Judged)?;
    let reports = parts.iter().map(|part| part.judge.report());
    Ok((judge::fleet::join(reports.collect()), damaged))
}

fn of_many(files: &[PathBuf]) -> anyhow::Result<(Report, bool)> {
    let files = recording_files::expand(files)?;
    let (outlines, failed) = recording_files::outlines(&files);
    let joined = recording_files::join(
        outlines,
        failed,
        recording_files::TimeRange::default(),
        false,
        &Details::All,
    )?;
    if joined.damaged {
        for note in &joined.report.notes {
            anstream::eprintln!("raytrace: {note}");
        }
    }
    Ok((joined.report, joined.damaged))
}

#[cfg(test)]
mod tests;
