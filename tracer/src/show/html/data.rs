//! Makes the JSON for the scripts of the page. Its texts come from functions that all views share.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use super::{
    ChartSeries,
    calls::{self, CallData},
    lanes::{Lane, Lanes},
    limits::{self, LimitLine},
    series::{Groups, Scale, Series},
    units::{kib, milliseconds},
};
use crate::{
    ids::{EventId, WallTime},
    judge::{
        report::{Death, Killer, KillerWords, Report, TopProcess, Utc},
        timeline::Timeline,
    },
    show::{
        Style, cascade,
        causes::{self, Cause},
        clause, evidence, facts, fleet, jobs, sanitize,
        select::SelectedReport,
        time::offset_name,
        view::View,
        words,
    },
};

/// Maximum number of deaths with facts and evidence. Later ones have only their line in the table.
const MAX_DETAILED: usize = 1000;
/// Longest chain of causes that is followed.
const LONGEST_CHAIN: usize = 64;
/// Maximum number of deaths in the table, which says how many more there are.
const MAX_DEATHS: usize = 20_000;

/// All data of the page. Times are in ms since `began`, memory is in KiB.
#[derive(Debug, Serialize)]
pub(super) struct Data {
    /// ms since 1970.
    began: i64,
    length: i64,
    /// Offset of the shown times from UTC, in seconds east, and their suffix.
    offset_s: i32,
    zone: String,
    /// Whether times need their date.
    dated: bool,
    /// Unit of the figures in series, in KiB.
    unit_kib: u64,
    /// One for each node, or a single one if the page is of one recording.
    lanes: Vec<LaneData>,
    /// The mark and words of each killer.
    killers: BTreeMap<&'static str, &'static KillerWords>,
    /// Names of classes. Processes refer to them by index.
    groups: Vec<String>,
    /// Number of processes without a row.
    left_out: usize,
    deaths: Vec<DeathData>,
    /// Number of deaths that did not fit on the page.
    deaths_left_out: usize,
}

/// A node's part of the timeline.
#[derive(Debug, Serialize)]
struct LaneData {
    name: String,
    about: String,
    /// Whether nothing happened on it.
    quiet: bool,
    limits: Vec<LimitLine>,
    /// Number of limits of cgroups that are not shown.
    limits_left_out: usize,
    #[serde(flatten)]
    series: Series,
    /// Calls of the process that held most.
    calls: Vec<CallData>,
}

#[derive(Debug, Serialize)]
struct DeathData {
    id: u64,
    t: Option<f64>,
    when: String,
    /// `KILL 2`; empty for one that followed from another.
    label: String,
    /// The number of its first cause, and its place in that cause's cascade.
    number: u32,
    place: usize,
    root: Option<u64>,
    /// The nearest death in its chain of causes that is on the page.
    cause: Option<u64>,
    lane: Option<usize>,
    /// Its node, if there are several.
    node: Option<String>,
    headline: String,
    killer: &'static str,
    sure: String,
    name: String,
    group: String,
    pid: Option<u32>,
    job: Option<String>,
    kib: Option<u64>,
    /// Whether a forked child shares memory with its parent, which counts there.
    shares: bool,
    listed: bool,
    facts: Vec<facts::Fact>,
    evidence: Vec<String>,
    cascade: Vec<u64>,
    /// The number of deaths in the cascade, in words.
    cascade_counted: String,
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

/// Makes the data of the page. `charts` has what is drawn of each recording, at its number.
pub(super) fn of(shown: &SelectedReport, style: &Style, charts: &[Option<ChartSeries>]) -> Data {
    let view = View::new(shown, style);
    let report = &shown.report;
    let lanes = Lanes::of(report);
    let (began, ended) = bounds(report, &lanes, charts);
    let (deaths, deaths_left_out) = deaths(&view, began, &lanes);
    let offset_s = style.zone.offset_s(began);
    // Each of many nodes has little room.
    let unit_kib = if lanes.all.len() > 1 { 1024 } else { 1 };
    let mut groups = Groups::default();
    let all = lanes.all.iter();
    let lanes = all.map(|lane| of_lane(report, lane, charts, (began, unit_kib), &mut groups));
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
        unit_kib,
        killers: Killer::ALL
            .iter()
            .map(|killer| (killer.name(), killer.words()))
            .collect(),
        lanes: lanes.collect(),
        groups: groups.names,
        left_out: charts.iter().flatten().map(|one| one.left_out).sum(),
        deaths,
        deaths_left_out,
    }
}

fn of_lane(
    report: &Report,
    lane: &Lane,
    charts: &[Option<ChartSeries>],
    (began, unit_kib): (Utc, u64),
    groups: &mut Groups,
) -> LaneData {
    let scale = Scale {
        began: Utc(WallTime(
            began.0.0.saturating_add(lane.ahead_ms * 1_000_000),
        )),
        unit_kib,
        several: fleet::is_fleet_report(report),
    };
    let mut timelines = timelines(lane, charts);
    timelines.sort_by_key(|(_, timeline)| timeline.began);
    let scope = limits::scope(report, lane, &timelines);
    let mut recordings = report.recordings.iter();
    let own = recordings.find(|one| lane.recordings.contains(&one.id));
    let mut series = Series::of_machine(own.map_or(0, |one| kib(one.host.memory_bytes)));
    for (number, timeline) in &timelines {
        series.add(*number, timeline, scale, scope.as_deref(), groups);
    }
    let (limits, limits_left_out) = limits::of(report, lane, &timelines);
    LaneData {
        name: lane.name.clone(),
        about: lane.about.clone(),
        quiet: fleet::is_fleet_report(report) && lane.first.is_none(),
        limits,
        limits_left_out,
        series,
        calls: calls::of(&timelines, scale.began),
    }
}

/// Returns the series of a lane's recordings, each with its number.
fn timelines<'a>(lane: &Lane, charts: &'a [Option<ChartSeries>]) -> Vec<(u32, &'a Timeline)> {
    let all = (0..).zip(charts);
    let own = all.filter(|(number, _)| lane.recordings.contains(number) || charts.len() == 1);
    own.filter_map(|(number, one)| Some((number, &one.as_ref()?.timeline)))
        .collect()
}

/// Returns the start and the end of the page, by the clock of the node with the GCS.
fn bounds(report: &Report, lanes: &Lanes, charts: &[Option<ChartSeries>]) -> (Utc, Utc) {
    let mut times: Vec<Utc> = Vec::new();
    for lane in &lanes.all {
        let by = -lane.ahead_ms * 1_000_000;
        let corrected = |time: Utc| Utc(WallTime(time.0.0.saturating_add(by)));
        let own = timelines(lane, charts).into_iter();
        times.extend(own.flat_map(|(_, one)| [corrected(one.began), corrected(one.ended)]));
    }
    if times.is_empty() {
        times.extend(report.deaths.iter().filter_map(|death| death.when.time));
    }
    let nothing = Utc(WallTime(0));
    let (first, last) = (times.iter().min(), times.iter().max());
    (
        first.copied().unwrap_or(nothing),
        last.copied().unwrap_or(nothing),
    )
}

/// Returns first causes, each followed by its cascade, then normal exits if they are shown. Also
/// returns how many deaths are left out.
fn deaths(view: &View<'_>, began: Utc, lanes: &Lanes) -> (Vec<DeathData>, usize) {
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
    if view.shown.lists_normal_exits {
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
    place(&view.shown.report, lanes, &mut found);
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
        t: (death.when.corrected_time)
            .or(death.when.time)
            .or(death.when.exit_time)
            .map(|time| (time.0.0 - began.0.0) as f64 / 1e6),
        when: view.death_time(death),
        label: after.map_or_else(|| cause.label(), |_| String::new()),
        number: cause.number,
        place: after.map_or(0, |(_, place)| place),
        root: after.map(|(root, _)| root.0),
        cause: None,
        lane: None,
        node: None,
        headline: words::headline(death),
        killer: death.verdict.killer.name(),
        sure: words::certainty(death),
        name: words::name(death),
        group: words::class(death),
        pid: Some(death.process.pid.0).filter(|pid| *pid != 0),
        job: death.work.job_id.as_ref().map(|id| sanitize::name(&id.0)),
        kib: death.memory.own_private().map(kib),
        shares: death.memory.own.shared_by_fork().is_some(),
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
        cascade_counted: if cause.cascade.is_empty() {
            String::new()
        } else {
            cascade::counted(cause)
        },
        top: if detailed { top(death) } else { Vec::new() },
    }
}

/// Sets the lane, node and cause of each death. A cause that is not on the page is skipped for the
/// next one in the chain.
fn place(report: &Report, lanes: &Lanes, found: &mut [DeathData]) {
    let by_id = causes::by_id(report);
    let shown: HashSet<u64> = found.iter().map(|one| one.id).collect();
    for one in found {
        let Some(death) = by_id.get(&EventId(one.id)) else {
            continue;
        };
        one.lane = lanes.of_death(death);
        one.node = death.node.as_deref().map(sanitize::name);
        let above = |death: &&Death| by_id.get(&death.verdict.cause()?).copied();
        let mut chain = std::iter::successors(Some(*death), above).take(LONGEST_CHAIN);
        let known = chain.find(|death| death.id.0 != one.id && shown.contains(&death.id.0));
        let cause = known.map(|death| death.id.0).or(one.root);
        // A first cause has no cause here, even if another act is above it.
        one.cause = cause.filter(|_| one.root.is_some());
    }
}

fn all_facts(view: &View<'_>, cause: &Cause<'_>) -> Vec<facts::Fact> {
    let death = cause.death;
    let mut found = facts::all(view, death);
    if let Some(job) = jobs::ended_by(view, cause) {
        let (probably, name) = (jobs::probably(job), jobs::name(view, job));
        found.push(("ended", format!("{probably}job {name}")));
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
        name: words::class_of_top(one),
        kib: kib(one.private_bytes),
        victim: one.victim,
        age_ms: one.age_ms,
    };
    death.memory.top.iter().map(row).collect()
}
