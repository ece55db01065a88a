//! `raytrace export`: converts recordings for other programs.

use std::{
    io::{BufWriter, ErrorKind, IsTerminal as _, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::ValueEnum as _;

use super::{
    code,
    recorder_events::{self, RecorderEvents},
    recording_files,
    recording_filter::{self, RecordingFilterArgs},
    report::{empty, newest},
    usage,
    view::output,
};
use crate::{
    bounded,
    event::{Event, Observation},
    judge::{self, Judge, timeline::TimelineBuilder},
    recording::{self, ReadSummary},
    show::{
        csv, flamegraph, jsonl,
        recording_filter::RecordingFilter,
        sanitize,
        trace::{self, RayTimeline},
        words,
    },
};

/// What it is turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// A trace for ui.perfetto.dev: lifetimes, deaths with their evidence, memory.
    ChromeTrace,
    /// One JSON object per event.
    Jsonl,
    /// Lines of Python that grew memory, as an SVG; the width is the growth.
    Flamegraph,
    /// Memory samples, for a spreadsheet or a data frame.
    Csv,
}

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  raytrace export run.raytrace --format chrome-trace -o run.json
  raytrace export run.raytrace --format chrome-trace --with ray.json -o merged.json
                                     Merge with ray.json, which `ray timeline` wrote
  raytrace export run.raytrace --format jsonl | jq 'select(.kind == \"signal\")'
  raytrace export run.raytrace --format csv -o memory.csv
  raytrace export run.raytrace --format flamegraph -o growth.svg
  raytrace export gpu-01.raytrace gpu-02.raytrace --format chrome-trace -o nodes.json
  raytrace export recordings/ --format csv -o memory.csv
  raytrace export recordings/ --format csv --node gpu-07 -o memory.csv

Exit codes:
  0  success
  2  a file is missing, or the options do not fit
  6  the recording is damaged or from a newer raytrace

Columns and kinds: docs/reference/format.md")]
pub struct ExportArgs {
    /// Recordings, or folders of them [default: the newest].
    ///
    /// The newest is looked for in this folder, else in /var/lib/raytrace.
    files: Vec<PathBuf>,
    /// Output format.
    // Without one, the formats are listed.
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    format: Option<ExportFormat>,
    /// Merge with the output of `ray timeline` (chrome-trace only).
    #[arg(long, value_name = "RAY.json", help_heading = "Input")]
    with: Option<PathBuf>,
    #[command(flatten)]
    filter: RecordingFilterArgs,
    /// Write to this file instead of stdout; it must not exist.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Overwrite the output file.
    #[arg(long, requires = "output", help_heading = "Output")]
    force: bool,
}

/// Runs the subcommand.
pub fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let format = args.format.ok_or_else(without_format)?;
    if args.with.is_some() && format != ExportFormat::ChromeTrace {
        return Err(usage(
            "--with works with --format chrome-trace only: leave it out",
        ));
    }
    let files = match args.files.as_slice() {
        [] => vec![newest()?],
        named => recording_files::expand(named)?,
    };
    let ray = args.with.as_deref().map(ray_timeline).transpose()?;
    let (parts, damaged) = parts(&files, &args.filter.to_filter(), ReadDepth::of(format))?;
    let made = Export { parts, ray };
    match &args.output {
        Some(path) => {
            // If the export cannot be made, no file must be left.
            let write = made.writer(format)?;
            let output = output::create(path, args.force, files.first().map(PathBuf::as_path))?;
            write_and_flush(write, BufWriter::new(output))
                .with_context(|| format!("cannot write {}", path.display()))?;
            anstream::eprintln!("Wrote {}{}", path.display(), next_step(format));
        }
        None => print(made, format)?,
    }
    Ok(ExitCode::from(if damaged { code::RECORDING } else { 0 }))
}

/// Returns the error for an export without a format: the formats, one line each.
fn without_format() -> anyhow::Error {
    let line = |format: &ExportFormat| {
        let value = format.to_possible_value()?;
        let what = value.get_help()?;
        Some(format!("\n  --format {:<14} {what}", value.get_name()))
    };
    let lines: String = ExportFormat::value_variants()
        .iter()
        .filter_map(line)
        .collect();
    usage(format!("name a format:{lines}"))
}

/// Reads what `filter` selects of each recorder's recordings, and tells whether anything was
/// unreadable.
pub(super) fn parts(
    files: &[PathBuf],
    filter: &RecordingFilter,
    depth: ReadDepth,
) -> anyhow::Result<(Vec<Part>, bool)> {
    let depth = if filter.is_all() {
        depth
    } else {
        // Only the report tells what belongs to a node, a job or a cluster.
        depth.max(ReadDepth::Judged)
    };
    let (groups, mut damaged) = group_by_recorder(files);
    let mut parts = Vec::new();
    for files in groups {
        let (part, told) = Part::read(RecorderEvents::of(files), depth)?;
        for warning in &told.warnings {
            anstream::eprintln!("raytrace: {warning}");
        }
        damaged |= told.damaged;
        parts.extend(part);
    }
    if parts.is_empty() {
        return Err(empty(files.first().map_or(Path::new(""), PathBuf::as_path)));
    }
    if !filter.is_all() {
        parts = select_parts(parts, filter, depth)?;
    }
    Ok((parts, damaged))
}

/// Groups files by recorder, and tells whether a file was left out.
fn group_by_recorder(files: &[PathBuf]) -> (Vec<Vec<PathBuf>>, bool) {
    if let [file] = files {
        return (vec![vec![file.clone()]], false);
    }
    let (outlines, failed) = recording_files::outlines(files);
    for (file, error) in &failed {
        anstream::eprintln!("raytrace: skipped: {}: {error}", file.display());
    }
    let groups = recording::group_by_recorder(outlines).into_iter();
    let groups = groups.map(|group| group.into_iter().map(|file| file.path).collect());
    (groups.collect(), !failed.is_empty())
}

/// Keeps the selected parts, reduced to the selected job.
fn select_parts(
    parts: Vec<Part>,
    filter: &RecordingFilter,
    depth: ReadDepth,
) -> anyhow::Result<Vec<Part>> {
    let reports = parts.iter().map(|part| part.judge.report());
    let report = judge::fleet::join(reports.collect());
    let mut kept = Vec::new();
    for (number, part) in (0..).zip(parts) {
        if filter.job.is_none() && filter.has_recording(&report, number) {
            // All events of this part are wanted, and they have been read.
            kept.push(part);
            continue;
        }
        let Some(events) = recording_filter::of_recording(filter, (&report, number), part.events)?
        else {
            continue;
        };
        let (part, _told_before) = Part::read(events, depth)?;
        kept.extend(part);
    }
    if kept.is_empty() {
        return Err(recording_filter::nothing());
    }
    Ok(kept)
}

fn next_step(format: ExportFormat) -> &'static str {
    match format {
        ExportFormat::ChromeTrace => {
            ": open it in https://ui.perfetto.dev (it stays in your browser)"
        }
        ExportFormat::Flamegraph => ": open it in a browser",
        ExportFormat::Jsonl | ExportFormat::Csv => "",
    }
}

/// The largest `ray timeline` file. Ray writes about 300 bytes for each of at most 100,000 tasks.
const TIMELINE_BYTES: u64 = 1 << 30;

fn ray_timeline(path: &Path) -> anyhow::Result<RayTimeline> {
    let shown = path.display();
    let text = bounded::text(path, TIMELINE_BYTES).map_err(|error| {
        let takes = "--with takes what `ray timeline` writes";
        usage(format!("cannot read {shown}: {error} ({takes})"))
    })?;
    RayTimeline::parse(&text).map_err(|error| usage(format!("--with {shown}: {error}")))
}

/// Prints to stdout. A pipe that the reader closes early is not an error.
fn print(made: Export, format: ExportFormat) -> anyhow::Result<()> {
    let stdout = std::io::stdout();
    if stdout.is_terminal() && format == ExportFormat::ChromeTrace {
        return Err(usage(
            "a trace is too long for a terminal: name a file, -o trace.json",
        ));
    }
    match write_and_flush(made.writer(format)?, BufWriter::new(stdout.lock())) {
        Err(error) if is_closed(&error) => Ok(()),
        written => written.context("cannot write to stdout"),
    }
}

fn is_closed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Writes everything and flushes the output.
fn write_and_flush(write: Writer, mut output: impl Write) -> anyhow::Result<()> {
    write(&mut output)?;
    Ok(output.flush()?)
}

/// A function that writes the export in one format.
type Writer = Box<dyn FnOnce(&mut dyn Write) -> anyhow::Result<()>>;

/// How much of a recording a format needs before its first line is written, in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReadDepth {
    /// The wall clock and the host's name.
    Clock,
    /// The state of the judge after the last event.
    Judged,
    /// The names of processes.
    Names,
    /// The series over time.
    Series,
}

impl ReadDepth {
    fn of(format: ExportFormat) -> Self {
        match format {
            ExportFormat::ChromeTrace => Self::Series,
            ExportFormat::Csv => Self::Names,
            ExportFormat::Flamegraph => Self::Judged,
            ExportFormat::Jsonl => Self::Clock,
        }
    }

    fn judges(self, event: &Event) -> bool {
        let is_clock = matches!(
            event.what,
            Observation::RecordingStarted(_) | Observation::Clock { .. }
        );
        self > Self::Clock || is_clock
    }

    fn draws(self, event: &Event) -> bool {
        self == Self::Series || self == Self::Names && !recorder_events::is_sample(event)
    }
}

/// The events of one recorder.
pub(super) struct Part {
    pub(super) judge: Judge,
    timeline: TimelineBuilder,
    events: RecorderEvents,
}

/// Recordings to convert, and the output of `ray timeline` to merge.
struct Export {
    parts: Vec<Part>,
    ray: Option<RayTimeline>,
}

impl Part {
    /// Reads what the format needs. The part is `None` if there are no events.
    fn read(
        mut events: RecorderEvents,
        depth: ReadDepth,
    ) -> anyhow::Result<(Option<Self>, ReadSummary)> {
        let (mut judge, mut timeline) = (Judge::default(), TimelineBuilder::default());
        let mut last = None;
        let told = events.for_each(|event| {
            if depth.judges(event) {
                judge.observe(event);
            }
            if depth.draws(event) {
                timeline.observe(event);
            }
            last = last.max(Some(event.id));
        })?;
        let part = last.map(|last| {
            events.up_to(last);
            Self {
                judge,
                timeline,
                events,
            }
        });
        Ok((part, told))
    }

    fn host(&self) -> String {
        let report = self.judge.report();
        let first = report.recordings.first();
        first.map_or_else(String::new, |one| sanitize::name(&one.host.name))
    }

    /// Writes what `line` returns for each event, if anything.
    fn lines(
        &self,
        output: &mut dyn Write,
        line: impl Fn(&Event) -> std::io::Result<Option<String>>,
    ) -> anyhow::Result<()> {
        let mut written = Ok(());
        self.events.try_for_each(|event| {
            written = line(event).and_then(|line| match line {
                Some(line) => writeln!(output, "{line}"),
                None => Ok(()),
            });
            if written.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(written?)
    }

    /// Writes JSON lines, with the host's name if there are several hosts.
    fn jsonl(self, host: Option<&str>, output: &mut dyn Write) -> anyhow::Result<()> {
        self.lines(output, |event| {
            Ok(Some(jsonl::line(event, self.judge.wall(event.time), host)?))
        })
    }

    fn csv(mut self, host: Option<&str>, output: &mut dyn Write) -> anyhow::Result<()> {
        let timeline = self.judge.timeline(std::mem::take(&mut self.timeline));
        let processes = timeline.into_iter().flat_map(|timeline| timeline.processes);
        let names: std::collections::HashMap<_, _> = processes
            .map(|process| (process.process.truncated(), words::name_of_series(&process)))
            .collect();
        let name = |process: crate::ids::ProcessKey| {
            names.get(&process.truncated()).cloned().unwrap_or_default()
        };
        let host = host.map(|host| format!("{},", csv::quoted(host)));
        let host = host.as_deref().unwrap_or("");
        self.lines(output, |event| {
            let row = csv::row(event, self.judge.wall(event.time), name);
            Ok(row.map(|row| format!("{host}{row}")))
        })
    }
}

impl Export {
    /// Returns the function that writes the export, or an error if there is nothing to write.
    fn writer(self, format: ExportFormat) -> anyhow::Result<Writer> {
        match format {
            ExportFormat::ChromeTrace => self.trace(),
            ExportFormat::Flamegraph => {
                let svg = self.flamegraph()?;
                Ok(Box::new(move |output| Ok(output.write_all(&svg)?)))
            }
            ExportFormat::Jsonl => Ok(Box::new(move |output| {
                self.write_parts(Part::jsonl, output)
            })),
            ExportFormat::Csv => Ok(Box::new(move |output| {
                let host = if self.parts.len() > 1 { "host," } else { "" };
                writeln!(output, "{host}{}", csv::HEADER)?;
                self.write_parts(Part::csv, output)
            })),
        }
    }

    /// Writes the parts one after the other, each with its host's name if there are several.
    fn write_parts(
        self,
        write: fn(Part, Option<&str>, &mut dyn Write) -> anyhow::Result<()>,
        output: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let several = self.parts.len() > 1;
        let mut parts = self.parts.into_iter();
        parts.try_for_each(|part| {
            let host = several.then(|| part.host());
            write(part, host.as_deref(), output)
        })
    }

    fn trace(self) -> anyhow::Result<Writer> {
        let mut traced = Vec::new();
        for part in self.parts {
            let timeline = part.judge.timeline(part.timeline);
            let timeline =
                timeline.context("the recording has no clock: its beginning is missing")?;
            traced.push((part.judge.report(), timeline));
        }
        let ray = self.ray;
        Ok(Box::new(move |mut output| {
            Ok(trace::write(&traced, ray.as_ref(), &mut output)?)
        }))
    }

    /// Draws the flame graph. If there are several hosts, each is the bottom frame of its stacks.
    fn flamegraph(self) -> anyhow::Result<Vec<u8>> {
        let several = self.parts.len() > 1;
        let mut folded = Vec::new();
        for part in self.parts {
            let own = part.judge.folded();
            let host = several.then(|| part.host());
            folded.extend(own.into_iter().map(|line| match &host {
                Some(host) => format!("{};{line}", host.replace(';', ":")),
                None => line,
            }));
        }
        if folded.is_empty() {
            anyhow::bail!(
                "the recording has no Python stacks: no process grew by 64 MiB, or it was recorded with --no-stacks"
            );
        }
        Ok(flamegraph::render(&folded)?)
    }
}
