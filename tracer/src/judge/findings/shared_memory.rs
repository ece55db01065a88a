//! /dev/shm full, a SIGBUS of one, or an object store that found no room there.

use super::{Run, about, merged};
use crate::{
    event::SharedMemory,
    ids::BootTime,
    judge::{
        oom::size,
        report::{Certainty, Death, Finding},
    },
    ray::identify::option,
};

/// Full.
const FULL: f64 = 0.95;
/// SIGBUS.
const SIGBUS: i32 = 7;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let crashes = run
        .report
        .deaths
        .iter()
        .filter(|death| death.signal == Some(SIGBUS));
    let mut found = merged(crashes.map(|death| (death.cluster, sigbus(run, death))));
    found.extend(run.world.clusters.iter().filter_map(|cluster| {
        let raylet = run.world.processes.get(cluster.raylet)?;
        let place = option(&raylet.argv, "plasma-directory").filter(|place| *place != "/dev/shm")?;
        let cap = cluster.object_store_bytes?;
        Some(Finding {
            rule: "object-store-on-disk".into(),
            certainty: Certainty::Proven,
            summary: format!(
                "the object store ({}) lies in {place}, on a disk, because /dev/shm had no room for it",
                size(cap)
            ),
            evidence: vec![format!("command line of raylet {}: --plasma_directory={place}", cluster.raylet.pid)],
            remedy: remedy(),
            cost: None,
            deaths: Vec::new(),
        })
    }));
    found
}

fn sigbus(run: Run<'_>, death: &Death) -> Finding {
    let full = shared_memory(run, death.act_time).filter(|(used, total)| *used >= FULL * total);
    let (certainty, summary) = match full {
        Some((used, total)) => (
            Certainty::Inferred,
            format!("SIGBUS with /dev/shm full: {used:.1} of {total:.1} GiB"),
        ),
        None => (
            Certainty::Unknown,
            "SIGBUS: a write into a full /dev/shm does that, and so does a file that was cut while it was mapped; /dev/shm was not seen full"
                .to_owned(),
        ),
    };
    let mut finding = about("shared-memory-full", certainty, death, summary);
    finding.remedy = remedy();
    finding
}

/// The fullest /dev/shm that was seen up to a second after `time`, in GiB.
fn shared_memory(run: Run<'_>, time: BootTime) -> Option<(f64, f64)> {
    let before = |(seen, _): &&(BootTime, SharedMemory)| seen.since(time) < 1_000_000_000;
    let seen = run.world.shared_memory.iter().filter(before);
    let (_, last) = seen.max_by_key(|(seen, state)| (*seen, state.used))?;
    Some((last.used.gib(), last.total.gib()))
}

fn remedy() -> Vec<String> {
    vec![
        "docker run --shm-size=SIZE, or an emptyDir of medium Memory on /dev/shm".into(),
        "a smaller ray start --object-store-memory, fewer DataLoader workers".into(),
    ]
}
