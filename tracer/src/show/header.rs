//! Renders the first lines: machine, time, how it was observed, what was missed, and counts.

use crate::{
    event::{Mode, ProbeState},
    ids::Bytes,
    judge::{
        cause,
        report::{Death, Killer, LostProbe, Peak, Recording, Report, Verdict},
    },
    phrase,
    show::{
        causes::Cause,
        fleet, limit, sanitize,
        size::{gib, of, percent, size},
        time::{offset_name, span},
        view::View,
        words,
    },
};

/// A shorter gap is not mentioned: the recorder was started again at once.
const NO_GAP_NS: i64 = 1_500_000_000;
/// Returns one line for each recording, or the header for several nodes.
pub fn recordings(view: &View<'_>) -> Vec<String> {
    if fleet::is_fleet_report(&view.shown.report) {
        return fleet::header(view);
    }
    let recordings = &view.shown.report.recordings;
    recordings
        .iter()
        .map(|recording| recording_line(view, recording))
        .collect()
}

/// Returns one line for each thing that a recording missed.
pub fn gaps(view: &View<'_>) -> Vec<String> {
    gaps_at_most(view, fleet::MAX_MISSING)
}

/// Returns the same for several recordings in at most this many lines for them.
pub fn gaps_at_most(view: &View<'_>, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let several = fleet::is_fleet_report(&view.shown.report);
    if several {
        lines = fleet::gaps(view, most);
    }
    let recordings = view.shown.report.recordings.iter();
    for recording in recordings.filter(|_| !several) {
        let probes = recording.probes.iter();
        lines.extend(
            probes
                .filter(|probe| !matches!(probe.state, ProbeState::Ok | ProbeState::Gone))
                // Hooks see what it would tell.
                .filter(|probe| probe.name != KERNEL_LOG || probe.state == ProbeState::Missing)
                .map(probe_line),
        );
        let gone = recording.lost_probes.iter();
        lines.extend(gone.map(|gone| lost_probe_line(view, gone)));
        if recording.lost_events > 0 {
            lines.push(loss_line(recording));
        }
        lines.extend(unseen(view, recording));
        if recording.still_recording {
            lines.push("still recording; the report shows what was written so far".to_owned());
        } else if !recording.clean_end {
            lines.push(
                "the recorder's end is not in this recording: it was copied before, or the recorder was killed; the report ends with the last event"
                    .to_owned(),
            );
        }
    }
    let most = if several { most } else { usize::MAX };
    lines.extend(pending(view).into_iter().take(most));
    lines
}

/// Returns one line for each process that was killed and has not ended.
pub fn pending(view: &View<'_>) -> Vec<String> {
    let pending = view.shown.report.pending.iter();
    pending.map(|death| pending_line(view, death)).collect()
}

/// Returns the gap between the end of an earlier recorder in the same folder and this recording.
fn unseen(view: &View<'_>, recording: &Recording) -> Option<String> {
    let zone = &view.style.zone;
    let (from, until) = (recording.previous_ended?, recording.started);
    let long = until.0.0.saturating_sub(from.0.0) > NO_GAP_NS;
    long.then(|| {
        format!(
            "not recorded: {} to {} (no recorder was running)",
            zone.full(from),
            zone.full(until)
        )
    })
}

/// Returns the line about a process that was killed and has not ended.
fn pending_line(view: &View<'_>, death: &Death) -> String {
    let ended = view.shown.report.recordings.last().map(|last| last.ended);
    let waited = ended
        .zip(death.when.time)
        .map_or_else(String::new, |(ended, killed)| {
            let waited = ended.0.0.saturating_sub(killed.0.0);
            format!(" after {}", span(u64::try_from(waited).unwrap_or_default()))
        });
    format!(
        "killed but still alive{waited}: {}; probably blocked in the kernel (disk, network file system, driver) or writing a core dump",
        sanitize::line(&words::headline(death), sanitize::EVIDENCE)
    )
}

fn recording_line(view: &View<'_>, recording: &Recording) -> String {
    let mut parts = vec![
        sanitize::name(&recording.host.name),
        format!("Linux {}", sanitize::name(&recording.host.kernel)),
    ];
    parts.extend(ray_versions(&view.shown.report, recording.id));
    parts.push(view.style.zone.range(recording.started, recording.ended));
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

fn observed(recording: &Recording) -> String {
    let working = recording
        .probes
        .iter()
        .filter(|probe| !matches!(probe.state, ProbeState::Missing | ProbeState::Gone))
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

/// The probe of the kernel log.
const KERNEL_LOG: &str = "/dev/kmsg";
/// Longest reason why a hook of the kernel is missing, in characters.
const HOOK_REASON: usize = 72;

fn probe_line(probe: &crate::event::Probe) -> String {
    let name = sanitize::name(&probe.name);
    let reason = probe.reason.as_deref().unwrap_or("no reason given");
    let mut reason = sanitize::line(reason, sanitize::ADVICE);
    // What is missed without a hook comes first, and the error of the kernel after it. The JSON has
    // both.
    if name.contains('/') {
        reason = sanitize::whole_clauses(&reason, HOOK_REASON).to_owned();
    }
    match probe.state {
        ProbeState::Missing => format!("probe {name} is missing: {reason}"),
        ProbeState::Degraded | ProbeState::Ok | ProbeState::Gone => {
            format!("probe {name} is degraded: {reason}")
        }
    }
}

/// `GCS 192.0.2.2:6379 was unreachable from 08:41:07: connection refused`
fn lost_probe_line(view: &View<'_>, gone: &LostProbe) -> String {
    let zone = &view.style.zone;
    let back = gone
        .back
        .map_or_else(String::new, |back| format!(" to {}", zone.seconds(back)));
    let reason = gone.reason.as_deref().map_or_else(String::new, |reason| {
        format!(": {}", sanitize::line(reason, sanitize::EVIDENCE))
    });
    format!(
        "{} was unreachable from {}{back}{reason}",
        sanitize::name(&gone.name),
        zone.seconds(gone.time)
    )
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
    let lost = match recording.lost_events {
        1 => "1 event was".to_owned(),
        many => format!("{} events were", words::thousands(many)),
    };
    let by_hook = phrase::in_brackets(&hooks);
    format!(
        "{lost} lost{by_hook}: {}",
        words::what_is_missing(recording.missed())
    )
}

/// Returns how many first causes and deaths there are, and the peak of memory.
pub fn counts(view: &View<'_>, causes: &[Cause<'_>]) -> Vec<String> {
    let shown = view.shown;
    let mut lines = Vec::new();
    let pending = &shown.report.pending;
    if shown.totals.causes == 0 && pending.is_empty() {
        let report = &shown.report;
        lines.push(match (report.texts.is_empty(), report.deaths.is_empty()) {
            (true, _) => format!("0 kills.{}", peak(view)),
            (false, true) => "No line that raytrace knows reports a death.".to_owned(),
            (false, false) => format!("These logs name no abnormal death.{}", normal_exits(view)),
        });
    }
    if shown.filtered && causes.is_empty() && !shown.lists_normal_exits {
        lines.push(
            "No abnormal death matches. To see all, leave out --kill, --match, --node, --job, --cluster, --since and --until."
                .to_owned(),
        );
    }
    lines.extend(count_line(view, causes));
    let died = causes.iter().map(|cause| cause.death);
    let memory = died.chain(pending).any(Death::is_memory_kill);
    if memory && !fleet::is_fleet_report(&shown.report) {
        lines.extend(machine_peak(view));
    }
    if shown.totals.causes > 0 && !memory && !shown.filtered {
        lines.push(format!("{}{}", no_memory_kill(view, causes), peak(view)));
    }
    lines
}

/// Says that none of the causes is a kill for memory. An unknown killer may have killed for memory,
/// and so may whatever ended what is not in the texts.
fn no_memory_kill(view: &View<'_>, causes: &[Cause<'_>]) -> String {
    let open = |verdict: &Verdict| {
        let has_reason = matches!(verdict.cause, cause::Cause::EndAfterError { .. });
        verdict.killer == Killer::Unknown && !has_reason
    };
    let known = "No death is known to be a kill for memory;";
    if causes.iter().any(|cause| open(&cause.death.verdict)) {
        return format!("{known} one whose killer is unknown may be.");
    }
    match causes.iter().find_map(|cause| untold(view, cause)) {
        Some(untold) => format!("{known} {untold} is not in these logs."),
        None => "No kill for memory.".to_owned(),
    }
}

/// Returns what these texts do not tell of a cause, if it follows from something else.
fn untold(view: &View<'_>, cause: &Cause<'_>) -> Option<&'static str> {
    let by_text = !view.shown.report.texts.is_empty();
    by_text
        .then(|| cause.death.verdict.cause.untold())
        .flatten()
}

/// Returns ` 2 normal exits not listed (--all); the first: Actor (pid 7) was stopped by ray.kill.`,
/// for deaths that logs name.
fn normal_exits(view: &View<'_>) -> String {
    let shown = view.shown;
    let Some(first) = shown
        .report
        .deaths
        .first()
        .filter(|_| !shown.lists_normal_exits)
    else {
        return String::new();
    };
    let exits = words::count(shown.report.deaths.len(), "normal exit", "normal exits");
    format!(
        " {exits} not listed (--all); the first: {}.",
        words::headline(first)
    )
}

/// Returns how many of the causes follow from something that these texts do not tell: these are no
/// first causes.
pub fn followed(view: &View<'_>, causes: &[Cause<'_>]) -> usize {
    let untold = causes.iter().filter(|one| untold(view, one).is_some());
    untold.count()
}

/// `2 first causes, 19 deaths, 412 normal exits not listed (--all)`
fn count_line(view: &View<'_>, causes: &[Cause<'_>]) -> Option<String> {
    let shown = view.shown;
    let normal = shown.totals.normal_exits;
    let mut parts: Vec<String> = Vec::new();
    if shown.totals.causes > 0 {
        let first = shown.totals.causes.saturating_sub(followed(view, causes));
        if first > 0 {
            parts.push(words::count(first, "first cause", "first causes"));
        }
        parts.push(words::count(shown.totals.deaths, "death", "deaths"));
    }
    if normal > 0 && !shown.lists_normal_exits {
        let normal = usize::try_from(normal).unwrap_or(usize::MAX);
        let exits = words::count(normal, "normal exit", "normal exits");
        parts.push(format!("{exits} not listed (--all)"));
    }
    let mut text = parts.join(", ");
    if shown.filtered && !causes.is_empty() {
        text.push_str(&format!(
            "; {} of {} shown",
            causes.len(),
            shown.totals.causes
        ));
    }
    (!text.is_empty()).then_some(text)
}

/// ` Peak 152.3 of 188.0 GiB (81.0 %) without page cache at 07:12:40Z; nearest limit Ray's
/// threshold, 26.3 GiB away.`
fn peak(view: &View<'_>) -> String {
    let Some(peak) = &view.shown.report.peak else {
        return String::new();
    };
    format!(
        " Peak {}{}.",
        without_cache(view, peak),
        nearest_limit(&view.shown.report, peak)
    )
}

/// Returns `Machine: peak 8.7 of 23.5 GiB (36.9 %) without page cache at 11:20:18Z`, for a report
/// with a memory kill.
fn machine_peak(view: &View<'_>) -> Option<String> {
    let peak = view.shown.report.peak.as_ref()?;
    Some(format!("Machine: peak {}", without_cache(view, peak)))
}

/// `8.7 of 23.5 GiB (36.9 %) without page cache at 11:20:18Z`.
fn without_cache(view: &View<'_>, peak: &Peak) -> String {
    let figures = of(peak.used_bytes, peak.total_bytes);
    let share = percent(peak.used_bytes, peak.total_bytes);
    let at = view.style.zone.seconds(peak.time);
    format!("{figures} ({share}) without page cache at {at}")
}

/// Returns the nearest limit that the report knows: that of a cgroup if one is nearer, else Ray's
/// threshold if the monitor counts the whole machine.
fn nearest_limit(report: &Report, peak: &Peak) -> String {
    let nearer = limit::nearest_cgroup(report);
    if let Some(near) = nearer.filter(|near| near.share() > limit::at_peak(report, peak).share()) {
        let figures = of(near.used, near.limit);
        let away = size(Bytes(near.limit.0.saturating_sub(near.used.0)));
        let is_known = report.clusters.iter().all(|one| one.monitor.is_some());
        return if is_known {
            format!("; nearest limit {}: {figures}, {away} away", near.whose)
        } else {
            format!(
                "; nearest known limit {}: {figures}, {away} away (Ray's threshold is not known, and may be nearer)",
                near.whose
            )
        };
    }
    match limit::threshold(report, peak) {
        Some(threshold) if threshold > peak.used_bytes => {
            let away = Bytes(threshold.0 - peak.used_bytes.0);
            format!("; nearest limit Ray's threshold, {} away", size(away))
        }
        Some(threshold) => format!("; Ray's threshold is {} GiB", gib(threshold)),
        None if limit::monitors(report).any(|monitor| !monitor.enabled) => {
            "; Ray's memory monitor is off".to_owned()
        }
        None => String::new(),
    }
}
