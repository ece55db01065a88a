//! Shared by all commands that print a report: selection, format, output and failure conditions.

pub(super) mod output;
#[cfg(test)]
mod redacted_tests;

use std::{
    borrow::Cow,
    io::{IsTerminal as _, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anstream::adapter::strip_str;
use anyhow::Context as _;
use clap::builder::NonEmptyStringValueParser;

use super::{
    code, frameworks, own_path, recording_files::TimeRange, recording_filter::RecordingFilterArgs,
    usage,
};
use crate::{
    ids::WallTime,
    judge::{
        Details,
        report::{Killer, Report, Utc},
    },
    show::{
        Style, fail,
        html::{self, ChartSeries},
        json, limit, markdown,
        redact::{self, KnownNames},
        sanitize,
        select::{Kill, SelectedReport, Selection, select},
        summary, text,
        time::Zone,
        words,
    },
};

/// A list of killers. The alias keeps clap from treating the `Vec` as an option that may be
/// repeated.
type Killers = Vec<Killer>;

/// The forms of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people; colored on a terminal.
    #[default]
    Text,
    /// One object with everything; fields are added, never renamed.
    Json,
    /// At most 60 lines, to paste into an issue or chat.
    Markdown,
    /// One self-contained page for any browser; for recordings, it has a timeline.
    Html,
}

/// Options of every command that prints a report.
#[derive(Debug, Default, clap::Args)]
pub struct ViewArgs {
    /// Output format.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    format: Format,
    /// Print a summary of five lines.
    ///
    /// They are the cause, the line that grew, one fix, its cost, and where to read more.
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    summary: bool,
    /// Write to this file; it must not exist.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Overwrite the output file.
    #[arg(long, requires = "output", help_heading = "Output")]
    force: bool,
    /// Time zone of all times in the output: UTC, +08:00 or Asia/Shanghai.
    #[arg(
        long,
        value_name = "ZONE",
        default_value = "UTC",
        allow_hyphen_values = true,
        help_heading = "Output"
    )]
    tz: Zone,
    /// Also use this table of settings of a framework.
    ///
    /// It may be given several times; docs/reference/frameworks.md has the form.
    #[arg(long = "frameworks", value_name = "FILE.json", help_heading = "Output")]
    frameworks: Vec<PathBuf>,
    /// Redact arguments, names of hosts and users, addresses and paths.
    ///
    /// Names of classes, methods and Python files are kept.
    #[arg(long, help_heading = "Output")]
    redact: bool,
    /// Show one first cause in full: the number after KILL or DEATH.
    ///
    /// '#ID' selects a death by its id in the JSON. Numbers hold for the same files, --since and
    /// --until.
    #[arg(long, value_name = "ID", help_heading = "Selection")]
    kill: Option<Kill>,
    /// Show deaths that match a pid, an id or a name.
    ///
    /// TEXT is a pid of the host or the container, the first 4 or more digits of a worker, actor,
    /// task, job, node or container id, or part of a name.
    #[arg(long = "match", value_name = "TEXT", value_parser = NonEmptyStringValueParser::new(), help_heading = "Selection")]
    matching: Option<String>,
    #[command(flatten)]
    filter: RecordingFilterArgs,
    /// Show deaths after this time: 08:41:07, -10m.
    ///
    /// A time is 08:41:07 (the last time that it was 08:41:07; in UTC, or the zone of --tz),
    /// 2026-11-20T08:41:07Z, or -10m (ten minutes before the end of the recordings).
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Selection"
    )]
    since: Option<String>,
    /// Show deaths before this time.
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Selection"
    )]
    until: Option<String>,
    /// Show everything: do not fold, and list normal exits.
    #[arg(long, help_heading = "Selection")]
    all: bool,
    #[arg(long, help = "Exit with code 8 if a first cause shown was one of these killers [default: memory kills]", long_help = fail::FAIL_ON.as_str(), value_name = "KILLER,…", num_args = 0..=1, default_missing_value = fail::MEMORY_KILLERS.as_str(),
          value_parser = fail::parse_killers, help_heading = "Scripts")]
    fail_on: Option<Killers>,
    /// Exit with code 8 if memory exceeded this share of its nearest limit: 85%.
    ///
    /// Limits are Ray's threshold, a cgroup's limit and the machine.
    #[arg(long, value_name = "PERCENT", help_heading = "Scripts")]
    fail_above: Option<fail::Share>,
}

/// Prints `report` as requested, and returns the exit code.
///
/// `recording` is the file that it was read from, if any. `charts` has the series of each
/// recording, if the format [draws](ViewArgs::draws) them.
pub fn show(
    report: Report,
    charts: Vec<Option<ChartSeries>>,
    recording: Option<&Path>,
    args: &ViewArgs,
) -> anyhow::Result<ExitCode> {
    args.refuse_terminal()?;
    let selection = args.selection(&report)?;
    args.refuse_unknown_filter(&report)?;
    let all = report.deaths.len();
    let shown = select(report, &selection);
    args.refuse_nothing(all, &shown)?;
    let reasons = args.reasons(&shown);
    let mut known = KnownNames::default();
    // The JSON of a month has a hundred megabytes. Only redaction needs all of it at once.
    if args.format == Format::Json && !args.redact {
        let report = &shown.report;
        let json = |mut output: &mut dyn Write| Ok(json::write(report, &mut output)?);
        match &args.output {
            Some(path) => output::write(path, args.force, recording, json)?,
            None => output::print_plain(json)?,
        }
    } else {
        let text;
        (text, known) = args.text(shown, charts, recording)?;
        let plain = |output: &mut dyn Write| write!(output, "{}", strip_str(&text));
        match &args.output {
            Some(path) => output::write(path, args.force, recording, plain)?,
            None => output::print(&text)?,
        }
    }
    for reason in &reasons {
        anstream::eprintln!("raytrace: {}", known.replace_in(reason));
    }
    Ok(if reasons.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(code::FAIL_ON)
    })
}

impl ViewArgs {
    /// Adds the tables of frameworks that were named. It must be called before anything is judged.
    pub(super) fn add_frameworks(&self) -> anyhow::Result<()> {
        frameworks::add(&self.frameworks)
    }

    /// Returns which deaths are shown with all that is known of them, as far as that depends on
    /// the format alone. `--kill` names one by its number among all.
    pub(super) fn details(&self) -> Details {
        let all = matches!(self.format, Format::Json | Format::Html);
        // A text to match may be in the evidence.
        if all || self.matching.is_some() {
            Details::All
        } else {
            Details::none()
        }
    }

    /// Whether one death is shown with all that is known of it.
    pub(super) fn shows_one(&self) -> bool {
        self.kill.is_some()
    }

    /// Returns the deaths that are shown.
    pub(super) fn shown(&self, report: Report) -> anyhow::Result<Details> {
        let selection = self.selection(&report)?;
        let shown = select(report, &selection).report.deaths;
        Ok(Details::Of(shown.iter().map(|death| death.id).collect()))
    }

    /// Returns whether the format shows memory over time.
    pub fn draws(&self) -> bool {
        self.format == Format::Html
    }

    /// Renders the report. Also returns the names that must not appear in the output.
    fn text(
        &self,
        mut shown: SelectedReport,
        mut charts: Vec<Option<ChartSeries>>,
        recording: Option<&Path>,
    ) -> anyhow::Result<(String, KnownNames)> {
        let mut known = KnownNames::default();
        if self.redact {
            let timelines = charts.iter_mut().flatten().map(|one| &mut one.timeline);
            (shown.report, known) =
                redact::redact_with_timelines(&shown.report, timelines, recording);
        }
        let text = self.render(shown, &charts, recording, &known)?;
        // The scripts of a page are the same for every report; only its data may contain names.
        if self.format == Format::Html {
            return Ok((text, known));
        }
        let replaced = match known.replace_in(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(replaced) => Some(replaced),
        };
        Ok((replaced.unwrap_or(text), known))
    }

    /// Returns whether the report is text on stdout, which people read together with messages on
    /// stderr.
    pub(super) fn is_read_on_stdout(&self) -> bool {
        self.format == Format::Text && self.output.is_none()
    }

    /// Refuses what can be known to be wrong before a recording has been read.
    pub(super) fn refuse_early(&self) -> anyhow::Result<()> {
        self.refuse_terminal()?;
        let any = Utc(WallTime(0));
        self.time_range(any, any).map(drop)
    }

    /// Refuses to print an HTML page, which may be a megabyte, to a terminal.
    fn refuse_terminal(&self) -> anyhow::Result<()> {
        if self.draws() && self.output.is_none() && std::io::stdout().is_terminal() {
            let message = "--format html needs a file: -o report.html";
            return Err(usage(message.to_owned()));
        }
        Ok(())
    }

    /// Returns the requested span of time, for recordings from `began` to `ended`.
    pub(super) fn time_range(&self, began: Utc, ended: Utc) -> anyhow::Result<TimeRange> {
        let (since, until) = (self.since.as_deref(), self.until.as_deref());
        TimeRange::parse(&self.tz, since, until, (began, ended))
    }

    fn selection(&self, report: &Report) -> anyhow::Result<Selection> {
        let TimeRange { since, until } = self.range_of(report)?;
        if let (Some(from), Some(to)) = (since, until)
            && from > to
        {
            return Err(usage(format!(
                "--since {} is after --until {}: swap them",
                self.tz.full(from),
                self.tz.full(to)
            )));
        }
        Ok(Selection {
            kill: self.kill,
            matching: self.matching.clone(),
            filter: self.filter.to_filter(),
            since,
            until,
            all: self.all,
        })
    }

    /// Returns `--since` and `--until` as they were typed, with a space before each.
    fn span_options(&self) -> String {
        let option = |name: &str, text: &Option<String>| {
            let text = text.as_deref().map(sanitize::quoted);
            text.map_or_else(String::new, |text| format!(" {name}={text}"))
        };
        option("--since", &self.since) + &option("--until", &self.until)
    }

    /// Returns the requested span of time, for a report.
    fn range_of(&self, report: &Report) -> anyhow::Result<TimeRange> {
        let since = self.since.as_ref().map(|text| ("--since", text));
        let until = self.until.as_ref().map(|text| ("--until", text));
        let Some((option, text)) = since.or(until) else {
            return Ok(TimeRange::default());
        };
        let (began, ended) = bounds(report).ok_or_else(|| {
            let local = report.deaths.iter().any(|death| death.when.stamp.is_some());
            usage(if local {
                format!("{option} {text} needs a time zone: name that of the logs with --log-tz")
            } else {
                format!("{option} {text} needs times, and this report has none: leave it out")
            })
        })?;
        self.time_range(began, ended)
    }

    /// Fails if the requested node, job or cluster does not exist.
    fn refuse_unknown_filter(&self, report: &Report) -> anyhow::Result<()> {
        match self.filter.to_filter().not_found_message(report) {
            Some(message) => Err(usage(message)),
            None => Ok(()),
        }
    }

    /// Fails if a death that was requested by its id or name does not exist among `all`.
    fn refuse_nothing(&self, all: usize, shown: &SelectedReport) -> anyhow::Result<()> {
        if !shown.report.deaths.is_empty() {
            return Ok(());
        }
        if let Some(kill) = self.kill {
            return Err(usage(format!(
                "{}. Leave --kill and other filters out to see all",
                kill.not_found_message(shown.totals.causes)
            )));
        }
        let Some(text) = &self.matching else {
            return Ok(());
        };
        let normal = all - shown.totals.deaths;
        Err(usage(format!(
            "--match: none of {} and {} matches {text:?}, which is compared with pids, the beginnings of ids, and names. List them: --all",
            words::count(shown.totals.deaths, "death", "deaths"),
            words::count(normal, "normal exit", "normal exits")
        )))
    }

    /// Returns the reasons for which a script should see a failure.
    fn reasons(&self, shown: &SelectedReport) -> Vec<String> {
        let when = fail::FailWhen {
            killers: self.fail_on.clone().unwrap_or_default(),
            above: self.fail_above,
        };
        if self.fail_above.is_some() && limit::nearest(&shown.report).is_none() {
            anstream::eprintln!(
                "raytrace: --fail-above was not checked: no memory use was recorded"
            );
        }
        fail::reasons(&shown.report, &when)
    }

    fn render(
        &self,
        shown: SelectedReport,
        charts: &[Option<ChartSeries>],
        recording: Option<&Path>,
        known: &KnownNames,
    ) -> anyhow::Result<String> {
        let file = recording.map(|path| path.display().to_string());
        let width = match self.output {
            Some(_) => output::WIDTH,
            None => output::width(),
        };
        let style = Style {
            width: width.into(),
            zone: self.tz.clone(),
            // The name of a recording contains the host's name.
            file: file.map(|file| if self.redact { "FILE".to_owned() } else { file }),
            span: self.span_options(),
            program: if self.redact {
                "raytrace".to_owned()
            } else {
                own_path::name()
            },
        };
        if self.summary {
            return Ok(summary::text(&shown, &style));
        }
        Ok(match self.format {
            Format::Text => text::render(&shown, &style),
            Format::Json => json::render(&shown.report).context("cannot write the JSON")?,
            Format::Markdown => markdown::render(&shown, &style),
            Format::Html => html::render(shown, &style, charts, known)
                .context("cannot write the page's data")?,
        })
    }
}

/// Returns the span of time of the recordings, or else of the deaths.
fn bounds(report: &Report) -> Option<(Utc, Utc)> {
    let recordings = report.recordings.iter();
    let recordings = recordings.flat_map(|recording| [recording.started, recording.ended]);
    let mut times: Vec<Utc> = recordings.collect();
    if times.is_empty() {
        times.extend(report.deaths.iter().filter_map(|death| death.when.time));
    }
    Some((*times.iter().min()?, *times.iter().max()?))
}
