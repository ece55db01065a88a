//! `raytrace report`: what a recording says, on any machine, without privilege.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use super::{
    Failure, code,
    view::{self, ViewArgs},
};
use crate::{
    judge::Judge,
    recording::{self, place},
};

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  raytrace report                             the newest recording
  raytrace report run.raytrace --kill 2       one kill with all its evidence
  raytrace report run.raytrace --match 41877  any pid or id of a traceback
  raytrace report run.raytrace --since -10m   its last ten minutes
  raytrace report run.raytrace --format json | jq '.deaths[].verdict.summary'
  raytrace report run.raytrace --format markdown --redact -o issue.md
  raytrace report run.raytrace --format html -o report.html
  raytrace report run.raytrace --fail-on      exit code 8 for a memory kill
  raytrace report run.raytrace --fail-on signal,crash --fail-above 85%

Exit codes: 0 ok, 2 what was asked for is not there, 6 the recording is damaged
or of a newer raytrace, 8 --fail-on or --fail-above was met")]
pub struct ReportArgs {
    /// The recording; without it the newest one of this folder, else of /var/lib/raytrace.
    file: Option<PathBuf>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Runs it.
pub fn run(args: ReportArgs) -> anyhow::Result<ExitCode> {
    let file = match args.file {
        Some(file) => file,
        None => newest()?,
    };
    let mut judge = Judge::default();
    // Only what is drawn over time needs the events once more.
    let (draws, mut events) = (args.view.draws(), Vec::new());
    let read = recording::in_batches(&file, |batch| {
        for event in &batch {
            judge.observe(event);
        }
        if draws {
            events.extend(batch);
        }
    })?;
    if read.count == 0 {
        return Err(empty(&file));
    }
    let mut report = judge.report();
    report.notes.extend(read.warnings.iter().cloned());
    let timeline = draws.then(|| judge.timeline(&events));
    let code = view::show(&report, timeline.flatten(), Some(&file), &args.view)?;
    if !read.damaged || code != ExitCode::SUCCESS {
        return Ok(code);
    }
    for warning in &read.warnings {
        anstream::eprintln!("raytrace: {warning}");
    }
    Ok(ExitCode::from(code::RECORDING))
}

/// The recording that is meant where none is named.
pub(super) fn newest() -> anyhow::Result<PathBuf> {
    let Some(file) = place::newest() else {
        return Err(Failure {
            code: code::USAGE,
            message: format!(
                "no recording (*.raytrace) in this folder or in {}; name one: raytrace report FILE, or make one: sudo raytrace record",
                place::FALLBACK
            ),
        }
        .into());
    };
    anstream::eprintln!("Reading {}, the newest recording here", file.display());
    Ok(file)
}

/// A recording without events.
pub(super) fn empty(file: &Path) -> anyhow::Error {
    Failure {
        code: code::RECORDING,
        message: format!(
            "{} holds no events: its recorder was ended before it wrote any; record again: sudo raytrace record",
            file.display()
        ),
    }
    .into()
}
