//! Holds what every part of a view needs: the chosen deaths and the style.

use crate::{
    judge::report::{Death, Report, Utc},
    show::{Style, sanitize, select::SelectedReport},
};

/// The chosen deaths, and the style in which they are shown.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// What is shown.
    pub shown: &'a SelectedReport,
    /// The style.
    pub style: &'a Style,
    /// Whether times need their date: the report spans several days, or is of logs, whose head shows
    /// no time.
    dated: bool,
}

impl<'a> View<'a> {
    /// Makes the view of `shown`.
    pub fn new(shown: &'a SelectedReport, style: &'a Style) -> Self {
        Self {
            shown,
            style,
            dated: !shown.report.texts.is_empty() || spans_days(&shown.report, style),
        }
    }

    /// Returns how many things are shown where there are usually this many at most.
    pub fn at_most(&self, usual: usize) -> usize {
        if self.shown.all { usize::MAX } else { usual }
    }

    /// Returns whether times have their date.
    pub fn is_dated(&self) -> bool {
        self.dated
    }

    /// Returns a command in which `sudo raytrace` is replaced by what works here.
    pub fn adapt_command(&self, text: &str) -> String {
        let program = format!("sudo {}", self.style.program);
        text.replace("sudo raytrace", &program)
    }

    /// Returns when a death happened. If the zone of a text is not known, the time is as the text
    /// prints it.
    pub fn death_time(&self, death: &Death) -> String {
        let known = death.when.time.or(death.when.exit_time);
        match (known, &death.when.stamp) {
            (None, Some(stamp)) => sanitize::name(stamp),
            _ => self.time(known),
        }
    }

    /// Formats the same in whole seconds.
    pub fn death_second(&self, death: &Death) -> String {
        let zone = &self.style.zone;
        match death.when.time.or(death.when.exit_time) {
            Some(time) if !self.dated => zone.seconds(time),
            Some(time) => format!("{} {}", zone.date(time), zone.seconds(time)),
            None => self.death_time(death),
        }
    }

    /// Formats a time of day, with its date if that is needed.
    pub fn time(&self, time: Option<Utc>) -> String {
        let zone = &self.style.zone;
        match time {
            None => "time unknown".to_owned(),
            Some(time) if self.dated => format!("{} {}", zone.date(time), zone.clock(time)),
            Some(time) => zone.clock(time),
        }
    }
}

fn spans_days(report: &Report, style: &Style) -> bool {
    let mut days = report
        .recordings
        .iter()
        .flat_map(|recording| [recording.started, recording.ended])
        .chain(report.deaths.iter().filter_map(|death| death.when.time))
        .map(|time| style.zone.date(time));
    let first = days.next();
    days.any(|day| Some(day) != first)
}
