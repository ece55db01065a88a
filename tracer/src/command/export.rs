//! `raytrace export`: one or several recordings for other programs.

use std::{
    io::{BufWriter, ErrorKind, IsTerminal as _, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;

use super::{
    Failure, code, fleet,
    only::{self, OnlyArgs},
    report::{empty, newest},
    view::output,
};
use crate::{
    bounded,
    event::Event,
    judge::{self, Judge, timeline::Timeline},
    recording,
    show::{
        csv, flamegraph, jsonl,
        only::Only,
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
    /// Lines of Python that grew memory, as an SVG; width is growth.
    Flamegraph,
    /// Memory samples, for a spreadsheet or a data frame.
    Csv,
}

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
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
    /// Recordings, or folders of them [default: the newest in this folder, else in /var/lib/raytrace].
    files: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    format: ExportFormat,
    /// Merge with the output of `ray timeline` (chrome-trace only).
    #[arg(long, value_name = "RAY.json", help_heading = "Input")]
    with: Option<PathBuf>,
    #[command(flatten)]
    only: OnlyArgs,
    /// Write to this file instead of stdout; it must not exist.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Overwrite the output file.
    #[arg(long, requires = "output", help_heading = "Output")]
    force: bool,
}

/// Runs it.
pub fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    if args.with.is_some() && args.format != ExportFormat::ChromeTrace {
        return Err(usage("--with is for --format chrome-trace: leave it out"));
    }
    let files = match args.files.as_slice() {
        [] => vec![newest()?],
        named => fleet::expand(named)?,
    };
    let ray = args.with.as_deref().map(ray_timeline).transpose()?;
    let (parts, damaged) = parts(&files)?;
    let parts = chosen(parts, &args.only.only())?;
    let made = Export { parts, ray };
    match &args.output {
        Some(path) => {
            // What cannot be made leaves no file.
            let write = made.writer(args.format)?;
            let output = output::create(path, args.force, files.first().map(PathBuf::as_path))?;
            finished(write, BufWriter::new(output))
                .with_context(|| format!("cannot write {}", path.display()))?;
            anstream::eprintln!("Wrote {}{}", path.display(), next(args.format));
        }
        None => print(&made, args.format)?,
    }
    Ok(ExitCode::from(if damaged { code::RECORDING } else { 0 }))
}

/// The parts that are asked for, and of each what is.
pub(super) fn chosen(parts: Vec<Part>, only: &Only) -> anyhow::Result<Vec<Part>> {
    if only.is_all() {
        return Ok(parts);
    }
    let reports = parts.iter().map(|part| part.judge.report());
    let report = judge::fleet::join(reports.collect());
    let mut kept = Vec::new();
    for (number, part) in (0..).zip(parts) {
        if let Some(events) = only::of_recording(only, (&report, number), part.events)? {
            kept.push(Part::of(events));
        }
    }
    if kept.is_empty() {
        return Err(only::nothing());
    }
    Ok(kept)
}

/// Each recorder's recordings, and whether something of them cannot be read.
pub(super) fn parts(files: &[PathBuf]) -> anyhow::Result<(Vec<Part>, bool)> {
    if let [file] = files {
        let read = recording::read(file)?;
        if read.events.is_empty() {
            return Err(empty(file));
        }
        for warning in &read.warnings {
            anstream::eprintln!("raytrace: {warning}");
        }
        return Ok((vec![Part::of(read.events)], read.damaged));
    }
    let (outlines, failed) = fleet::outlines(files);
    let mut damaged = !failed.is_empty();
    for (file, error) in &failed {
        anstream::eprintln!("raytrace: left out: {}: {error}", file.display());
    }
    let mut parts = Vec::new();
    for group in recording::by_recorder(outlines) {
        let files: Vec<PathBuf> = group.into_iter().map(|file| file.path).collect();
        let mut events = Vec::new();
        let told = recording::parts_in_batches(&files, |batch| events.extend(batch))?;
        for warning in &told.warnings {
            anstream::eprintln!("raytrace: {warning}");
        }
        damaged |= told.damaged;
        if !events.is_empty() {
            parts.push(Part::of(events));
        }
    }
    if parts.is_empty() {
        return Err(empty(files.first().map_or(Path::new(""), PathBuf::as_path)));
    }
    Ok((parts, damaged))
}

fn usage(message: &str) -> anyhow::Error {
    let message = message.to_owned();
    Failure {
        code: code::USAGE,
        message,
    }
    .into()
}

fn next(format: ExportFormat) -> &'static str {
    match format {
        ExportFormat::ChromeTrace => {
            ": open it in https://ui.perfetto.dev (it stays in your browser)"
        }
        ExportFormat::Flamegraph => ": open it in a browser",
        ExportFormat::Jsonl | ExportFormat::Csv => "",
    }
}

/// Ray writes some 300 bytes a task, of 100,000 tasks at most.
const TIMELINE_BYTES: u64 = 1 << 30;

fn ray_timeline(path: &Path) -> anyhow::Result<RayTimeline> {
    let shown = path.display();
    let text = bounded::text(path, TIMELINE_BYTES).map_err(|error| {
        let takes = "--with takes what `ray timeline` writes";
        usage(&format!("cannot read {shown}: {error} ({takes})"))
    })?;
    RayTimeline::parse(&text).map_err(|error| usage(&format!("--with {shown}: {error}")))
}

/// Whoever closes the pipe early has seen enough.
fn print(made: &Export, format: ExportFormat) -> anyhow::Result<()> {
    let stdout = std::io::stdout();
    if stdout.is_terminal() && format == ExportFormat::ChromeTrace {
        return Err(usage(
            "a trace is not for a terminal: name a file, -o trace.json",
        ));
    }
    match finished(made.writer(format)?, BufWriter::new(stdout.lock())) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to stdout"),
    }
}

/// Writes all of it.
fn finished(write: Writer<'_>, mut output: impl Write) -> std::io::Result<()> {
    write(&mut output)?;
    output.flush()
}

/// Writes a recording in one of its forms.
type Writer<'a> = Box<dyn FnOnce(&mut dyn Write) -> std::io::Result<()> + 'a>;

/// What one recorder saw.
pub(super) struct Part {
    pub(super) judge: Judge,
    events: Vec<Event>,
}

/// Recordings that are turned into something else.
struct Export {
    parts: Vec<Part>,
    ray: Option<RayTimeline>,
}

impl Part {
    fn of(events: Vec<Event>) -> Self {
        let mut judge = Judge::default();
        for event in &events {
            judge.observe(event);
        }
        Self { judge, events }
    }

    fn host(&self) -> String {
        let report = self.judge.report();
        let first = report.recordings.first();
        first.map_or_else(String::new, |one| sanitize::name(&one.host.name))
    }

    fn timeline(&self) -> anyhow::Result<Timeline> {
        let timeline = self.judge.timeline(&self.events);
        timeline.context("the recording holds no clock: its beginning is missing")
    }

    /// With the host's name where there are several.
    fn jsonl(&self, host: Option<&str>, output: &mut dyn Write) -> std::io::Result<()> {
        for event in &self.events {
            let line = jsonl::line(event, self.judge.wall(event.time), host)?;
            writeln!(output, "{line}")?;
        }
        Ok(())
    }

    fn csv(&self, host: Option<&str>, output: &mut dyn Write) -> std::io::Result<()> {
        let timeline = self.judge.timeline(&self.events);
        let processes = timeline.into_iter().flat_map(|timeline| timeline.processes);
        let names: std::collections::HashMap<_, _> = processes
            .map(|process| (process.process.truncated(), words::name_of_series(&process)))
            .collect();
        let name = |process: crate::ids::ProcessKey| {
            names.get(&process.truncated()).cloned().unwrap_or_default()
        };
        let host = host.map(|host| format!("{},", csv::quoted(host)));
        let host = host.as_deref().unwrap_or("");
        for event in &self.events {
            if let Some(row) = csv::row(event, self.judge.wall(event.time), name) {
                writeln!(output, "{host}{row}")?;
            }
        }
        Ok(())
    }
}

impl Export {
    /// The name of each part's host; of one alone none is told.
    fn hosts(&self) -> Vec<Option<String>> {
        let several = self.parts.len() > 1;
        let hosts = self.parts.iter();
        hosts.map(|part| several.then(|| part.host())).collect()
    }

    /// What writes it, where there is something to write.
    fn writer(&self, format: ExportFormat) -> anyhow::Result<Writer<'_>> {
        let hosts = self.hosts();
        let each = |write: fn(&Part, Option<&str>, &mut dyn Write) -> std::io::Result<()>| {
            move |output: &mut dyn Write| {
                let mut parts = self.parts.iter().zip(&hosts);
                parts.try_for_each(|(part, host)| write(part, host.as_deref(), output))
            }
        };
        Ok(match format {
            ExportFormat::ChromeTrace => {
                let mut traced = Vec::new();
                for part in &self.parts {
                    traced.push((part.judge.report(), part.timeline()?));
                }
                Box::new(move |mut output| trace::write(&traced, self.ray.as_ref(), &mut output))
            }
            ExportFormat::Flamegraph => {
                let svg = self.flamegraph()?;
                Box::new(move |output| output.write_all(&svg))
            }
            ExportFormat::Jsonl => Box::new(each(Part::jsonl)),
            ExportFormat::Csv => {
                let several = self.parts.len() > 1;
                let rows = each(Part::csv);
                Box::new(move |output| {
                    writeln!(
                        output,
                        "{}{}",
                        if several { "host," } else { "" },
                        csv::HEADER
                    )?;
                    rows(output)
                })
            }
        })
    }

    /// Of several hosts each is a frame below its stacks.
    fn flamegraph(&self) -> anyhow::Result<Vec<u8>> {
        let mut folded = Vec::new();
        for (part, host) in self.parts.iter().zip(self.hosts()) {
            let own = part.judge.folded();
            folded.extend(own.into_iter().map(|line| match &host {
                Some(host) => format!("{};{line}", host.replace(';', ":")),
                None => line,
            }));
        }
        if folded.is_empty() {
            anyhow::bail!(
                "the recording holds no Python stacks: nothing that was watched grew by 64 MiB, or it was recorded with --no-stacks"
            );
        }
        Ok(flamegraph::render(&folded)?)
    }
}
