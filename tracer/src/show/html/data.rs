//! What the page's scripts show, as JSON: all words are made here, by the functions that every view shares.

use std::collections::HashSet;

use serde::Serialize;

use super::series::{self, Series};
use crate::{
    ids::{Bytes, EventId},
    judge::{
        report::{Death, Report, TopProcess, Utc},
        timeline::Timeline,
    },
    show::{
        Style,
        causes::Cause,
        clause, evidence, facts, jobs, sanitize,
        select::Shown,
        size::{self, size},
        time::offset_name,
        view::View,
        words,
    },
};

/// Deaths with their facts and evidence; later ones have their line in the table.
const MAX_DETAILED: usize = 1000;
/// Limits of cgroups that are drawn and named: the largest, others would lie on the axis.
const MAX_LIMITS: usize = 4;
/// Deaths in the table; it says how many more there are.
const MAX_DEATHS: usize = 20_000;

/// All of it. Times are ms since `began`, memory is in KiB.
#[derive(Debug, Serialize)]
pub(super) struct Data {
    /// ms since 1970.
    began: i64,
    length: i64,
    /// Seconds east of UTC of the times that are shown, and their suffix.
    offset_s: i32,
    zone: String,
    /// Whether times need their date.
    dated: bool,
    total_kib: u64,
    limits: Vec<Limit>,
    /// Limits of cgroups that are too many to be named.
    limits_left_out: usize,
    deaths: Vec<DeathData>,
    /// Deaths that are too many for the page.
    deaths_left_out: usize,
    #[serde(flatten)]
    series: Series,
}

/// A line in the chart.
#[derive(Debug, Serialize)]
struct Limit {
    label: String,
    kib: u64,
    ray: bool,
}

#[derive(Debug, Serialize)]
struct DeathData {
    id: u64,
    t: Option<f64>,
    when: String,
    /// `KILL 2`; empty for one that followed from another.
    label: String,
    /// The number of its first cause, and its place in that one's cascade.
    number: u32,
    place: usize,
    root: Option<u64>,
    headline: String,
    killer: &'static str,
    sure: String,
    name: String,
    group: String,
    pid: Option<u32>,
    job: Option<String>,
    kib: Option<u64>,
    listed: bool,
    facts: Vec<facts::Fact>,
    evidence: Vec<String>,
    cascade: Vec<u64>,
    top: Vec<Top>,
}

#[derive(Debug, Serialize)]
struct Top {
    pid: u32,
    name: String,
    kib: u64,
    victim: bool,
    age_ms: Option<u64>,
}

/// The page's data.
pub(super) fn of(shown: &Shown, style: &Style, timeline: Option<&Timeline>) -> Data {
    // The page has room for all of the evidence.
    let mut full = shown.clone();
    full.detail = true;
    let view = View::new(&full, style);
    let report = &full.report;
    let (began, ended) = bounds(report, timeline);
    let (limits, limits_left_out) = most_limits(limits(report, timeline));
    let (deaths, deaths_left_out) = deaths(&view, began);
    let offset_s = style.zone.offset_s(began);
    Data {
        began: milliseconds(began),
        length: milliseconds(ended) - milliseconds(began),
        offset_s,
        zone: if offset_s == 0 {
            "Z".into()
        } else {
            offset_name(offset_s)
        },
        dated: view.is_dated(),
        total_kib: report
            .recordings
            .first()
            .map_or(0, |one| kib(one.host.memory_bytes)),
        limits,
        limits_left_out,
        deaths,
        deaths_left_out,
        series: timeline
            .map(|timeline| series::of(report, timeline))
            .unwrap_or_default(),
    }
}

/// Bytes as KiB.
pub(super) fn kib(bytes: Bytes) -> u64 {
    bytes.0 / 1024
}

/// A moment in ms since 1970.
pub(super) fn milliseconds(time: Utc) -> i64 {
    time.0.0.div_euclid(1_000_000)
}

fn bounds(report: &Report, timeline: Option<&Timeline>) -> (Utc, Utc) {
    let nothing = Utc(crate::ids::WallTime(0));
    if let Some(timeline) = timeline {
        return (timeline.began, timeline.ended);
    }
    let times = || report.deaths.iter().filter_map(|death| death.when.time);
    (
        times().min().unwrap_or(nothing),
        times().max().unwrap_or(nothing),
    )
}

/// Ray's thresholds, the cgroups that killed, and those that came nearest to their limits.
fn limits(report: &Report, timeline: Option<&Timeline>) -> Vec<Limit> {
    let mut limits: Vec<Limit> = Vec::new();
    let mut add = |limit: Limit| {
        if !limits.iter().any(|known| known.label == limit.label) {
            limits.push(limit);
        }
    };
    let machine = report.recordings.first().map(|one| one.host.memory_bytes);
    for monitor in crate::show::limit::monitors(report).filter(|monitor| monitor.enabled) {
        let Some(threshold) = monitor.threshold_bytes else {
            continue;
        };
        let part = monitor
            .total_bytes
            .filter(|total| machine.is_some_and(|all| total.0 < all.0 / 10 * 9));
        let label = match part {
            Some(total) => format!(
                "Ray kills above {}, in its cgroup",
                size::of(threshold, total)
            ),
            None => format!("Ray kills above {}", size(threshold)),
        };
        add(Limit {
            label,
            kib: kib(threshold),
            ray: true,
        });
    }
    let killed = report
        .deaths
        .iter()
        .filter_map(|death| death.memory.oom.as_ref());
    let killed = killed.filter_map(|oom| Some((oom.cgroup.as_deref()?, oom.limit_bytes?)));
    let limited = timeline.map(series::limited).unwrap_or_default();
    let limited = limited.into_iter().filter_map(|series| {
        let (_, last) = series.samples.last()?;
        Some((series.path.as_str(), last.limit?))
    });
    for (path, limit) in killed.chain(limited) {
        add(Limit {
            label: format!("limit of cgroup {}: {}", words::cgroup(path), size(limit)),
            kib: kib(limit),
            ray: false,
        });
    }
    limits
}

/// Ray's own and the largest others, and how many are left out.
fn most_limits(all: Vec<Limit>) -> (Vec<Limit>, usize) {
    let (mut kept, mut others): (Vec<Limit>, Vec<Limit>) = all.into_iter().partition(|one| one.ray);
    others.sort_by_key(|one| std::cmp::Reverse(one.kib));
    let left_out = others.len().saturating_sub(MAX_LIMITS);
    others.truncate(MAX_LIMITS);
    kept.append(&mut others);
    (kept, left_out)
}

/// First causes, each followed by what followed from it; then normal exits, where these are shown; and how many are left out.
fn deaths(view: &View<'_>, began: Utc) -> (Vec<DeathData>, usize) {
    let causes = view.shown.causes();
    let mut found: Vec<DeathData> = Vec::new();
    let mut seen: HashSet<EventId> = HashSet::new();
    for cause in &causes {
        seen.insert(cause.death.id);
        found.push(death(view, began, cause, None, found.len()));
        for (place, next) in cause.cascade.iter().enumerate() {
            seen.insert(next.id);
            let alone = Cause {
                number: cause.number,
                death: next,
                cascade: Vec::new(),
            };
            found.push(death(
                view,
                began,
                &alone,
                Some((cause.death.id, place)),
                found.len(),
            ));
        }
    }
    if view.shown.lists_normal {
        for exit in view
            .shown
            .report
            .deaths
            .iter()
            .filter(|one| !seen.contains(&one.id))
        {
            let alone = Cause {
                number: 0,
                death: exit,
                cascade: Vec::new(),
            };
            let mut shown = death(view, began, &alone, None, found.len());
            shown.label = "EXIT".into();
            found.push(shown);
        }
    }
    let left_out = found.len().saturating_sub(MAX_DEATHS);
    found.truncate(MAX_DEATHS);
    (found, left_out)
}

fn death(
    view: &View<'_>,
    began: Utc,
    cause: &Cause<'_>,
    after: Option<(EventId, usize)>,
    place: usize,
) -> DeathData {
    let death = cause.death;
    let detailed = place < MAX_DETAILED;
    DeathData {
        id: death.id.0,
        t: death
            .when
            .time
            .or(death.when.exit_time)
            .map(|time| (time.0.0 - began.0.0) as f64 / 1e6),
        when: view.death_time(death),
        label: after.map_or_else(|| cause.label(), |_| String::new()),
        number: cause.number,
        place: after.map_or(0, |(_, place)| place),
        root: after.map(|(root, _)| root.0),
        headline: words::headline(death),
        killer: death.verdict.killer.name(),
        sure: words::certainty(death),
        name: words::name(death),
        group: words::class(death),
        pid: Some(death.process.pid.0).filter(|pid| *pid != 0),
        job: death.work.job_id.as_ref().map(|id| sanitize::name(&id.0)),
        kib: death.memory.own.resident().map(kib),
        listed: death.listed,
        facts: if detailed {
            all_facts(view, cause)
        } else {
            not_here(cause)
        },
        evidence: if detailed {
            evidence::lines(view, cause)
        } else {
            Vec::new()
        },
        cascade: cause.cascade.iter().map(|next| next.id.0).collect(),
        top: if detailed { top(death) } else { Vec::new() },
    }
}

fn all_facts(view: &View<'_>, cause: &Cause<'_>) -> Vec<facts::Fact> {
    let death = cause.death;
    let mut found = facts::all(view, death);
    if let Some(job) = jobs::ended_by(view, cause) {
        found.push(("ended", format!("job {}", sanitize::name(&job.job_id.0))));
    }
    let then = death.then.as_ref();
    found.extend(then.map(|then| ("then", clause::recovery(then))));
    found.extend(facts::identity(view, death));
    found
}

fn not_here(cause: &Cause<'_>) -> Vec<facts::Fact> {
    let command = format!(
        "raytrace report FILE --kill '{}'",
        words::death_id(cause.death.id)
    );
    vec![(
        "evidence",
        format!("too many deaths for one page: {command}"),
    )]
}

fn top(death: &Death) -> Vec<Top> {
    let row = |one: &TopProcess| Top {
        pid: one.pid.0,
        name: words::class_of_title(&one.title, one.pid),
        kib: kib(one.private_bytes),
        victim: one.victim,
        age_ms: one.age_ms,
    };
    death.memory.top.iter().map(row).collect()
}
