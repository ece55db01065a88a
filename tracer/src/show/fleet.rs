//! Renders the first screen of a report of several recordings.
//!
//! It shows the nodes, how each job ended, the first causes and what is missing. It stays below
//! forty lines, however many nodes there are. The blocks of the first causes follow it.

use std::collections::{BTreeSet, HashSet};

use crate::{
    event::ProbeState,
    ids::Pid,
    judge::report::{Death, Missed, Node, Recording, Report},
    phrase::{self, when},
    show::{causes::Cause, clocks, sanitize, text_sources, view::View, words},
};

/// Maximum number of names of nodes in one list.
const MAX_NAMES: usize = 6;
/// Maximum number of lines about what is missing, unless the caller gives another number.
pub const MAX_MISSING: usize = 6;
/// Maximum number of clusters that have a line.
const MAX_CLUSTERS: usize = 3;

/// Returns whether a report is of several recordings.
pub fn is_fleet_report(report: &Report) -> bool {
    !report.nodes.is_empty()
}

/// Returns `16 nodes, 14 recordings (none from gpu-13, gpu-14) · 2026-11-20 06:02:11Z–08:42:20Z · 0
/// lost`, then a line for each cluster. Without recordings, the first line says how many nodes have
/// logs, and the lines about the texts follow.
pub fn header(view: &View<'_>) -> Vec<String> {
    let report = &view.shown.report;
    let without: Vec<&str> = (report.nodes.iter())
        .filter(|node| !node.is_known())
        .map(|node| node.name.as_str())
        .collect();
    let none = if without.is_empty() {
        String::new()
    } else {
        format!(" (none from {})", names(&without))
    };
    let nodes = words::count(report.nodes.len(), "node", "nodes");
    if report.recordings.is_empty() {
        let known = report.nodes.len() - without.len();
        let mut lines = vec![format!("{nodes}, logs of {known}{none}")];
        lines.extend(clusters(report));
        lines.extend(text_sources::lines(view));
        return lines;
    }
    let recordings = words::count(report.recordings.len(), "recording", "recordings");
    let mut parts = vec![format!("{nodes}, {recordings}{none}")];
    parts.extend(range(view));
    let lost: u64 = (report.recordings.iter())
        .map(|recording| recording.lost_events)
        .sum();
    parts.push(format!("{} lost", words::thousands(lost)));
    let mut lines = vec![parts.join(" · ")];
    lines.extend(clusters(report));
    lines
}

/// Returns one line for each Ray cluster.
fn clusters(report: &Report) -> Vec<String> {
    // Several recordings may be of one node. Without its id, the raylet tells that.
    let mut counted: HashSet<(&str, &str, Option<Pid>)> = HashSet::new();
    let boot_of = |id| {
        let known = report.recordings.iter().find(|one| one.id == id);
        known.map_or("", |one| one.host.boot_id.as_str())
    };
    let mut found: Vec<(String, Vec<String>, usize)> = Vec::new();
    for cluster in &report.clusters {
        let session = cluster.session.as_deref().unwrap_or("a cluster");
        let version = cluster.ray_version.as_deref().map(sanitize::name);
        let at = found.iter().position(|(known, ..)| known == session);
        let at = at.unwrap_or_else(|| {
            found.push((session.to_owned(), Vec::new(), 0));
            found.len() - 1
        });
        let (_, versions, parts) = &mut found[at];
        let (node, raylet) = match &cluster.node_id {
            Some(id) => (id.0.as_str(), None),
            None => (boot_of(cluster.recording_id), Some(cluster.raylet_pid)),
        };
        *parts += usize::from(counted.insert((session, node, raylet)));
        versions.extend(version.filter(|version| !versions.contains(version)));
    }
    if found.len() > MAX_CLUSTERS {
        return vec![many_clusters(&found)];
    }
    found
        .into_iter()
        .map(|(session, versions, parts)| {
            format!(
                "{} · {} · {}{}",
                format!("Ray {}", versions.join(", ")).trim_end(),
                sanitize::name(&session),
                words::count(parts, "node", "nodes"),
                when(!report.recordings.is_empty(), " recorded")
            )
        })
        .collect()
}

/// Returns `4 clusters · Ray 2.60.0`. Lines of jobs name their sessions.
fn many_clusters(found: &[(String, Vec<String>, usize)]) -> String {
    let versions: BTreeSet<&str> = found
        .iter()
        .flat_map(|(_, versions, _)| versions)
        .map(String::as_str)
        .collect();
    let versions = versions.into_iter().map(|version| format!("Ray {version}"));
    let number = format!("{} clusters", found.len());
    let parts: Vec<String> = std::iter::once(number).chain(versions).collect();
    parts.join(" · ")
}

fn range(view: &View<'_>) -> Option<String> {
    let recordings = &view.shown.report.recordings;
    let began = recordings.iter().map(|one| one.started).min()?;
    let ended = recordings.iter().map(|one| one.ended).max()?;
    Some(view.style.zone.range(began, ended))
}

/// Returns what was not seen: a line for each kind, with the nodes that it holds for.
pub fn gaps(view: &View<'_>, most: usize) -> Vec<String> {
    let report = &view.shown.report;
    let mut lines = Vec::new();
    let missing = |recording: &Recording| {
        let mut probes = recording.probes.iter();
        probes.any(|probe| probe.state == ProbeState::Missing && probe.required)
    };
    let without_probe = nodes_where(report, missing);
    if !without_probe.is_empty() {
        lines.push(format!(
            "a probe is missing on {}: verdicts there are not proven",
            names(&without_probe)
        ));
    }
    for missed in Missed::ALL {
        let lost = nodes_where(report, |recording| {
            recording.lost_events > 0 && recording.missed() == missed
        });
        if !lost.is_empty() {
            let missing = words::what_is_missing(missed);
            lines.push(format!("events were lost on {}: {missing}", names(&lost)));
        }
    }
    let open = nodes_where(report, |recording| !recording.clean_end);
    if !open.is_empty() {
        lines.push(format!(
            "the recording of {} has no end: it is still being written, or its recorder was killed; the report shows what it has",
            names(&open)
        ));
    }
    lines.extend(unrecorded(view));
    lines.extend(cut_off(report));
    lines.extend(clocks::gaps(view));
    let more = lines.len().saturating_sub(most);
    lines.truncate(most);
    if more > 0 {
        lines.push(format!("… and {more} more (--format json)"));
    }
    lines
}

/// `node2: not recorded 08:00:01Z–08:12:44Z`.
fn unrecorded(view: &View<'_>) -> Vec<String> {
    let zone = &view.style.zone;
    let nodes = view.shown.report.nodes.iter();
    let lines = nodes.filter(|node| !node.gaps.is_empty()).map(|node| {
        let spans: Vec<String> = (node.gaps.iter())
            .map(|gap| format!("{}–{}", zone.full(gap.from), zone.seconds(gap.until)))
            .collect();
        let more = spans.len().saturating_sub(3);
        let rest = if more > 0 {
            format!(" and {more} more times")
        } else {
            String::new()
        };
        let spans = spans[..spans.len().min(3)].join(", ");
        format!("{}: not recorded {spans}{rest}", sanitize::name(&node.name))
    });
    lines.collect()
}

/// Returns a line for each node that the GCS declared dead although its raylet lived.
fn cut_off(report: &Report) -> Vec<String> {
    let nodes = report.nodes.iter();
    let lines = nodes.filter_map(|node| {
        let declared = node.declared_dead.as_ref()?;
        let lived = declared.raylet_died == Some(false);
        let reason = declared.message.as_deref().or(declared.reason.as_deref());
        lived.then(|| {
            let after = if declared.raylet_ended_by_it {
                "while its raylet was running: the node had been cut off, and the raylet exited when it learned of that"
            } else {
                "and its raylet had not died before: the node may have been cut off"
            };
            format!(
                "{}: the GCS declared it dead ({}), {after}",
                sanitize::name(&node.name),
                sanitize::line(reason.unwrap_or("no reason given"), sanitize::EVIDENCE)
            )
        })
    });
    lines.collect()
}

/// Returns the nodes that have a recording for which `wanted` holds.
fn nodes_where(report: &Report, wanted: impl Fn(&Recording) -> bool) -> Vec<&str> {
    let ids: HashSet<u32> = (report.recordings.iter())
        .filter(|recording| wanted(recording))
        .map(|recording| recording.id)
        .collect();
    let with = |node: &&Node| node.recordings.iter().any(|id| ids.contains(id));
    let nodes = report.nodes.iter().filter(with);
    let mut names: Vec<&str> = Vec::new();
    for node in nodes {
        if !names.contains(&node.name.as_str()) {
            names.push(&node.name);
        }
    }
    names
}

/// Returns `2 first causes, 62 deaths on 9 nodes`.
pub fn counts(view: &View<'_>, causes: &[Cause<'_>]) -> String {
    if causes.is_empty() {
        return "No abnormal deaths on any node.".to_owned();
    }
    let deaths: usize = causes.iter().map(|cause| 1 + cause.cascade.len()).sum();
    // A process outside all raylets may have a host's name only.
    let names: HashSet<&str> = view
        .shown
        .report
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    let on: HashSet<&str> = causes
        .iter()
        .flat_map(|cause| std::iter::once(&cause.death).chain(&cause.cascade))
        .filter_map(|death| death.node.as_deref())
        .filter(|name| names.contains(name))
        .collect();
    format!(
        "{}, {} on {}",
        words::count(causes.len(), "first cause", "first causes"),
        words::count(deaths, "death", "deaths"),
        words::count(on.len(), "node", "nodes")
    )
}

/// `; 61 deaths on 8 nodes followed`.
pub fn followed(cause: &Cause<'_>) -> String {
    let followers = cause.followers();
    if followers.is_empty() {
        return String::new();
    }
    let mut on: Vec<&str> = (followers.iter())
        .filter_map(|death| death.node.as_deref())
        .collect();
    on.sort_unstable();
    on.dedup();
    format!(
        "; {} on {} followed",
        words::count(followers.len(), "death", "deaths"),
        words::count(on.len(), "node", "nodes")
    )
}

/// Returns the name of the node of a recording. Of a recorder that saw several nodes it is that of
/// their host.
pub fn node_of_recording(report: &Report, recording: u32) -> Option<String> {
    let is_own = |node: &&Node| node.recordings.contains(&recording);
    let mut own = report.nodes.iter().filter(is_own);
    let first = own.next()?;
    let several = own.next().is_some();
    let mut recordings = report.recordings.iter();
    let host = recordings.find(|one| several && one.id == recording);
    let name = host.map_or(&first.name, |one| &one.host.name);
    Some(sanitize::name(name))
}

/// `6 nodes: nothing died`.
pub fn quiet_nodes(report: &Report) -> Option<String> {
    let quiet: Vec<&str> = (report.nodes.iter())
        .filter(|node| node.is_known() && node.listed_deaths == 0)
        .map(|node| node.name.as_str())
        .collect();
    let count = words::count(quiet.len(), "node", "nodes");
    (!quiet.is_empty()).then(|| format!("{count} ({}): nothing died", names(&quiet)))
}

/// Returns ` on gpu-01, gpu-02 and 6 more` for the deaths of one line of a cascade. This is empty
/// in a report of one recording.
pub fn on_nodes(deaths: &[&Death]) -> String {
    let mut on: Vec<&str> = deaths
        .iter()
        .filter_map(|death| death.node.as_deref())
        .collect();
    on.sort_unstable();
    on.dedup();
    if on.is_empty() {
        return String::new();
    }
    format!(" on {}", names(&on))
}

/// `a, b and 6 more`.
fn names(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| sanitize::name(name)).collect();
    phrase::first(&names, MAX_NAMES)
}
