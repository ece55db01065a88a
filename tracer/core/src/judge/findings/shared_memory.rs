//! Finds a full `/dev/shm`, a SIGBUS, or an object store that found no room there.

use libc::SIGBUS;

use super::{
    Run, about, merged,
    rules::{Kind, Needs, Rule},
};
use crate::{
    ids::{BootTime, Bytes, SECOND_NS, size},
    judge::{
        report::{Certainty, Death, Finding},
        warning::Warning,
    },
    ray::{
        identify::option,
        start::{Change, Start},
    },
};

/// `/dev/shm` counts as full from this share on.
const FULL: f64 = 0.95;

/// The rule.
pub(super) const RULE: Rule = Rule {
    ids: &["shared-memory-full", "object-store-on-disk"],
    kind: Kind::Note,
    needs: Needs::Nothing,
    contradicts: &[],
    find,
};

fn find(run: Run<'_>) -> Vec<Finding> {
    // If a log says that /dev/shm is full, that is reported as another finding.
    let mut warnings = run.facts.log_warnings.iter();
    let warned = warnings.any(|one| one.warning == Warning::SharedMemory);
    let crashes = run
        .report
        .deaths
        .iter()
        .filter(|death| death.end.signal == Some(SIGBUS) && !warned);
    let mut found = merged(crashes.map(|death| (death.cluster, sigbus(run, death))));
    found.extend(run.facts.nodes.iter().filter_map(|node| {
        let place = option(&node.argv, "plasma-directory").filter(|place| *place != "/dev/shm")?;
        let summary = format!(
            "The object store ({}) is in {place}, on a disk, because /dev/shm had no room for it",
            size(node.object_store?)
        );
        let raylet = node.raylet?.pid;
        Some(Finding {
            evidence: vec![format!(
                "command line of raylet {raylet}: --plasma_directory={place}"
            )],
            remedy: remedy(node.started),
            ..Finding::new("object-store-on-disk", Certainty::Proven, summary)
        })
    }));
    found
}

fn sigbus(run: Run<'_>, death: &Death) -> Finding {
    let seen = fullest(run, death);
    let full = seen.filter(|seen| seen.used.gib() >= FULL * seen.total.gib());
    let (certainty, summary) = match full {
        Some(Usage { used, total, .. }) => (
            Certainty::Inferred,
            format!(
                "SIGBUS with /dev/shm full: {} of {}",
                used.fine(),
                total.fine()
            ),
        ),
        None => (
            Certainty::Unknown,
            "SIGBUS: caused by a write into a full /dev/shm, or by a file that was truncated while mapped; /dev/shm was not full when it was sampled"
                .to_owned(),
        ),
    };
    let mut finding = about("shared-memory-full", certainty, death, summary);
    finding.evidence = seen
        .iter()
        .map(|seen| line(seen, death.when.act_time))
        .collect();
    finding.remedy = remedy(run.started(death));
    finding.not_if =
        Some("a file that it had mapped was truncated (then its own log names the file)".into());
    finding
}

/// What was known to be in use of /dev/shm, and how that is known.
#[derive(Clone, Copy)]
struct Usage {
    used: Bytes,
    total: Bytes,
    /// When it was looked at; `None` for what the dead process itself had mapped.
    looked: Option<BootTime>,
}

/// Returns how full /dev/shm was when the process died.
///
/// A later look may find it empty, because files that only the dead process had open are gone. The
/// fullest of these counts: the last look before the death, looks in the second after it, and what
/// the kernel counted as shared memory of the dead process.
fn fullest(run: Run<'_>, death: &Death) -> Option<Usage> {
    let time = death.when.act_time;
    let raylet = run.node(death).and_then(|node| node.raylet);
    let looks = || {
        let all = run.facts.shared_memory.iter();
        all.filter(move |(_, state)| raylet.is_none_or(|raylet| raylet.same(state.raylet)))
    };
    let (before, last) = looks()
        .filter(|(looked, _)| *looked <= time)
        .max_by_key(|(looked, _)| *looked)
        .map_or((None, None), |(looked, state)| (Some(*looked), Some(state)));
    let near = looks().filter(|(looked, _)| {
        Some(*looked) == before || (0..SECOND_NS).contains(&looked.since(time))
    });
    let near = near.map(|(looked, state)| Usage {
        used: state.used,
        total: state.total,
        looked: Some(*looked),
    });
    let total = last.map(|state| state.total);
    let own = death.memory.own.shmem_bytes.zip(total);
    // More than fits is not, or not all, in /dev/shm: memfd and pinned memory count as shared too.
    let own = own
        .filter(|(used, total)| used <= total)
        .map(|(used, total)| Usage {
            used,
            total,
            looked: None,
        });
    near.chain(own).max_by_key(|seen| (seen.used, seen.looked))
}

fn line(seen: &Usage, death: BootTime) -> String {
    let (used, total) = (seen.used.fine(), seen.total.fine());
    match seen.looked.map(|looked| looked.since(death) as f64 / 1e9) {
        Some(seconds) if seconds < 0.0 => {
            format!("/dev/shm held {used} of {total} {:.1} s before", -seconds)
        }
        Some(seconds) => format!("/dev/shm held {used} of {total} {seconds:.1} s after"),
        None => format!("it had {used} of shared memory itself; /dev/shm has {total}"),
    }
}

fn remedy(start: Start) -> Vec<String> {
    vec![
        Change::SharedMemory("SIZE".into()).at(start),
        format!(
            "put less in it: {}, fewer DataLoader workers",
            Change::flag("object-store-memory", "LOWER").at(start)
        ),
    ]
}
