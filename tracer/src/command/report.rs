//! `raytrace report`: prints a report on recordings, on any machine and without privileges.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use super::{
    code, failure, recording_files, usage,
    view::{self, ViewArgs},
};
use crate::{judge::Details, recording::place};

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  raytrace report                                  Read the newest recording
  raytrace report gpu-01.raytrace gpu-02.raytrace  Join several nodes
  raytrace report /var/lib/raytrace --since -2h    Read only the files of that time
  raytrace report run.raytrace --kill 2            Show one kill with all its evidence
  raytrace report run.raytrace --match 41877       Find a death by any pid or id
  raytrace report run.raytrace --format json | jq '.deaths[].verdict.summary'
  raytrace report run.raytrace --format markdown --redact -o issue.md
  raytrace report run.raytrace --format html -o report.html
  raytrace report run.raytrace --fail-on           Exit with 8 if memory killed something
  raytrace report run.raytrace --fail-on signal,crash --fail-above 85%

Exit codes:
  0  success
  2  a file is missing, or nothing matches --kill, --match, --node, --job or --cluster (a time
     without deaths is a 0)
  6  a recording is damaged or from a newer raytrace
  8  --fail-on or --fail-above matched")]
pub struct ReportArgs {
    /// Recordings of one or many nodes, or folders of them [default: the newest].
    ///
    /// The newest is looked for in this folder, else in /var/lib/raytrace.
    files: Vec<PathBuf>,
    #[command(flatten)]
    view: ViewArgs,
}

impl ReportArgs {
    /// Builds the arguments for a report on `file`.
    pub(super) fn of(file: PathBuf, view: ViewArgs) -> Self {
        let files = vec![file];
        Self { files, view }
    }
}

/// Runs the subcommand.
pub fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    args.view.refuse_early()?;
    args.view.add_frameworks()?;
    let file = match args.files.as_slice() {
        [] => newest()?,
        [file] if !file.is_dir() => file.clone(),
        files => return several(files, &args.view),
    };
    one(&file, &args.view)
}

/// Reports on several recordings.
fn several(arguments: &[PathBuf], view: &ViewArgs) -> anyhow::Result<ExitCode> {
    let files = recording_files::expand(arguments)?;
    if let [file] = files.as_slice() {
        return one(file, view);
    }
    let (outlines, failed) = recording_files::outlines(&files);
    let range = match recording_files::bounds(&outlines) {
        Some((began, ended)) => view.time_range(began, ended)?,
        None => recording_files::TimeRange::default(),
    };
    // Numbers are those of all nodes, so no recording knows which death `--kill` names.
    let details = if view.shows_one() {
        Details::All
    } else {
        view.details()
    };
    let joined = recording_files::join(outlines, failed, range, view.draws(), &details)?;
    let folder = match arguments {
        [folder] => Some(folder.as_path()),
        _ => None,
    };
    let notes = joined.report.notes.clone();
    let code = view::show(joined.report, joined.charts, folder, view)?;
    Ok(with_damage(code, joined.damaged.then_some(&notes), view))
}

/// Reports on one recording.
fn one(file: &Path, view: &ViewArgs) -> anyhow::Result<ExitCode> {
    let files = [file.to_owned()];
    let judge = |details| recording_files::judge(&files, view.draws().then_some(1), details);
    let mut judged = judge(view.details())?;
    if judged.is_long && view.shows_one() {
        // Which one has this number is known only now. It is judged again with all its details.
        judged = judge(view.shown(judged.report)?)?;
    }
    let recording_files::Part {
        report,
        chart,
        read,
        ..
    } = judged;
    if read.count == 0 {
        return Err(empty(file));
    }
    let code = view::show(report, vec![chart], Some(file), view)?;
    let damage = read.damaged.then_some(&read.warnings);
    Ok(with_damage(code, damage, view))
}

/// Returns the exit code of a report, and prints the warnings about damage if that decides it.
fn with_damage(code: ExitCode, damage: Option<&Vec<String>>, view: &ViewArgs) -> ExitCode {
    let Some(warnings) = damage.filter(|_| code == ExitCode::SUCCESS) else {
        return code;
    };
    // The text report on stdout has these warnings among its notes.
    if !view.is_read_on_stdout() {
        for warning in warnings {
            anstream::eprintln!("raytrace: {warning}");
        }
    }
    ExitCode::from(code::RECORDING)
}

/// Returns the newest recording, for when none is named.
pub(super) fn newest() -> anyhow::Result<PathBuf> {
    let Some(file) = place::newest() else {
        return Err(usage(format!(
            "no recording (*.raytrace) in this folder or in {}; name one: raytrace report FILE, or start recording: sudo raytrace record",
            place::FALLBACK
        )));
    };
    anstream::eprintln!("Reading {}, the newest recording here", file.display());
    Ok(file)
}

/// Returns the error for a recording without events.
pub(super) fn empty(file: &Path) -> anyhow::Error {
    let message = format!(
        "{} has no events: its recorder was killed before it wrote any; record again: sudo raytrace record",
        file.display()
    );
    failure(code::RECORDING, message)
}
