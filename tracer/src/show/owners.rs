//! Describes the peak memory of actor classes and tasks, as count × size.

use crate::{
    ids::Bytes,
    judge::report::{Death, Owner, OwnerKind, Report},
    show::{
        facts, fleet, sanitize,
        size::size,
        words::{self, HeldByClass},
    },
};

/// Maximum number of classes that are named.
const MOST: usize = 4;
/// Maximum number of recordings that have a line.
const MAX_RECORDINGS: usize = 8;
/// Maximum number of actors of a class that are named.
const NAMED: usize = 3;
/// Minimum peak of a class that is named. A smaller class did not fill a node.
const LEAST: u64 = 256 << 20;

/// Returns `Peaks` and the classes. In a report of several recordings, each has a line, with the
/// name of its node.
pub(super) fn lines(report: &Report) -> Vec<(String, String)> {
    if !fleet::is_fleet_report(report) {
        let line = line(report, None);
        return line
            .map(|line| ("Peaks".to_owned(), line))
            .into_iter()
            .collect();
    }
    let recordings = report.recordings.iter().map(|recording| recording.id);
    let told = recordings.filter_map(|id| {
        let on = fleet::node_of_recording(report, id);
        let on = on.map_or_else(String::new, |node| format!(" on {node}"));
        Some((format!("Peaks{on}"), line(report, Some(id))?))
    });
    let mut told: Vec<(String, String)> = told.collect();
    let more = told.len().saturating_sub(MAX_RECORDINGS);
    told.truncate(MAX_RECORDINGS);
    if more > 0 {
        let more = words::count(more, "more recording", "more recordings");
        told.push(("Peaks".to_owned(), format!("{more} (--format json)")));
    }
    told
}

/// `load 15 × 1.2 GiB = 18.0 GiB, Rollout 1 × 3.1 GiB (+200 MiB a call)`.
fn line(report: &Report, recording: Option<u32>) -> Option<String> {
    let named = |owner: &&Owner| {
        let peak = owner.private_peak_bytes.unwrap_or_default();
        let of_a_job = matches!(
            owner.kind,
            OwnerKind::Actor | OwnerKind::Task | OwnerKind::Subprocess
        );
        owner.recording_id == recording && of_a_job && peak.0 >= LEAST
    };
    let of_it = |death: &&Death| recording.is_none() || death.recording_id == recording;
    let mut deaths = report.deaths.iter().filter(of_it);
    let counts_twice = deaths.any(|death| facts::counted_twice(death).is_some());
    let shares = |owner: &Owner| counts_twice && owner.kind == OwnerKind::Subprocess;
    let mut owners: Vec<&Owner> = report.owners.iter().filter(named).collect();
    // What they count may be their parent's.
    owners.sort_by_key(|owner| shares(owner));
    let owners = owners.into_iter().take(MOST);
    let owners: Vec<String> = owners.map(|owner| one(owner, shares(owner))).collect();
    (!owners.is_empty()).then(|| owners.join(", "))
}

/// `shares` says that the processes count what they share with their parent: it is not added up.
fn one(owner: &Owner, shares: bool) -> String {
    let name = sanitize::name(&owner.shown_class());
    let all = owner.private_peak_bytes.unwrap_or_default();
    if shares {
        let held = HeldByClass {
            class: name,
            processes: owner.processes.into(),
            private: all,
            top: Vec::new(),
        };
        return held.amount_with_shared();
    }
    let each = Bytes(all.0 / u64::from(owner.processes.max(1)));
    let largest = owner.largest_bytes.filter(|_| owner.processes > 1);
    // The largest may have held that at another time.
    let uneven = largest.filter(|largest| words::is_uneven(*largest, each));
    let mut text = match (owner.processes, uneven) {
        (many, Some(largest)) => {
            format!(
                "{name} {} in {many} (one alone up to {})",
                size(all),
                words::size_of_one(largest)
            )
        }
        (0 | 1, None) => format!("{name} 1 × {}", words::size_of_one(each)),
        (many, None) => format!(
            "{name} {many} × {} = {}",
            words::size_of_one(each),
            size(all)
        ),
    };
    if let Some(per_call) = owner.per_call_bytes {
        text.push_str(&format!(" (+{} a call)", per_call.finer_size()));
    }
    let names = owner.gcs.as_ref().map(|gcs| gcs.actor_names.as_slice());
    if let Some(names) = names.and_then(named) {
        text.push_str(&names);
    }
    text
}

/// ` (actors left, right, …)`
fn named(names: &[String]) -> Option<String> {
    let plural = if names.len() > 1 { "s" } else { "" };
    let more = if names.len() > NAMED { ", …" } else { "" };
    let shown: Vec<String> = names
        .iter()
        .take(NAMED)
        .map(|name| sanitize::name(name))
        .collect();
    (!shown.is_empty()).then(|| format!(" (actor{plural} {}{more})", shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        judge::report::GcsOwner,
        show::sample::{self, gib},
    };

    /// The memory that a child made by fork shares with its parent is never added.
    #[test]
    fn shares_of_children_are_not_added() {
        let children = Owner {
            class: "TaskRunner.run".into(),
            kind: OwnerKind::Subprocess,
            processes: 2,
            private_peak_bytes: Some(gib(6.8)),
            ..Owner::default()
        };
        assert_eq!(
            one(&children, true),
            "2 TaskRunner.run (subprocess), 3.4 GiB each with what they share with their parent"
        );
        let told = one(&children, false);
        assert!(told.ends_with("2 × 3.4 GiB = 6.8 GiB"), "{told}");
    }

    /// The sum is not that of the size of one, where none had that size.
    #[test]
    fn uneven_sizes_are_not_multiplied() {
        let uneven = Owner {
            class: "WorkerDict".into(),
            processes: 2,
            private_peak_bytes: Some(gib(6.4)),
            largest_bytes: Some(gib(3.7)),
            ..Owner::default()
        };
        assert_eq!(
            one(&uneven, false),
            "WorkerDict 6.4 GiB in 2 (one alone up to 3.7 GiB)"
        );
    }

    /// Small classes and Ray's own processes are left out.
    #[test]
    fn owners_are_shown_as_count_times_size() {
        let owner = |class: &str, kind, processes: u32, each: f64| Owner {
            class: class.into(),
            kind,
            processes,
            private_peak_bytes: Some(gib(each * f64::from(processes))),
            ..Owner::default()
        };
        let mut report = sample::report(Vec::new(), Vec::new());
        let mut growing = owner("Rollout", OwnerKind::Actor, 1, 3.1);
        growing.per_call_bytes = Some(Bytes(200 << 20));
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        growing.gcs = Some(GcsOwner {
            actor_names: names.into(),
            ..GcsOwner::default()
        });
        report.owners = vec![
            owner("load", OwnerKind::Task, 15, 1.2),
            growing,
            owner("raylet", OwnerKind::Ray, 1, 2.0),
            owner("step", OwnerKind::Task, 13, 0.2),
            owner("small", OwnerKind::Task, 1, 0.1),
        ];
        assert_eq!(
            line(&report, None).as_deref(),
            Some(
                "load 15 × 1.2 GiB = 18.0 GiB, Rollout 1 × 3.1 GiB (+200 MiB a call) (actors a, b, c, …), \
                 step 13 × 205 MiB = 2.6 GiB"
            )
        );
    }
}
