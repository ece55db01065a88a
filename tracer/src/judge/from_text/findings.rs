//! What texts say besides deaths: warnings as findings, consequences and counts as notes.

use super::{
    claim::{Gathered, Noted, Warning},
    source,
};
use crate::{
    ids::EventId,
    judge::{
        findings::wrong_suspects,
        report::{Certainty, Death, Finding, Killer},
    },
};

/// Warnings, and victims that were not what grew.
pub(super) fn all(gathered: &Gathered, deaths: &[Death]) -> Vec<Finding> {
    let mut findings = wrong_suspects(deaths);
    let warnings = gathered.remarks.warnings.iter();
    findings.extend(warnings.map(|(warning, noted)| finding(gathered, *warning, noted)));
    findings
}

fn finding(gathered: &Gathered, warning: Warning, noted: &Noted) -> Finding {
    let (rule, summary, remedy) = words(warning);
    let times = if noted.count == 1 {
        String::new()
    } else {
        format!(" ({} lines)", noted.count)
    };
    Finding {
        rule: rule.into(),
        certainty: Certainty::Inferred,
        summary: format!("{summary}{times}"),
        evidence: vec![format!(
            "{}: {}",
            source(gathered, noted.place),
            noted.quote
        )],
        remedy: remedy.iter().map(|remedy| (*remedy).to_owned()).collect(),
        cost: None,
        deaths: Vec::new(),
    }
}

type Words = (&'static str, &'static str, &'static [&'static str]);

fn words(warning: Warning) -> Words {
    match warning {
        Warning::GpuMemory => (
            "gpu-out-of-memory",
            "memory of a GPU ran out; that is no kill and not the node's memory",
            &["lower gpu_memory_utilization or the micro batch size per GPU"],
        ),
        Warning::SharedMemory => (
            "shared-memory-small",
            "/dev/shm is too small or full; nobody is killed for that, but Ray falls back to a disk and a write may end in SIGBUS",
            &[
                "docker run --shm-size, or an emptyDir of medium Memory on /dev/shm",
                "a smaller --object-store-memory",
            ],
        ),
        Warning::ObjectStore => (
            "object-store-pressure",
            "the object store is full: Ray spills objects or puts them on disk; that is slow, and no kill",
            &[
                "drop references to objects sooner",
                "ray start --object-store-memory=BYTES",
            ],
        ),
        Warning::Disk => (
            "disk-full",
            "a disk is full; that is not memory",
            &["df -h /tmp; remove old sessions under /tmp/ray"],
        ),
        Warning::Allocation => (
            "allocation-refused",
            "an allocation was refused: the process got an exception, nobody was killed",
            &["ulimit -v; cat /proc/sys/vm/overcommit_memory"],
        ),
        Warning::Setting => ("setting-refused", "a setting was refused", &[]),
        Warning::NoVictim => (
            "monitor-without-victim",
            "Ray's memory monitor wanted to kill and found no worker that it may kill: the memory is held by others",
            &["look at the driver, the dashboard agent, gcs_server and processes outside Ray"],
        ),
    }
}

/// After-effects, Ray's own count against what was found, and what was not kept.
pub(super) fn notes(gathered: &Gathered, deaths: &[Death]) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(after_effects(gathered, deaths));
    notes.extend(count(gathered, deaths));
    let repeated = gathered.remarks.repeated;
    if repeated > 0 {
        notes.push(format!(
            "Ray's driver folded {repeated} more lines into the shown ones (\"repeated across cluster\"): as many deaths may be missing; RAY_DEDUP_LOGS=0 shows them"
        ));
    }
    if gathered.dossiers.skipped > 0 {
        notes.push(format!(
            "{} claims were not kept: too many",
            gathered.dossiers.skipped
        ));
    }
    notes
}

fn after_effects(gathered: &Gathered, deaths: &[Death]) -> Option<String> {
    let effects = &gathered.remarks.after_effects;
    let lines: u64 = effects.values().map(|noted| noted.count).sum();
    if lines == 0 {
        return None;
    }
    let kinds: Vec<&str> = effects.keys().copied().collect();
    let first = first_cause(deaths).map_or_else(
        || "their cause is not in the text".to_owned(),
        |id| format!("look at death {} first", id.0),
    );
    Some(format!(
        "after-effects: {lines} lines ({}) follow sudden deaths and are not causes; {first}",
        kinds.join(", ")
    ))
}

fn first_cause(deaths: &[Death]) -> Option<EventId> {
    let first = deaths
        .iter()
        .find(|death| death.listed && death.verdict.cause_death_id.is_none());
    first.map(|death| death.id)
}

/// `Ray's own count: 3 killed for memory, 1 for other reasons; found 3 and 1: agrees`.
fn count(gathered: &Gathered, deaths: &[Death]) -> Option<String> {
    let summaries = &gathered.remarks.summaries;
    if summaries.is_empty() {
        return None;
    }
    let memory: u64 = summaries.values().map(|(memory, _)| memory).sum();
    let other: u64 = summaries.values().map(|(_, other)| other).sum();
    let named =
        |death: &&Death| death.pid.0 != 0 || death.worker_id.is_some() || death.actor_id.is_some();
    let by_ray = |death: &&Death| death.verdict.killer == Killer::RayMemoryMonitor;
    let found = deaths.iter().filter(named).filter(by_ray).count() as u64;
    let rest = deaths
        .iter()
        .filter(named)
        .filter(|death| !by_ray(death) && death.listed)
        .count() as u64;
    let verdict = match (super::nameless::missing(gathered), found > memory) {
        (0, false) => "agrees".to_owned(),
        (0, true) => "the last minute, or other nodes, are not in the count".to_owned(),
        (missing, _) => format!("{missing} more stand in raylet.out of the nodes"),
    };
    Some(format!(
        "Ray's own count: {memory} killed for memory, {other} for other reasons; named in the texts: {found} and {rest}: {verdict}"
    ))
}
