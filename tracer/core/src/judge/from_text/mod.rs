//! Judges from logs alone: turns what texts say into the same report that a recording gives.
//!
//! Pure. Nothing here is ever `proven`. Claims without a name (`WorkerCrashedError`, Ray's own
//! counts) make deaths only if no named death accounts for them.

pub mod claim;
pub mod claims;
mod death;
mod decisions;
mod facts;
mod join;
mod mismatch;
mod nameless;
mod names;
mod nodes;
mod notes;
mod other_runs;
mod raylets;
mod silent_nodes;
mod teardown;
pub mod text_evidence;
mod unsettled;
mod verdict;
mod zone;

use std::collections::{BTreeSet, HashMap};

use jiff::tz::TimeZone;

use crate::{
    ids::{BootTime, EventId, MINUTE_NS, Pid, SECOND_NS},
    judge::{
        findings,
        missing::Missing,
        ray_log_versions,
        report::{ClusterReport, Death, Evidence, Killer, Report, TextSource, TopProcess},
    },
    path,
    ray::{facts::TopUser, identify, log::monitor_kill},
};
use claim::{Claim, Place, Statement, Subject};
use death::build;
use join::Case;
use mismatch::{Candidate, Times};
use other_runs::OtherRuns;
use text_evidence::TextEvidence;
use unsettled::ReadLogs;
use zone::Clock;

/// At most this many pieces of evidence are kept for one death.
const MAX_EVIDENCE: usize = 12;
/// A launcher ends the others at most this long after the first failure.
const CLOSED_NS: u64 = 2 * MINUTE_NS.unsigned_abs();
/// Where a text has no times, it says so within this many lines.
const CLOSED_LINES: u64 = 100;

/// Returns the report on everything that was gathered. `zone` applies to all times that have none.
pub fn judge(gathered: &TextEvidence, zone: Option<&TimeZone>) -> Report {
    let clock = Clock::new(gathered, zone);
    let other_runs = OtherRuns::of(gathered, &clock);
    let cases = join::join(gathered, &clock, &other_runs);
    let mut made: Vec<Made> = cases
        .iter()
        .map(|case| made(gathered, &clock, case))
        .collect();
    nameless::add(gathered, &clock, &mut made);
    let folders = nodes::folders(gathered);
    raylets::add_implied(gathered, &clock, &folders, &mut made);
    order(&mut made);
    raylets::blame(&mut made);
    raylets::blame_by_log(gathered, &folders, &mut made);
    raylets::blame_shutdowns(&mut made);
    silent_nodes::blame(gathered, &clock, &mut made);
    blame_first(&mut made);
    blame_closed(&mut made);
    teardown::mark(gathered, &clock, &mut made);
    raylets::list_shutdowns(&mut made);
    decisions::group(&mut made);
    let read = ReadLogs::of(gathered);
    let mut candidates: HashMap<EventId, Missing> = HashMap::new();
    let mut notes: Vec<String> = other_runs.note.into_iter().collect();
    for made in made.iter().filter(|made| made.death.listed) {
        let Some(kill) = made.candidate else { continue };
        let [kernel, ray] = [kill.place, made.place].map(|place| source(gathered, place));
        notes.extend(kill.note(&kernel, &ray));
        let missing = Missing::SameDeath {
            kill: kernel,
            same_pid: kill.same_pid.is_some(),
            zone: kill.times == Times::OfTwoClocks,
            raylet_read: read.raylet,
        };
        candidates.insert(made.death.id, missing);
    }
    let facts = facts::of(gathered, &made);
    let on = nodes::of_deaths(gathered, &folders, &made);
    let addresses = nodes::addresses(gathered, &made);
    let first_lines = notes::first_lines(&made);
    let mut deaths: Vec<Death> = made.into_iter().map(|made| made.death).collect();
    unsettled::add(read, &mut deaths, &candidates);
    let version = version(gathered);
    notes.extend(notes::all(
        gathered,
        &deaths,
        &first_lines,
        version.as_deref(),
    ));
    notes.extend(version.map(|version| format!("Ray {version}, by the wording of its messages")));
    let mut report = Report {
        schema: 1,
        raytrace: env!("CARGO_PKG_VERSION").into(),
        clusters: match folders.as_slice() {
            [] => clusters(gathered),
            folders => nodes::clusters(gathered, folders),
        },
        deaths,
        gpu_errors: gathered
            .remarks
            .gpu_errors
            .report(|(place, stamp)| clock.time(place, stamp).map(zone::utc)),
        notes,
        texts: texts(gathered, &clock),
        ..Report::default()
    };
    nodes::join(gathered, &clock, &folders, &on, &mut report);
    if report.nodes.is_empty() {
        for (death, address) in report.deaths.iter_mut().zip(addresses) {
            death.node = address;
        }
    }
    findings::name_suspects(&facts, &mut report);
    report.settings = findings::settings(&facts, &report);
    report.findings = findings::all(&facts, &report);
    report.notes.extend(ray_log_versions::note(&report));
    report
}

/// A death with what its order depends on.
struct Made {
    death: Death,
    place: Place,
    time: Option<i64>,
    /// The id and the address of its node.
    node: (Option<String>, Option<String>),
    /// The host that the lines name, as journals do.
    host: Option<String>,
    /// The folder of the raylet's log that speaks of it.
    folder: Option<String>,
    /// What it belongs to: `unit ray.service`.
    of: Option<String>,
    /// The texts of its node alone: its own, and those of the host.
    texts: Vec<usize>,
    /// Whether nothing is known but that it died.
    bare: bool,
    /// All processes that the text lists beside it.
    everyone: Vec<TopProcess>,
    /// The kill of a whole cgroup that it belongs to.
    decision: Option<Place>,
    /// The process that had ended first, if its launcher then ended this one.
    after: Option<Pid>,
    /// Whether its launcher ended it, and does not say why.
    closed: bool,
    /// A kill by the kernel that may be the same death.
    candidate: Option<Candidate>,
}

fn made(gathered: &TextEvidence, clock: &Clock, case: &Case<'_>) -> Made {
    let claims: Vec<&Statement> = [case.ray, case.host]
        .into_iter()
        .flatten()
        .flat_map(|claims| &claims.statements)
        .collect();
    let verdict = verdict::verdict(&claims);
    let subject = match (case.ray, case.host) {
        (Some(ray), _) => &ray.subject,
        (None, Some(host)) => &host.subject,
        (None, None) => &Subject::default(),
    };
    let host_pid = case.ray.and(case.host).and_then(|host| host.subject.pid);
    let host_comm = case.host.and_then(|host| host.subject.comm.clone());
    let dated_by = dating_line(&claims, clock);
    let bare = claims
        .iter()
        .all(|one| matches!(one.claim, Claim::Died | Claim::Identity));
    let mut subject = subject.clone();
    let mut named_by_lease = None;
    if let Some((place, task)) = running_task(&subject, &claims) {
        let by_lease = subject.task.replace(task).unwrap_or_default();
        let words = format!("Ray's kill record calls it {by_lease}, the first task of its lease");
        named_by_lease = Some((place, words));
    }
    let call = running_call(&subject, &claims);
    let mut made = build(clock, &subject, dated_by, verdict);
    let task = &mut made.death.work.task_name;
    *task = call.or_else(|| task.take());
    made.bare = bare;
    made.candidate = case.candidate;
    made.folder.clone_from(&subject.folder);
    made.texts = nodes::own_texts(gathered, &claims);
    let death = &mut made.death;
    if let Some(host_pid) = host_pid.filter(|host| *host != death.process.pid) {
        death.process.ns_pid = Some(death.process.pid);
        death.process.pid = host_pid;
    }
    if let Some(comm) = host_comm {
        death.process.comm = comm;
    }
    let mut remarks = case.remarks.clone();
    remarks.extend(named_by_lease);
    death.verdict.evidence = evidence(gathered, clock, &claims, &remarks);
    made
}

/// Returns the call that a killed actor ran, by Ray's table of the largest processes:
/// `WorkerDict.update_actor`.
fn running_call(subject: &Subject, claims: &[&Statement]) -> Option<String> {
    let class = subject.class.as_deref()?;
    let user = listed(subject.pid?, claims)?;
    let title = identify::title(&user.command)?;
    let call = title.task.filter(|_| !user.command.ends_with("..."))?;
    let (of, _) = call.rsplit_once('.')?;
    (of == class).then_some(call)
}

/// Returns the row of a process in Ray's table of the largest processes.
fn listed<'a>(pid: Pid, claims: &[&'a Statement]) -> Option<&'a TopUser> {
    claims.iter().find_map(|one| match &one.claim {
        Claim::RayMemory(memory) => memory.top.iter().find(|user| user.pid == pid),
        _ => None,
    })
}

/// Returns the task that a killed worker ran, if Ray's table of the largest processes has another
/// name for it than Ray's kill record. The record names the first task of the worker's lease.
fn running_task(subject: &Subject, claims: &[&Statement]) -> Option<(Place, String)> {
    let is_actor = subject.class.is_some() || subject.actor_id.is_some();
    let task = subject.task.as_deref().filter(|_| !is_actor)?;
    let pid = subject.pid?;
    claims.iter().find_map(|one| {
        let user = listed(pid, &[*one])?;
        let title = identify::title(&user.command)?;
        let shown = title.task.filter(|_| title.actor_class.is_none())?;
        // Ray cuts long titles.
        let shown = claims::plain(shown.trim_end_matches("...").to_owned());
        let same = shown.starts_with(task) || task.starts_with(&shown);
        (!same).then_some((one.place, shown))
    })
}

/// Returns the line that dates the death: the earliest of those with a time finer than whole
/// seconds.
fn dating_line<'a>(claims: &[&'a Statement], clock: &Clock) -> Option<&'a Statement> {
    let mut sorted: Vec<&Statement> = claims.to_vec();
    sorted.sort_by_key(|one| {
        let time = clock.time(one.place, one.stamp);
        let whole_seconds = time.is_some_and(|time| time % SECOND_NS == 0);
        (
            matches!(one.claim, Claim::Identity),
            one.stamp.is_empty(),
            time.is_none(),
            whole_seconds,
            time,
            one.place,
        )
    });
    sorted.first().copied()
}

fn evidence(
    gathered: &TextEvidence,
    clock: &Clock,
    claims: &[&Statement],
    remarks: &[(Place, String)],
) -> Vec<Evidence> {
    let mut sorted: Vec<&Statement> = claims.to_vec();
    let says_more = |one: &&Statement| !matches!(one.claim, Claim::Identity);
    sorted.retain(|one| says_more(one) && !one.quote.is_empty());
    sorted.sort_by_key(|one| one.place);
    let mut seen = BTreeSet::new();
    sorted.retain(|one| seen.insert((one.place, one.quote.clone())));
    // Two parsers may quote one line, one of them less of it.
    let is_part = |one: &&&Statement| {
        let start = one.quote.trim_end_matches('…');
        let first = sorted.partition_point(|other| other.place < one.place);
        let of_line = sorted[first..].iter();
        let mut of_line = of_line.take_while(|other| other.place == one.place);
        of_line.any(|other| other.quote.len() > one.quote.len() && other.quote.starts_with(start))
    };
    let whole = sorted.iter().filter(|one| !is_part(one));
    let lines = whole.take(MAX_EVIDENCE).map(|one| Evidence {
        time: clock.time(one.place, one.stamp).map(zone::utc),
        source: source(gathered, one.place),
        what: one.quote.clone(),
        by_sender: false,
    });
    let remarks = remarks.iter().map(|(place, text)| Evidence {
        time: None,
        source: source(gathered, *place),
        what: text.clone(),
        by_sender: false,
    });
    lines.chain(remarks).collect()
}

/// Returns a place as `raylet.out:812`.
fn source(gathered: &TextEvidence, place: Place) -> String {
    let name = gathered
        .texts
        .get(place.text)
        .map_or("", |text| text.name.as_str());
    format!("{}:{}", path::base(name), place.line)
}

/// Orders deaths by time if texts give it, else in the order of the texts. A death without a time
/// stays behind the one above it. Those of a text that has no time above them come last.
fn order(made: &mut [Made]) {
    made.sort_by_key(|one| one.place);
    let end = made.iter().filter_map(|one| one.time).max();
    let end = end.map_or(0, |end| end.saturating_add(1));
    let mut last = (usize::MAX, end);
    for one in made.iter_mut() {
        if last.0 != one.place.text {
            last = (one.place.text, end);
        }
        last.1 = one.time.unwrap_or(last.1);
        let time = u64::try_from(last.1).unwrap_or(0);
        one.death.when.act_time = BootTime(time);
    }
    made.sort_by_key(|one| (one.death.when.act_time, one.place));
    for (number, one) in (1..).zip(made.iter_mut()) {
        one.death.id = EventId(number);
    }
}

/// Attributes what a launcher ended to the process that had ended first.
fn blame_first(made: &mut [Made]) {
    let first = made.iter().filter(|one| one.after.is_none());
    let pids = first.flat_map(|one| {
        let process = &one.death.process;
        let pids = [Some(process.pid), process.ns_pid].into_iter().flatten();
        pids.map(|pid| ((one.place.text, pid), one.death.id))
    });
    let by_pid: HashMap<(usize, Pid), EventId> = pids.collect();
    for one in made {
        let first = one.after.and_then(|pid| by_pid.get(&(one.place.text, pid)));
        one.death.verdict.cause_death_id = first.copied().or(one.death.verdict.cause_death_id);
    }
}

/// Attributes what a launcher ended, without a word on why, to the first other end in its text.
fn blame_closed(made: &mut [Made]) {
    let others = made.iter().filter(|one| !one.closed && one.death.listed);
    let others = others.filter(|one| one.death.verdict.cause_death_id.is_none());
    let others: Vec<(Place, Option<i64>, EventId)> = others
        .map(|one| (one.place, one.time, one.death.id))
        .collect();
    let closed = made.iter_mut().filter(|one| one.closed);
    for one in closed.filter(|one| one.death.verdict.cause_death_id.is_none()) {
        let first = others.iter().find(|(place, time, _)| {
            let apart = time.zip(one.time).map(|(other, own)| other.abs_diff(own));
            let lines = place.line.abs_diff(one.place.line);
            let is_near = apart.map_or(lines <= CLOSED_LINES, |apart| apart <= CLOSED_NS);
            place.text == one.place.text && is_near
        });
        if let Some((.., first)) = first {
            one.death.verdict.cause_death_id = Some(*first);
            one.death.verdict.killer = Killer::RayCollapse;
        }
    }
}

fn clusters(gathered: &TextEvidence) -> Vec<ClusterReport> {
    let raylet = gathered.remarks.raylets.first();
    let cluster = raylet.map(|raylet_pid| ClusterReport {
        ray_version: version(gathered),
        raylet_pid: *raylet_pid,
        monitor: gathered.remarks.monitor.clone(),
        ..ClusterReport::default()
    });
    cluster.into_iter().collect()
}

/// Returns the version of Ray that a text names, else the one whose words it uses.
fn version(gathered: &TextEvidence) -> Option<String> {
    let remarks = &gathered.remarks;
    let words = |(first, last): monitor_kill::MinorRange| match first.cmp(&last) {
        std::cmp::Ordering::Less => Some(format!("2.{first} to 2.{last}")),
        std::cmp::Ordering::Equal => Some(format!("2.{first}")),
        std::cmp::Ordering::Greater => None,
    };
    remarks
        .ray_version
        .clone()
        .or_else(|| remarks.wording.and_then(words))
}

fn texts(gathered: &TextEvidence, clock: &Clock) -> Vec<TextSource> {
    let texts = gathered.texts.iter().enumerate();
    texts
        .map(|(number, text)| {
            let (utc_offset_s, how) = clock.describe(number, text);
            TextSource {
                name: text.name.clone(),
                lines: text.lines,
                utc_offset_s,
                clock: how,
            }
        })
        .collect()
}
