//! Finds a full `/dev/shm`, a SIGBUS, or an object store that found no room there.

use libc::SIGBUS;

use super::{Run, about, facts::Node, files_filled, merged};
use crate::{
    event::Role,
    ids::{BootTime, Bytes, SECOND_NS, size},
    judge::{
        report::{Certainty, Death, Finding},
        warning::Warning,
    },
    ray::{
        identify::option,
        start::{Change, Start, most_shared_memory},
    },
};

const PLACE: &str = "/dev/shm";
/// It counts as full from this share on.
const FULL: f64 = 0.95;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    // If a log says that /dev/shm is full, that is reported as another finding.
    let mut warnings = run.facts.log_warnings.iter();
    let warned = warnings.any(|one| one.warning == Warning::SharedMemory);
    let crashes = || {
        let deaths = run.report.deaths.iter();
        deaths.filter(|death| death.end.signal == Some(SIGBUS) && !warned)
    };
    let mut found = merged(crashes().map(|death| (death.cluster, sigbus(run, death))));
    let was_full = |death: &Death| fullest(run, death).is_some_and(|seen| seen.is_full());
    found.extend(run.facts.nodes.iter().enumerate().filter_map(|(number, node)| {
        let place = place_on_disk(node)?;
        // The finding about the full /dev/shm has the size for both.
        let told = crashes().any(|death| run.number(death) == Some(number) && was_full(death));
        let summary = format!(
            "The object store ({}) is in {place}, on a disk, because /dev/shm had no room for it",
            size(node.object_store?)
        );
        let raylet = node.raylet?.pid;
        Some(Finding {
            evidence: vec![format!(
                "command line of raylet {raylet}: --plasma_directory={place}"
            )],
            remedy: if told {
                Vec::new()
            } else {
                let more = more(run, Some(number), larger(None, Some(node)));
                let smaller = format!(
                    "{}: as much as /dev/shm has room for",
                    smaller_store(node.started, Some(node))
                );
                more.into_iter().chain([smaller]).collect()
            },
            ..Finding::new("object-store-on-disk", Certainty::Proven, summary)
        })
    }));
    found
}

fn sigbus(run: Run<'_>, death: &Death) -> Finding {
    let seen = fullest(run, death);
    let full = seen.filter(Usage::is_full);
    let (certainty, summary) = if let Some(Usage { used, total, .. }) = full {
        let (used, total) = (used.finer_size(), total.finer_size());
        (
            Certainty::Inferred,
            format!("SIGBUS with /dev/shm full: {used} of {total}"),
        )
    } else {
        let sampled = match seen {
            Some(_) => "/dev/shm was not full when it was sampled",
            None => "/dev/shm was not sampled",
        };
        (
            Certainty::Unknown,
            format!(
                "SIGBUS: often caused by a file that was truncated while mapped, or by a write into a full /dev/shm; {sampled}"
            ),
        )
    };
    let mut finding = about("shared-memory-full", certainty, death, summary);
    finding.evidence = seen
        .iter()
        .map(|seen| line(seen, death.when.act_time))
        .collect();
    let node = run.node(death);
    let larger = larger(full, node.filter(|node| place_on_disk(node).is_some()));
    finding.remedy = remedy(run, death, larger);
    if full.is_some() {
        finding.cost = Some("none in results or time, if the machine has the memory".into());
        let files = files_filled::most_in(death, PLACE);
        finding.about.shared = files.map(|(files, whose)| format!("{files}, {whose}"));
        let text = "a file that it had mapped was truncated (then its own log names the file)";
        finding.not_if = Some(text.into());
    } else {
        let text =
            "do not truncate a file that a process has mapped: write a new one and rename it";
        // Logs do not say how full /dev/shm was, and Ray's object store lies there.
        let at = if seen.is_none() {
            finding.remedy.len()
        } else {
            0
        };
        finding.remedy.insert(at, text.into());
    }
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

impl Usage {
    fn is_full(&self) -> bool {
        self.used.gib() >= FULL * self.total.gib()
    }
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
    let (used, total) = (seen.used.finer_size(), seen.total.finer_size());
    match seen.looked.map(|looked| looked.since(death) as f64 / 1e9) {
        Some(seconds) if seconds < 0.0 => {
            format!("/dev/shm held {used} of {total} {:.1} s before", -seconds)
        }
        Some(seconds) => format!("/dev/shm held {used} of {total} {seconds:.1} s after"),
        None => format!("it had {used} of shared memory itself; /dev/shm has {total}"),
    }
}

/// Returns where the object store is, if that is not in /dev/shm.
fn place_on_disk(node: &Node) -> Option<&str> {
    option(&node.argv, "plasma-directory").filter(|place| *place != PLACE)
}

/// Returns a size for /dev/shm, and where it comes from. How much was still to be written is not
/// known, so it is twice what was full. An object store on disk needs room for itself and a tenth.
fn larger(full: Option<Usage>, on_disk: Option<&Node>) -> Option<(Bytes, String)> {
    let full = full.map(|full| full.total);
    let store = on_disk.and_then(|node| node.object_store);
    let bytes = full.map_or(0, |full| 2 * full.0) + store.map_or(0, |store| store.0 + store.0 / 10);
    let why = match (full, store) {
        (Some(full), None) => format!("twice the {} that were full", full.finer_size()),
        (Some(full), Some(_)) => format!(
            "twice the {} that were full, and the object store with a tenth more",
            full.finer_size()
        ),
        (None, Some(_)) => "the object store with a tenth more".to_owned(),
        (None, None) => return None,
    };
    Some((Bytes(bytes), format!(" ({why})")))
}

/// Returns what to change where a process found /dev/shm full. A store on disk leaves it to others
/// already.
fn remedy(run: Run<'_>, death: &Death, larger: Option<(Bytes, String)>) -> Vec<String> {
    let node = run.node(death);
    let is_on_disk = node.and_then(place_on_disk).is_some();
    let store = (!is_on_disk).then(|| smaller_store(run.started(death), node));
    let files = files_filled::most_in(death, PLACE);
    // Children of a trainer that load data pass their batches through files there.
    let is_child = death.process.role == Role::Descendant;
    let less = match files {
        Some((files, _)) => Some(format!("drop what is used up of the {files}")),
        None => is_child.then(|| "fewer DataLoader workers".to_owned()),
    };
    let less: Vec<String> = store.into_iter().chain(less).collect();
    let less = (!less.is_empty()).then(|| format!("put less in it: {}", less.join(", ")));
    let more = more(run, run.number(death), larger);
    more.into_iter().chain(less).collect()
}

/// Returns a larger /dev/shm for a node, given the number of its cluster.
fn more(run: Run<'_>, number: Option<usize>, larger: Option<(Bytes, String)>) -> Option<String> {
    let node = number.and_then(|number| run.facts.nodes.get(number));
    let cluster = number.and_then(|number| run.report.clusters.get(number));
    let recording = cluster.map(|cluster| cluster.recording_id);
    let host = run.host(recording);
    let (size, why) = match larger {
        Some((bytes, why)) => {
            let most = host.map_or(bytes, |host| most_shared_memory(host.memory_bytes));
            (bytes <= most).then(|| (format!("{}M", bytes.0 >> 20), why))?
        }
        None => ("SIZE".into(), String::new()),
    };
    let host = host.map(|host| host.name.clone());
    let start = node.map_or(Start::default(), |node| node.started);
    let change = Change::SharedMemory { size, host }.at(start);
    Some(format!("{change}{why}"))
}

/// Returns a smaller object store.
fn smaller_store(start: Start, node: Option<&Node>) -> String {
    let now = node.and_then(|node| node.object_store);
    let now = now.map_or_else(String::new, |now| format!(" (now {})", now.0));
    format!(
        "{}{now}",
        Change::flag("object-store-memory", "BYTES").at(start)
    )
}
