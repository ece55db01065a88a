//! `raytrace export`: a recording for other programs.

use std::{
    io::{BufWriter, ErrorKind, IsTerminal as _, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;

use super::{
    Failure, code,
    report::{empty, newest},
    view::output,
};
use crate::{
    bounded,
    event::Event,
    judge::Judge,
    recording,
    show::{
        csv, flamegraph, jsonl,
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

Exit codes:
  0  success
  2  a file is missing, or the options do not fit
  6  the recording is damaged or from a newer raytrace

Columns and kinds: docs/reference/format.md")]
pub struct ExportArgs {
    /// Recording [default: the newest in this folder, else in /var/lib/raytrace].
    file: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    format: ExportFormat,
    /// Merge with the output of `ray timeline` (chrome-trace only).
    #[arg(long, value_name = "RAY.json", help_heading = "Input")]
    with: Option<PathBuf>,
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
    let file = match &args.file {
        Some(file) => file.clone(),
        None => newest()?,
    };
    let ray = args.with.as_deref().map(ray_timeline).transpose()?;
    let read = recording::read(&file)?;
    if read.events.is_empty() {
        return Err(empty(&file));
    }
    for warning in &read.warnings {
        anstream::eprintln!("raytrace: {warning}");
    }
    let mut judge = Judge::default();
    for event in &read.events {
        judge.observe(event);
    }
    let made = Export {
        judge,
        events: &read.events,
        ray,
    };
    match &args.output {
        Some(path) => {
            // What cannot be made leaves no file.
            let write = made.writer(args.format)?;
            let output = output::create(path, args.force, Some(&file))?;
            finished(write, BufWriter::new(output))
                .with_context(|| format!("cannot write {}", path.display()))?;
            anstream::eprintln!("Wrote {}{}", path.display(), next(args.format));
        }
        None => print(&made, args.format)?,
    }
    Ok(ExitCode::from(if read.damaged {
        code::RECORDING
    } else {
        0
    }))
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
    let text = bounded::text(path, TIMELINE_BYTES)
        .with_context(|| format!("cannot read --with {shown}; make it: ray timeline"))?;
    RayTimeline::parse(&text).map_err(|error| usage(&format!("--with {shown}: {error}")))
}

/// Whoever closes the pipe early has seen enough.
fn print(made: &Export<'_>, format: ExportFormat) -> anyhow::Result<()> {
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

/// A recording that is turned into something else.
struct Export<'a> {
    judge: Judge,
    events: &'a [Event],
    ray: Option<RayTimeline>,
}

impl Export<'_> {
    /// What writes it, where there is something to write.
    fn writer(&self, format: ExportFormat) -> anyhow::Result<Writer<'_>> {
        Ok(match format {
            ExportFormat::ChromeTrace => {
                let timeline = self.judge.timeline(self.events);
                let timeline =
                    timeline.context("the recording holds no clock: its beginning is missing")?;
                Box::new(move |mut output| {
                    let report = self.judge.report();
                    trace::write(&report, &timeline, self.ray.as_ref(), &mut output)
                })
            }
            ExportFormat::Flamegraph => {
                let svg = self.flamegraph()?;
                Box::new(move |output| output.write_all(&svg))
            }
            ExportFormat::Jsonl => Box::new(|output| self.jsonl(output)),
            ExportFormat::Csv => Box::new(|output| self.csv(output)),
        })
    }

    fn flamegraph(&self) -> anyhow::Result<Vec<u8>> {
        let folded = self.judge.folded();
        if folded.is_empty() {
            anyhow::bail!(
                "the recording holds no Python stacks: nothing that was watched grew by 64 MiB, or it was recorded with --no-stacks"
            );
        }
        Ok(flamegraph::render(&folded)?)
    }

    fn jsonl(&self, output: &mut dyn Write) -> std::io::Result<()> {
        for event in self.events {
            let line = jsonl::line(event, self.judge.wall(event.time))?;
            writeln!(output, "{line}")?;
        }
        Ok(())
    }

    fn csv(&self, output: &mut dyn Write) -> std::io::Result<()> {
        let timeline = self.judge.timeline(self.events);
        let processes = timeline.into_iter().flat_map(|timeline| timeline.processes);
        let names: std::collections::HashMap<_, _> = processes
            .map(|process| (process.process.truncated(), words::name_of_series(&process)))
            .collect();
        let name = |process: crate::ids::ProcessKey| {
            names.get(&process.truncated()).cloned().unwrap_or_default()
        };
        writeln!(output, "{}", csv::HEADER)?;
        for event in self.events {
            if let Some(row) = csv::row(event, self.judge.wall(event.time), name) {
                writeln!(output, "{row}")?;
            }
        }
        Ok(())
    }
}
