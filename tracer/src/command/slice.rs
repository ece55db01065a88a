//! `raytrace slice`: a part of a recording as a small recording of its own.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;

use super::{code, fleet, only::job, usage};
use crate::{
    event::Event,
    ids::{BootTime, EventId, HexId, MINUTE_NS},
    judge::{Judge, report::Utc},
    recording::{self, Outline},
    show::time::Zone,
    slice::{SliceError, SliceFilter, Window, cut, end_of},
};

/// Before a death as much is kept as a recording keeps in full detail around it.
const BEFORE_DEATH_NS: i64 = 10 * MINUTE_NS;
/// After it too: what Ray's logs say, and what followed.
const AFTER_DEATH_NS: i64 = MINUTE_NS;

/// Arguments of `slice`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  raytrace slice node.raytrace --job 02000000 -o job.raytrace
  raytrace slice node.raytrace --death 4711 -o death.raytrace
  raytrace slice /var/lib/raytrace --since 08:00:00 --until 08:30:00 -o half-hour.raytrace

Exit codes:
  0  success
  2  a file is missing, or nothing matches
  6  a recording is damaged or from a newer raytrace")]
#[command(group = clap::ArgGroup::new("part").required(true).multiple(true).args(["job", "death", "since", "until"]))]
pub struct SliceArgs {
    /// Recording, consecutive files of one recorder, or their folder.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Keep only this job: its processes, nodes and limits, and nothing of other jobs or users.
    #[arg(long, value_name = "ID", value_parser = job, help_heading = "Selection")]
    job: Option<HexId>,
    /// Session of the job's cluster, if several clusters of the machine have a job with this id.
    #[arg(
        long,
        value_name = "SESSION",
        requires = "job",
        help_heading = "Selection"
    )]
    cluster: Option<String>,
    /// Keep ten minutes before this death and one after: its id in the JSON.
    #[arg(long, value_name = "ID", conflicts_with_all = ["since", "until"], help_heading = "Selection")]
    death: Option<u64>,
    /// Keep events after this time: 08:41:07, 2026-11-20T08:41:07Z, or -10m for the last ten minutes.
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Selection"
    )]
    since: Option<String>,
    /// Keep events before this time.
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Selection"
    )]
    until: Option<String>,
    /// Output file; it must not exist.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: PathBuf,
}

/// Runs it.
pub fn run(args: &SliceArgs) -> anyhow::Result<ExitCode> {
    let files = one_recorder(&args.files)?;
    let (mut judge, mut events) = (Judge::default(), Vec::new());
    let read = recording::parts_in_batches(&files, |batch| {
        for event in &batch {
            judge.observe(event);
        }
        events.extend(batch);
    })?;
    let wanted = SliceFilter {
        job: args.job.clone(),
        session: args.cluster.clone(),
        window: args.window(&judge, &events)?,
    };
    let before = events.len();
    let kept = cut(events, &wanted).map_err(|error| refusal(&error))?;
    recording::write(&args.output, &kept)?;
    anstream::eprintln!(
        "Wrote {} ({} of {before} events)",
        args.output.display(),
        kept.len()
    );
    for warning in &read.warnings {
        anstream::eprintln!("raytrace: {warning}");
    }
    Ok(ExitCode::from(if read.damaged {
        code::RECORDING
    } else {
        0
    }))
}

fn refusal(error: &SliceError) -> anyhow::Error {
    let next = match error {
        SliceError::NoSuchJob(_) => {
            "list jobs: raytrace report FILE --format json | jq '.jobs[].job_id'"
        }
        SliceError::SeveralClusters { .. } => "name one of them: --cluster SESSION",
    };
    usage(format!("{error}; {next}"))
}

/// The files of one recorder, in their order.
fn one_recorder(arguments: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let files = fleet::expand(arguments)?;
    if let [_] = files.as_slice() {
        return Ok(files);
    }
    let outlines: Result<Vec<Outline>, _> = files.iter().map(|file| Outline::of(file)).collect();
    let mut groups = recording::by_recorder(outlines?);
    let (Some(only), true) = (groups.pop(), groups.is_empty()) else {
        let names: Vec<String> = files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        return Err(usage(format!(
            "{} are recordings of several recorders; cut each by itself, and read the slices together: raytrace report A B",
            names.join(" ")
        )));
    };
    Ok(only.into_iter().map(|file| file.path).collect())
}

impl SliceArgs {
    fn window(&self, judge: &Judge, events: &[Event]) -> anyhow::Result<Option<Window>> {
        if let Some(death) = self.death {
            let ended = end_of(events, EventId(death)).ok_or_else(|| usage(format!(
                    "no death has the id {death}; list them: raytrace report FILE --format json | jq '.deaths[].id'"
                )))?;
            return Ok(Some(Window {
                from: ended.plus(-BEFORE_DEATH_NS),
                until: ended.plus(AFTER_DEATH_NS),
            }));
        }
        if self.since.is_none() && self.until.is_none() {
            return Ok(None);
        }
        let times = || events.iter().map(|event| event.time);
        let (first, last) = times().min().zip(times().max()).unwrap_or_default();
        let (began, ended) = judge
            .wall(first)
            .zip(judge.wall(last))
            .context("the recording holds no clock: its beginning is missing")?;
        let moment = |option: &str, text: &Option<String>, else_at: BootTime| {
            let Some(text) = text else {
                return Ok(else_at);
            };
            let at: Utc = Zone::default()
                .parse(text, began, ended)
                .map_err(|error| usage(format!("{option}: {error}")))?;
            Ok::<_, anyhow::Error>(last.plus(at.0.0.saturating_sub(ended.0.0)))
        };
        Ok(Some(Window {
            from: moment("--since", &self.since, first)?,
            until: moment("--until", &self.until, last)?,
        }))
    }
}
