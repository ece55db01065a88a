//! Selects the deaths that a report shows.
//!
//! The options are `--kill`, `--match`, `--node`, `--job`, `--cluster`, `--since`, `--until` and
//! `--all`.
//!
//! A death is kept together with the deaths that caused it, so that each is shown with its cause. A
//! chosen first cause keeps its whole cascade.

use std::{
    collections::{BTreeSet, HashMap},
    str::FromStr,
};

use crate::{
    ids::{EventId, Pid},
    judge::report::{ClusterReport, Death, Finding, Growth, LimitPeak, Machine, Peak, Report, Utc},
    show::{causes, recording_filter::RecordingFilter, words},
};

/// What the user asked for. By default, everything that is listed.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// One first cause, in full.
    pub kill: Option<Kill>,
    /// Text or an id that a death must match.
    pub matching: Option<String>,
    /// One node, job or cluster.
    pub filter: RecordingFilter,
    /// The earliest time of deaths.
    pub since: Option<Utc>,
    /// The latest time of deaths.
    pub until: Option<Utc>,
    /// Whether all is asked for: nothing is folded, and normal exits are listed.
    pub all: bool,
}

/// How a first cause is named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kill {
    /// By its number in the report.
    Number(u32),
    /// By a death's id in the JSON, written `#4711`.
    Id(EventId),
}

impl Kill {
    /// Returns the id of the death, if the report has it. For a number, that is the death of the
    /// first cause.
    pub fn death(self, report: &Report) -> Option<EventId> {
        match self {
            Self::Number(number) => causes::all(report)
                .into_iter()
                .find(|cause| cause.number == number)
                .map(|cause| cause.death.id),
            Self::Id(id) => report
                .deaths
                .iter()
                .map(|death| death.id)
                .find(|known| *known == id),
        }
    }

    /// Returns the error for a report that does not have it. `causes` is how many first causes the
    /// report has.
    pub fn not_found_message(self, causes: usize) -> String {
        let asked = match self {
            Self::Number(number) => format!("no first cause has the number {number}"),
            Self::Id(id) => format!("no death has the id {}", words::death_id(id)),
        };
        let known = match causes {
            0 => "there is none".to_owned(),
            1 => "there is one, --kill 1".to_owned(),
            2 => "the first causes are numbered 1 and 2".to_owned(),
            last => format!("the first causes are numbered 1 to {last}"),
        };
        format!("--kill: {asked}; {known}")
    }
}

impl FromStr for Kill {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.strip_prefix('#') {
            Some(id) => death_id(id).map(Self::Id),
            None => text.parse().ok().map(Self::Number),
        };
        parsed.ok_or_else(|| {
            "give the number after KILL or DEATH in the report, or #ID with a death's id from the JSON (#RECORDING:ID in a report of several recordings)".to_owned()
        })
    }
}

/// Parses `4711`, or `2:4711` for a death of the report's recording 2.
fn death_id(text: &str) -> Option<EventId> {
    let (recording, row) = text.split_once(':').unwrap_or(("0", text));
    let row = EventId(row.parse().ok()?);
    Some(row.in_recording(recording.parse().ok()?))
}

/// A report with only the deaths that were asked for.
#[derive(Debug, Clone)]
pub struct SelectedReport {
    /// The part of the report that is shown.
    pub report: Report,
    /// The number of each death's first cause in the whole report, and whether that was a kill.
    numbers: HashMap<EventId, (u32, bool)>,
    /// What the whole report has.
    pub totals: Totals,
    /// Whether one first cause is shown in full.
    pub detail: bool,
    /// Whether nothing is folded.
    pub all: bool,
    /// Whether normal exits are listed too.
    pub lists_normal_exits: bool,
    /// Whether a filter removed deaths.
    pub filtered: bool,
}

/// How much a whole report has.
#[derive(Debug, Clone, Copy)]
pub struct Totals {
    /// First causes.
    pub causes: usize,
    /// Deaths that are shown without `--all`: first causes and their cascades.
    pub deaths: usize,
    /// Normal exits in recordings that are shown with `--all` only.
    pub normal_exits: u64,
}

impl Totals {
    fn of(report: &Report, causes: &[causes::Cause<'_>]) -> Self {
        // A normal exit is shown if something abnormal followed from it.
        let listed = |cause: &&causes::Cause<'_>| cause.death.listed;
        let also_shown = causes.len() - causes.iter().filter(listed).count();
        let recordings = report.recordings.iter();
        let normal: u64 = recordings.map(|recording| recording.normal_exits).sum();
        Self {
            causes: causes.len(),
            deaths: causes.iter().map(|cause| 1 + cause.cascade.len()).sum(),
            normal_exits: normal.saturating_sub(also_shown as u64),
        }
    }
}

impl SelectedReport {
    /// Shows the whole report.
    pub fn whole(report: &Report) -> Self {
        select(report.clone(), &Selection::default())
    }

    /// Returns the first causes that are shown, with their numbers in the whole report.
    pub fn causes(&self) -> Vec<causes::Cause<'_>> {
        let mut causes = causes::all(&self.report);
        for cause in &mut causes {
            let known = self.numbers.get(&cause.death.id);
            cause.number = known.map_or(cause.number, |(number, _)| *number);
        }
        causes
    }

    /// Returns the number of a death's first cause, even if a filter removed the death.
    pub fn number(&self, death: EventId) -> Option<u32> {
        self.numbers.get(&death).map(|(number, _)| *number)
    }

    /// Returns `KILL 1` for a death's first cause, even if a filter removed the death.
    pub fn label(&self, death: EventId) -> Option<String> {
        let (number, is_kill) = self.numbers.get(&death)?;
        Some(causes::label(*number, *is_kill))
    }
}

/// Keeps the deaths that `selection` asks for, and their causes.
pub fn select(mut report: Report, selection: &Selection) -> SelectedReport {
    let causes = causes::all(&report);
    let numbers: HashMap<EventId, (u32, bool)> = causes
        .iter()
        .map(|cause| (cause.death.id, (cause.number, cause.is_kill())))
        .collect();
    let totals = Totals::of(&report, &causes);
    let roots = causes::roots(&report);
    let chosen = selection.kill.map(|kill| match kill {
        Kill::Number(number) => numbers
            .iter()
            .find(|(_, (known, _))| *known == number)
            .map(|(id, _)| *id),
        Kill::Id(id) => roots.get(&id).copied(),
    });
    let by_id = causes::by_id(&report);
    let mut kept: BTreeSet<EventId> = BTreeSet::new();
    for death in &report.deaths {
        let asked = chosen
            .is_none_or(|root| root.is_some() && roots.get(&death.id).copied() == root)
            && within(death, selection)
            && selection.filter.has_death(&report, death)
            && selection
                .matching
                .as_deref()
                .is_none_or(|text| matches(&report, death, text));
        if asked {
            keep_with_causes(&by_id, death, &mut kept);
        }
    }
    // A text may match one death of a cascade. The counts are those of all of it.
    if selection.matching.is_some() {
        let asked: BTreeSet<EventId> = kept
            .iter()
            .filter_map(|id| roots.get(id).copied())
            .collect();
        let of_cascade = roots.iter().filter(|(_, root)| asked.contains(root));
        kept.extend(of_cascade.map(|(id, _)| *id));
    }
    let number = |(id, root): (&EventId, &EventId)| Some((*id, *numbers.get(root)?));
    let numbers = roots.iter().filter_map(number).collect();
    // Growth and peaks are known for each class of a recording, not for each cluster or job.
    if selection.filter.is_for_a_part_of(&report) {
        report.growth.clear();
        report.owners.clear();
    }
    let of_node = |id: Option<u32>| id.is_none_or(|id| selection.filter.has_recording(&report, id));
    let owners: Vec<bool> = (report.owners.iter())
        .map(|owner| of_node(owner.recording_id))
        .collect();
    let is_asked = |death| selection.filter.has_death(&report, death);
    let pending: Vec<bool> = report.pending.iter().map(is_asked).collect();
    keep(&mut report.owners, &owners);
    keep(&mut report.pending, &pending);
    let about_kept = |finding: &Finding| finding.deaths.iter().any(|death| kept.contains(death));
    // A kill without a remedy of its own gets that of another kill of its job. The finding says so.
    let mut findings = report.findings.iter();
    let mended = findings.any(|finding| about_kept(finding) && !finding.remedy.is_empty());
    let shown = |finding: &Finding| {
        let beside = || !mended && causes::has_remedy_for_same_job(&report, finding, &kept);
        let on_it = |id| selection.filter.has_recording(&report, id);
        finding.deaths.is_empty() && finding.recording_id.is_none_or(on_it)
            || about_kept(finding)
            || beside()
    };
    // Each is asked of the whole report, so nothing is removed before all answers are there.
    let findings: Vec<bool> = report.findings.iter().map(shown).collect();
    let has_job = |job| selection.filter.has_job(&report, job);
    let jobs: Vec<bool> = report.jobs.iter().map(has_job).collect();
    if !selection.filter.is_all() {
        keep_machines(&mut report, selection, &kept);
    }
    keep(&mut report.findings, &findings);
    keep(&mut report.jobs, &jobs);
    report.findings = joined(report.findings);
    let all = report.deaths.len();
    report.deaths.retain(|death| kept.contains(&death.id));
    let filtered = report.deaths.len() < all;
    if filtered {
        let deaths = &report.deaths;
        let of_kept = |one: &Growth| {
            deaths
                .iter()
                .any(|death| death.recording_id == one.recording_id)
        };
        report
            .growth
            .retain(|one| one.recording_id.is_none() || of_kept(one));
    }
    SelectedReport {
        filtered,
        report,
        numbers,
        totals,
        detail: selection.kill.is_some(),
        all: selection.all,
        lists_normal_exits: selection.all
            || selection.matching.is_some()
            || matches!(selection.kill, Some(Kill::Id(_))),
    }
}

/// Keeps the clusters that are asked for and those of the deaths that are shown, their settings and
/// limits, and the figures of their machines.
fn keep_machines(report: &mut Report, selection: &Selection, kept: &BTreeSet<EventId>) {
    let filter = &selection.filter;
    let is_asked = |one: &ClusterReport| filter.has_cluster(report, one);
    let asked: Vec<bool> = report.clusters.iter().map(is_asked).collect();
    let clusters = report.clusters.iter().zip(&asked);
    let asked_ids: BTreeSet<u32> = clusters
        .filter_map(|(one, asked)| asked.then_some(one.id))
        .collect();
    let of_kept = report
        .deaths
        .iter()
        .filter(|death| kept.contains(&death.id));
    let of_kept: BTreeSet<u32> = of_kept.filter_map(|death| death.cluster).collect();
    let is_set = |one| filter.has_setting(report, one);
    let settings: Vec<bool> = report.settings.iter().map(is_set).collect();
    let has_machine = |one: &Machine| filter.has_machine(report, one.recording_id);
    let machines: Vec<bool> = report.machines.iter().map(has_machine).collect();
    keep(&mut report.settings, &settings);
    keep(&mut report.machines, &machines);
    let counts = |limit: &LimitPeak| limit.clusters.iter().any(|id| asked_ids.contains(id));
    report.limits.retain(counts);
    report
        .clusters
        .retain(|one| asked_ids.contains(&one.id) || of_kept.contains(&one.id));
    if machines.contains(&false) {
        let peaks = report.machines.iter().filter_map(|machine| machine.peak);
        report.peak = peaks.reduce(Peak::nearer);
    }
}

/// Joins findings of several recordings with the same advice about the same method. Those without
/// advice are joined only if they say the same.
fn joined(findings: Vec<Finding>) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for finding in findings {
        let same = |known: &&mut Finding| {
            known.recording_id != finding.recording_id
                && known.rule == finding.rule
                && known.remedy == finding.remedy
                && known.about.task == finding.about.task
                && (!known.remedy.is_empty() || known.summary == finding.summary)
        };
        match all.iter_mut().find(same) {
            Some(known) => {
                known.deaths.extend(finding.deaths);
                known.recording_id = None;
            }
            None => all.push(finding),
        }
    }
    all
}

/// Keeps the items whose answer is yes.
fn keep<T>(items: &mut Vec<T>, answers: &[bool]) {
    let mut answers = answers.iter();
    items.retain(|_| answers.next().copied().unwrap_or(true));
}

fn keep_with_causes(by_id: &HashMap<EventId, &Death>, death: &Death, kept: &mut BTreeSet<EventId>) {
    let mut next = Some(death);
    while let Some(death) = next {
        if !kept.insert(death.id) {
            return;
        }
        let verdict = &death.verdict;
        let above = verdict.cause().or(verdict.act.map(|act| act.death_id));
        next = above.and_then(|id| by_id.get(&id).copied());
    }
}

fn within(death: &Death, selection: &Selection) -> bool {
    let Some(time) = death.when.time.or(death.when.exit_time) else {
        return selection.since.is_none() && selection.until.is_none();
    };
    selection.since.is_none_or(|since| since <= time)
        && selection.until.is_none_or(|until| time <= until)
}

/// Returns whether a text matches a death: as an id from a traceback, a pid on the host or in the
/// container, or part of a name.
fn matches(report: &Report, death: &Death, text: &str) -> bool {
    let text = text.trim().to_lowercase();
    if let Ok(pid) = text.parse::<u32>()
        && (death.process.pid == Pid(pid) || death.process.ns_pid == Some(Pid(pid)))
    {
        return true;
    }
    let number = text.bytes().all(|byte| byte.is_ascii_digit());
    id_matches(report, death, &text) || (!number && name_matches(death, &text))
}

/// Returns whether an id of the death begins with `text`. Ids of tasks and leases are only in the
/// evidence.
fn id_matches(report: &Report, death: &Death, text: &str) -> bool {
    let hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if text.len() < 4 || !hexadecimal {
        return false;
    }
    let cluster = report.cluster_of(death);
    let node = cluster.and_then(|cluster| cluster.node_id.as_ref());
    let ids = [
        death.work.worker_id.as_ref(),
        death.work.actor_id.as_ref(),
        death.work.job_id.as_ref(),
        node,
    ];
    let container = death.process.container_id.as_deref();
    ids.into_iter().flatten().any(|id| id.0.starts_with(text))
        || container.is_some_and(|id| id.starts_with(text))
        || (text.len() >= 8
            && death
                .verdict
                .evidence
                .iter()
                .any(|evidence| evidence.what.to_lowercase().contains(text)))
}

fn name_matches(death: &Death, text: &str) -> bool {
    let names = [
        Some(&death.process.comm),
        death.process.title.as_ref(),
        death.work.actor_class.as_ref(),
        death.work.task_name.as_ref(),
    ];
    names
        .into_iter()
        .flatten()
        .any(|name| name.to_lowercase().contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{Bytes, HexId},
        judge::report::{Certainty, Setting},
        show::sample,
    };

    /// A second cluster on the same machine, and a third on another one.
    #[test]
    fn clusters_settings_limits_and_machines_follow_the_filter() {
        let mut report = sample::verl();
        report.deaths[0].work.job_id = HexId::parse("03000000");
        let first = report.clusters[0].clone();
        for (id, recording) in [(0, 0), (1, 0), (2, 1)] {
            let one = ClusterReport {
                id,
                recording_id: recording,
                session: Some(format!("session_{id}")),
                ..first.clone()
            };
            report.clusters.push(one);
            report.settings.push(Setting {
                key: format!("of {id}"),
                value: String::new(),
                source: String::new(),
                effective: true,
                cluster: Some(id),
                job_id: (id == 0).then(|| report.jobs[0].job_id.clone()),
            });
            let peak = report.peak.map(|peak| Peak {
                used_bytes: Bytes(u64::from(recording + 1) << 30),
                ..peak
            });
            report.limits.push(LimitPeak {
                cgroup: format!("/{id}"),
                time: report.recordings[0].started,
                needed_bytes: Bytes(1),
                limit_bytes: Bytes(2),
                clusters: vec![id],
            });
            report.machines.push(Machine {
                recording_id: recording,
                peak,
                limits: Vec::new(),
                in_use: None,
            });
        }
        report.clusters.remove(0);
        report.settings.retain(|one| one.key.starts_with("of "));
        let mut other = report.recordings[0].clone();
        (other.id, other.host.name) = (1, "gpu-08".into());
        report.recordings.push(other);
        let with = |filter: RecordingFilter| {
            let selection = Selection {
                filter,
                ..Selection::default()
            };
            let shown = select(report.clone(), &selection).report;
            let ids = |ids: Vec<u32>| format!("{ids:?}");
            [
                ids(shown.clusters.iter().map(|one| one.id).collect()),
                ids(shown
                    .settings
                    .iter()
                    .filter_map(|one| one.cluster)
                    .collect()),
                ids(shown
                    .limits
                    .iter()
                    .flat_map(|one| one.clusters.clone())
                    .collect()),
                ids(shown.machines.iter().map(|one| one.recording_id).collect()),
                shown
                    .peak
                    .map_or_else(String::new, |peak| peak.used_bytes.0.to_string()),
            ]
        };
        let peak = report
            .peak
            .map_or_else(String::new, |peak| peak.used_bytes.0.to_string());
        let all = with(RecordingFilter::default());
        assert_eq!(
            all,
            ["[0, 1, 2]", "[0, 1, 2]", "[0, 1, 2]", "[0, 0, 1]", &peak]
        );
        let cluster = |id: u32| RecordingFilter {
            cluster: Some(format!("session_{id}")),
            ..RecordingFilter::default()
        };
        let of_machine = Bytes(1 << 30).0.to_string();
        assert_eq!(
            with(cluster(1)),
            ["[1]", "[1]", "[1]", "[0, 0]", &of_machine]
        );
        let node = RecordingFilter {
            node: Some("gpu-08".into()),
            ..RecordingFilter::default()
        };
        let of_other = Bytes(2 << 30).0.to_string();
        assert_eq!(with(node), ["[2]", "[2]", "[2]", "[1]", &of_other]);
        let job = |id: &str| RecordingFilter {
            job: HexId::parse(id),
            ..RecordingFilter::default()
        };
        let own = report.jobs[0].job_id.0.clone();
        assert_eq!(with(job(&own))[..3], ["[0]", "[0]", "[0]"]);
        // Another job of that cluster has none of the settings of the first.
        assert_eq!(with(job("03000000"))[..3], ["[0]", "[]", "[0]"]);
    }

    #[test]
    fn findings_with_the_same_advice_are_one() {
        let of = |recording: u32, summary: &str, remedy: &[&str]| Finding {
            recording_id: Some(recording),
            remedy: remedy.iter().map(|&text| text.to_owned()).collect(),
            deaths: vec![EventId(u64::from(recording))],
            ..Finding::new("rule", Certainty::Inferred, summary)
        };
        let mut in_another_method = of(2, "6 GiB", &["lower it"]);
        in_another_method.about.task = Some("Trainer.update".into());
        let all = joined(vec![
            of(0, "4 GiB", &["lower it"]),
            of(0, "of another class", &["lower it"]),
            of(1, "5 GiB", &["lower it"]),
            in_another_method,
            of(0, "no help in verl", &[]),
            of(1, "no help in EasyR1", &[]),
            of(2, "no help in verl", &[]),
        ]);
        let about = all
            .iter()
            .map(|one| (one.summary.as_str(), one.recording_id, one.deaths.len()));
        assert_eq!(
            about.collect::<Vec<_>>(),
            [
                ("4 GiB", None, 2),
                ("of another class", Some(0), 1),
                ("6 GiB", Some(2), 1),
                ("no help in verl", None, 2),
                ("no help in EasyR1", Some(1), 1),
            ]
        );
    }
}
