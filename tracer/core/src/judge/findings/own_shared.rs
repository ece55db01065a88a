//! Finds shared memory of a single process: pinned for a GPU, memfd, shared mappings.
//!
//! RSS − SHR, the usual figure, leaves it out. What a process has mapped of the object store or of
//! other files in `/dev/shm` is counted as its shared memory too. What exceeds all of `/dev/shm`
//! cannot be in such files. Processes are not added up, because a fork shares its parent's memory.

use super::{Run, about, facts::Member, remedy};
use crate::{
    event::SharedMemory,
    ids::{BootTime, Bytes, size},
    judge::report::{Certainty, Death, Finding},
    ray::framework::RemedyGoal,
};

/// The process's own shared memory is at least this share of the limit.
const SHARE: f64 = 0.1;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    run.at_limits(|death, limit| {
        let (held, shared) = run
            .inside(death)
            .iter()
            .map(|held| (held, shared(held, death)))
            .max_by_key(|(_, shared)| *shared)?;
        let files = dev_shm_bytes(run, death)?;
        let own = Bytes(shared.0.saturating_sub(files.0));
        (own.gib() >= SHARE * limit.gib()).then(|| {
            let finding = finding(run, death, held, [shared, files, own]);
            ((held.pid, death.cluster), finding)
        })
    })
}

/// Returns the shared memory of a process. For the process that died, it is the value at its last
/// moment, if known.
fn shared(held: &Member, death: &Death) -> Bytes {
    let last = death
        .memory
        .own
        .shmem_bytes
        .filter(|_| held.pid == death.process.pid);
    last.unwrap_or(held.shared)
}

/// Returns what all files in `/dev/shm` held when it was last checked before the kill.
pub(super) fn dev_shm_bytes(run: Run<'_>, death: &Death) -> Option<Bytes> {
    let raylet = run.node(death)?.raylet?;
    let before = |(looked, state): &&(BootTime, SharedMemory)| {
        *looked <= death.when.act_time && raylet.same(state.raylet)
    };
    let looks = run.facts.shared_memory.iter().filter(before);
    let last = looks.max_by_key(|(looked, _)| *looked)?;
    Some(last.1.used)
}

fn finding(run: Run<'_>, death: &Death, held: &Member, bytes: [Bytes; 3]) -> Finding {
    let [.., own] = bytes;
    let [shared, files, own_size] = bytes.map(size);
    let pid = held.pid;
    let who = held.class.as_deref().unwrap_or("a process");
    let summary = format!(
        "{who} (pid {pid}) had {shared} of shared memory, and all of /dev/shm held {files}: {own_size} are its own (pinned for a GPU, memfd, shared mappings), which RSS − SHR leaves out"
    );
    let mut finding = about("private-shared-memory", Certainty::Inferred, death, summary);
    finding.about.bytes = own;
    finding.remedy = vec![format!(
        "count Private_Clean + Private_Dirty + Pss_Shmem of /proc/{pid}/smaps_rollup instead"
    )];
    finding
        .remedy
        .extend(remedy::keys(run, RemedyGoal::LessOnHost, None));
    finding.not_if = Some(
        "several processes map it, for example a parent and its forks (then they share it)".into(),
    );
    finding
}
