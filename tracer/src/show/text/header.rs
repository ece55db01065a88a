//! The first lines: which machine, which time, how it was observed, what was missed, and how many deaths there are.

use owo_colors::Style as Colour;

use super::View;
use crate::{
    event::{Mode, ProbeState},
    judge::report::{Recording, Report},
    show::{
        Style,
        causes::Cause,
        layout::Page,
        sanitize,
        size::{gib, of, percent, size},
        time::offset_name,
        words,
    },
};

/// Whether times need their date.
pub(super) fn spans_days(report: &Report, style: &Style) -> bool {
    let mut days = report
        .recordings
        .iter()
        .flat_map(|recording| [recording.started, recording.ended])
        .chain(report.deaths.iter().filter_map(|death| death.time))
        .map(|time| style.zone.date(time));
    let first = days.next();
    days.any(|day| Some(day) != first)
}

/// One line per recording, and a line for each thing that it missed.
pub(super) fn write(view: &View<'_>, page: &mut Page) {
    for recording in &view.shown.report.recordings {
        page.paragraph("", Colour::new(), &recording_line(view, recording), 2);
        for probe in &recording.probes {
            if probe.state != ProbeState::Ok {
                warn(page, &probe_line(probe));
            }
        }
        if recording.lost_events > 0 {
            warn(page, &loss_line(recording));
        }
        if !recording.clean_end {
            warn(
                page,
                "the recorder did not end cleanly: the times up to its last event are shown",
            );
        }
    }
}

fn warn(page: &mut Page, text: &str) {
    page.paragraph("! ", Colour::new().yellow().bold(), text, 2);
}

fn recording_line(view: &View<'_>, recording: &Recording) -> String {
    let mut parts = vec![
        sanitize::name(&recording.host.name),
        format!("Linux {}", sanitize::name(&recording.host.kernel)),
    ];
    parts.extend(ray_versions(&view.shown.report, recording.id));
    parts.push(time_range(view, recording));
    parts.push(observed(recording));
    parts.extend(log_zone(&view.shown.report, recording.id));
    parts.join(" · ")
}

fn ray_versions(report: &Report, recording: u32) -> Option<String> {
    let mut versions: Vec<String> = report
        .clusters
        .iter()
        .filter(|cluster| cluster.recording_id == recording)
        .filter_map(|cluster| cluster.ray_version.as_deref())
        .map(sanitize::name)
        .collect();
    versions.dedup();
    (!versions.is_empty()).then(|| format!("Ray {}", versions.join(", ")))
}

fn time_range(view: &View<'_>, recording: &Recording) -> String {
    let zone = &view.style.zone;
    let (started, ended) = (recording.started, recording.ended);
    if zone.date(started) == zone.date(ended) {
        format!(
            "{} {}–{}",
            zone.date(started),
            zone.seconds(started),
            zone.seconds(ended)
        )
    } else {
        format!("{} – {}", zone.full(started), zone.full(ended))
    }
}

fn observed(recording: &Recording) -> String {
    let working = recording
        .probes
        .iter()
        .filter(|probe| probe.state != ProbeState::Missing)
        .count();
    let total = recording.probes.len();
    let lost = words::thousands(recording.lost_events);
    match recording.mode {
        Mode::Ebpf => format!("mode ebpf, {working}/{total} probes, {lost} lost"),
        Mode::Procfs => format!("mode procfs (nothing can be proven), {lost} lost"),
    }
}

fn log_zone(report: &Report, recording: u32) -> Option<String> {
    let offset = report
        .clusters
        .iter()
        .filter(|cluster| cluster.recording_id == recording)
        .find_map(|cluster| cluster.log_utc_offset_s)?;
    Some(if offset == 0 {
        "Ray's logs are UTC".to_owned()
    } else {
        format!("Ray's logs are UTC{}", offset_name(offset))
    })
}

fn probe_line(probe: &crate::event::Probe) -> String {
    let name = sanitize::name(&probe.name);
    let reason = probe.reason.as_deref().unwrap_or("no reason given");
    let reason = sanitize::line(reason, sanitize::EVIDENCE);
    match probe.state {
        ProbeState::Missing => format!("probe {name} is missing: {reason}"),
        ProbeState::Degraded | ProbeState::Ok => format!("probe {name} sees less: {reason}"),
    }
}

fn loss_line(recording: &Recording) -> String {
    let hooks: Vec<String> = recording
        .ledgers
        .iter()
        .filter(|ledger| ledger.lost() > 0)
        .map(|ledger| {
            let hook = sanitize::name(&ledger.hook);
            format!("{hook} {}", words::thousands(ledger.lost()))
        })
        .collect();
    let lost = words::thousands(recording.lost_events);
    let by_hook = if hooks.is_empty() {
        String::new()
    } else {
        format!(" ({})", hooks.join(", "))
    };
    format!("{lost} events were lost{by_hook}: deaths may be missing or judged on less")
}

/// How many first causes and deaths there are; without any, the peak.
pub(super) fn counts(view: &View<'_>, page: &mut Page, causes: &[Cause<'_>]) {
    let shown = view.shown;
    let normal: u64 = shown
        .report
        .recordings
        .iter()
        .map(|recording| recording.normal_exits)
        .sum();
    if shown.totals.0 == 0 {
        page.paragraph("", Colour::new(), &no_kills(view), 2);
    }
    if shown.filtered && causes.is_empty() {
        let text = "no death matches; without --kill, --match, --since and --until all are shown";
        page.paragraph("", Colour::new(), text, 2);
    }
    let mut parts: Vec<String> = Vec::new();
    if shown.totals.0 > 0 {
        parts.push(words::count(shown.totals.0, "first cause", "first causes"));
        parts.push(words::count(shown.totals.1, "death", "deaths"));
    }
    if normal > 0 && !shown.all {
        let exits = words::count(
            usize::try_from(normal).unwrap_or(usize::MAX),
            "normal exit",
            "normal exits",
        );
        parts.push(format!("{exits} not listed (--all)"));
    }
    let mut text = parts.join(", ");
    if shown.filtered && !causes.is_empty() {
        text.push_str(&format!("; {} of {} shown", causes.len(), shown.totals.0));
    }
    if !text.is_empty() {
        page.paragraph("", Colour::new(), &text, 2);
    }
    let memory = causes
        .iter()
        .any(|cause| words::is_memory_kill(cause.death.verdict.killer));
    if shown.totals.0 > 0 && !memory && !shown.filtered {
        let text = format!("No kill for memory.{}", peak(view));
        page.paragraph("", Colour::new(), &text, 2);
    }
}

fn no_kills(view: &View<'_>) -> String {
    format!("0 kills.{}", peak(view))
}

/// ` Peak 152.3 of 188.0 GiB (81.0 %) at 07:12:40Z; nearest limit Ray's threshold, 26.3 GiB away.`
fn peak(view: &View<'_>) -> String {
    let Some(peak) = &view.shown.report.peak else {
        return String::new();
    };
    let figures = of(peak.used_bytes, peak.total_bytes);
    let share = percent(peak.used_bytes, peak.total_bytes);
    let at = view.style.zone.seconds(peak.time);
    format!(
        " Peak {figures} ({share}) at {at}{}.",
        nearest_limit(&view.shown.report)
    )
}

/// Of the limits that the report knows: Ray's threshold, where the monitor counts the whole machine.
fn nearest_limit(report: &Report) -> String {
    let Some(peak) = &report.peak else {
        return String::new();
    };
    let whole = |total: crate::ids::Bytes| total.0.abs_diff(peak.total_bytes.0) <= (1 << 30);
    let monitors = || {
        report
            .clusters
            .iter()
            .filter_map(|cluster| cluster.monitor.as_ref())
    };
    let threshold = monitors()
        .filter(|monitor| monitor.enabled && monitor.total_bytes.is_none_or(whole))
        .filter_map(|monitor| monitor.threshold_bytes)
        .min();
    match threshold {
        Some(threshold) if threshold > peak.used_bytes => {
            let away = crate::ids::Bytes(threshold.0 - peak.used_bytes.0);
            format!("; nearest limit Ray's threshold, {} away", size(away))
        }
        Some(threshold) => format!("; Ray's threshold is {} GiB", gib(threshold)),
        None if monitors().any(|monitor| !monitor.enabled) => {
            "; Ray's memory monitor is off".to_owned()
        }
        None => String::new(),
    }
}
