//! Says which texts were read, if a report is made from texts.

use crate::{
    judge::{
        cause::Cause,
        report::{Death, TextSource},
    },
    path, phrase,
    show::{sanitize, time::offset_name, view::View, words},
};

/// Maximum number of texts that are named.
const MAX_TEXTS: usize = 6;
/// Maximum number of texts of one clock that are named.
const MAX_CLOCK_NAMES: usize = 2;
/// Says how to print times that can be compared. Times of syslog have no year.
const NO_TIMES: &str = "no times with a year. The kernel's log has them with journalctl -k -o short-iso-precise, or dmesg --time-format=iso";

/// Returns lines about the texts that were read, and about their clocks. Empty if the report is of
/// recordings.
pub(super) fn lines(view: &View<'_>) -> Vec<String> {
    let texts = &view.shown.report.texts;
    if texts.is_empty() {
        return Vec::new();
    }
    let lines: u64 = texts.iter().map(|text| text.lines).sum();
    let base = |name: &str| sanitize::name(path::base(name));
    let mut names: Vec<String> = texts
        .iter()
        .take(MAX_TEXTS)
        .map(|text| base(&text.name))
        .collect();
    if texts.len() > MAX_TEXTS {
        names.push(format!("and {} more", texts.len() - MAX_TEXTS));
    }
    let mut all = vec![format!(
        "{}: {} {}. From logs only: nothing here is PROVEN",
        names.join(" "),
        words::thousands(lines),
        if lines == 1 { "line" } else { "lines" }
    )];
    let clock = |text: &TextSource| match text.utc_offset_s {
        Some(offset) => format!("UTC{} ({})", offset_name(offset), text.clock),
        None => text.clock.clone(),
    };
    let timed = texts
        .iter()
        .filter(|text| text.lines > 0 && text.clock != "no times");
    let clocks = words::grouped(timed.map(|text| (clock(text), base(&text.name)))).into_iter();
    // `raylet.out and 12 more: local times, …`.
    let told =
        clocks.map(|(clock, names)| format!("{}: {clock}", phrase::first(&names, MAX_CLOCK_NAMES)));
    let mut clocks: Vec<String> = told.collect();
    let mut deaths = view.shown.report.deaths.iter();
    // Other programs that report an OOM kill have clocks of their own.
    let by_kernel = |death: &Death| matches!(&death.verdict.cause, Cause::KernelOom(oom) if oom.reported_by.is_none());
    if clocks.is_empty() && deaths.any(by_kernel) {
        clocks.push(NO_TIMES.to_owned());
    }
    if !clocks.is_empty() {
        all.push(format!("Clocks: {}", clocks.join("; ")));
    }
    all
}
