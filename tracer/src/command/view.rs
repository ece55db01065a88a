//! What every command that prints a report shares: which deaths, in which form, to where, and when it is a failure.

pub(super) mod output;

use std::{
    io::IsTerminal as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::builder::NonEmptyStringValueParser;

use super::{Failure, code};
use crate::{
    judge::{
        report::{Killer, Report, Utc},
        timeline::Timeline,
    },
    show::{
        Style, fail, html, json, limit, markdown, redact,
        select::{Kill, Selection, Shown, select},
        text,
        time::Zone,
    },
};

/// A list of killers; by another name, because clap takes a plain `Vec` for an option that is given many times.
type Killers = Vec<Killer>;

/// The forms of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people, in colour on a terminal.
    #[default]
    Text,
    /// One object with everything; fields are added, never renamed.
    Json,
    /// At most 60 lines, to paste into an issue or a chat.
    Markdown,
    /// One page with the timeline, for any browser, without a network.
    Html,
}

/// Options of every command that prints a report.
#[derive(Debug, Default, clap::Args)]
pub struct ViewArgs {
    /// The form.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Form"
    )]
    format: Format,
    /// Write to this file, which must not exist.
    #[arg(short, long, value_name = "OUTPUT", help_heading = "Form")]
    output: Option<PathBuf>,
    /// Overwrite the file of -o.
    #[arg(long, requires = "output", help_heading = "Form")]
    force: bool,
    /// Zone of all times: UTC, +08:00, Asia/Shanghai.
    #[arg(
        long,
        value_name = "ZONE",
        default_value = "UTC",
        hide_default_value = true,
        allow_hyphen_values = true,
        help_heading = "Form"
    )]
    tz: Zone,
    /// Take out arguments, host and user names, addresses and paths; names of classes and methods stay.
    #[arg(long, help_heading = "Form")]
    redact: bool,
    /// One first cause in full: its number after KILL or DEATH, or #ID with a death's id from the JSON.
    #[arg(long, value_name = "ID", help_heading = "Which deaths")]
    kill: Option<Kill>,
    /// Deaths with this in them: a pid of the host or the container, the beginning of a worker, actor, task, job, node or
    /// container id (4 digits or more), or a part of a name.
    #[arg(long = "match", value_name = "TEXT", value_parser = NonEmptyStringValueParser::new(), help_heading = "Which deaths")]
    matching: Option<String>,
    /// Deaths from then on: 08:41:07, 2026-11-20T08:41:07Z, or -10m for the last ten minutes.
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Which deaths"
    )]
    since: Option<String>,
    /// Deaths up to then.
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Which deaths"
    )]
    until: Option<String>,
    /// Fold nothing and list normal exits too.
    #[arg(long, help_heading = "Which deaths")]
    all: bool,
    /// Exit with 8 when one of these is the first cause of a death that is shown; without a list kernel-oom-memcg,
    /// kernel-oom-global and ray-memory-monitor. Others: ray-intended, ray-collapse, kernel-other, signal, crash, exit, unknown.
    #[arg(long, value_name = "KILLER,…", num_args = 0..=1, default_missing_value = "kernel-oom-memcg,kernel-oom-global,ray-memory-monitor",
          value_parser = fail::parse_killers, help_heading = "For scripts")]
    fail_on: Option<Killers>,
    /// Exit with 8 when memory went above this share of its nearest limit (Ray's threshold, a cgroup, the machine): 85%.
    #[arg(long, value_name = "PERCENT", help_heading = "For scripts")]
    fail_above: Option<fail::Share>,
}

/// Prints `report` as asked, and says whether it is a failure. `recording` is the file it was read from, if one, and
/// `timeline` its series, where the form [draws](ViewArgs::draws) them.
pub fn show(
    report: &Report,
    timeline: Option<Timeline>,
    recording: Option<&Path>,
    args: &ViewArgs,
) -> anyhow::Result<ExitCode> {
    args.refuse_terminal()?;
    let selection = args.selection(report)?;
    let mut shown = select(report, &selection);
    args.refuse_nothing(report, &shown)?;
    let reasons = args.reasons(&shown);
    let mut timeline = timeline;
    if args.redact {
        (shown.report, timeline) = redact::redact_both(&shown.report, timeline, recording);
    }
    let text = args.render(&shown, timeline.as_ref(), recording)?;
    match &args.output {
        Some(path) => output::write(path, args.force, recording, &text)?,
        None => output::print(&text)?,
    }
    for reason in &reasons {
        anstream::eprintln!("raytrace: {reason}");
    }
    Ok(if reasons.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(code::FAIL_ON)
    })
}

fn usage(message: String) -> anyhow::Error {
    let code = code::USAGE;
    Failure { code, message }.into()
}

impl ViewArgs {
    /// Whether the form shows memory over time.
    #[must_use]
    pub fn draws(&self) -> bool {
        self.format == Format::Html
    }

    /// A page of a megabyte is not for a terminal.
    fn refuse_terminal(&self) -> anyhow::Result<()> {
        if self.draws() && self.output.is_none() && std::io::stdout().is_terminal() {
            let message = "--format html is for a browser: name a file, -o report.html";
            return Err(usage(message.to_owned()));
        }
        Ok(())
    }

    fn selection(&self, report: &Report) -> anyhow::Result<Selection> {
        let (since, until) = (
            self.moment("--since", self.since.as_deref(), report)?,
            self.moment("--until", self.until.as_deref(), report)?,
        );
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
            since,
            until,
            all: self.all,
        })
    }

    fn moment(
        &self,
        option: &str,
        text: Option<&str>,
        report: &Report,
    ) -> anyhow::Result<Option<Utc>> {
        let Some(text) = text else {
            return Ok(None);
        };
        let (began, ended) = bounds(report).ok_or_else(|| {
            usage(format!(
                "{option} {text}: no time is known here, leave it out"
            ))
        })?;
        let moment = self.tz.parse(text, began, ended);
        moment
            .map(Some)
            .map_err(|error| usage(format!("{option}: {error}")))
    }

    /// What was asked for by its id must be there.
    fn refuse_nothing(&self, report: &Report, shown: &Shown) -> anyhow::Result<()> {
        if !shown.report.deaths.is_empty() {
            return Ok(());
        }
        if let Some(kill) = self.kill {
            let asked = match kill {
                Kill::Number(number) => format!("no first cause has the number {number}"),
                Kill::Id(id) => format!("no death has the id #{}", id.0),
            };
            let known = match shown.totals.0 {
                0 => "there is none".to_owned(),
                1 => "there is one, --kill 1".to_owned(),
                last => format!("there are 1 to {last}"),
            };
            return Err(usage(format!(
                "--kill: {asked}; {known}. Leave --kill and other filters out to see all"
            )));
        }
        let Some(text) = &self.matching else {
            return Ok(());
        };
        Err(usage(format!(
            "--match: none of {} deaths has {text:?} as a pid, the beginning of an id, or in its name: it did not die here, or under another id. List them: --all",
            report.deaths.len()
        )))
    }

    /// Why this is a failure for a script.
    fn reasons(&self, shown: &Shown) -> Vec<String> {
        let when = fail::FailWhen {
            killers: self.fail_on.clone().unwrap_or_default(),
            above: self.fail_above,
        };
        if self.fail_above.is_some() && limit::nearest(&shown.report).is_none() {
            anstream::eprintln!(
                "raytrace: --fail-above was not judged: no use of memory was recorded"
            );
        }
        fail::reasons(&shown.report, &when)
    }

    fn render(
        &self,
        shown: &Shown,
        timeline: Option<&Timeline>,
        recording: Option<&Path>,
    ) -> anyhow::Result<String> {
        let file = recording.map(|path| path.display().to_string());
        let width = match self.output {
            Some(_) => output::WIDTH,
            None => output::width(),
        };
        let style = Style {
            width: width.into(),
            zone: self.tz.clone(),
            // A recording is named after its host.
            file: file.map(|file| if self.redact { "FILE".to_owned() } else { file }),
        };
        Ok(match self.format {
            Format::Text => text::render(shown, &style),
            Format::Json => json::render(&shown.report).context("cannot write the JSON")?,
            Format::Markdown => markdown::render(shown, &style),
            Format::Html => {
                html::render(shown, &style, timeline).context("cannot write the page's data")?
            }
        })
    }
}

/// From when to when the report reaches: its recordings, else its deaths.
fn bounds(report: &Report) -> Option<(Utc, Utc)> {
    let recordings = report.recordings.iter();
    let recordings = recordings.flat_map(|recording| [recording.started, recording.ended]);
    let mut times: Vec<Utc> = recordings.collect();
    if times.is_empty() {
        times.extend(report.deaths.iter().filter_map(|death| death.time));
    }
    Some((*times.iter().min()?, *times.iter().max()?))
}
