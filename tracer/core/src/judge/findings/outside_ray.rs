//! Finds memory outside this Ray: other programs, the kernel, the page cache of a tmpfs.

use libc::SIGKILL;

use super::{Run, about, merged};
use crate::{
    ids::{Bytes, SECOND_NS, size},
    judge::report::{Certainty, Death, Finding, Killer},
};

/// More than this share of all that Ray counts.
const SHARE: f64 = 0.25;
/// What a process held is counted for so long after its end began: Ray's figure is from before its
/// decision, and freeing gigabytes takes the kernel seconds.
const FREED_NS: i64 = 5 * SECOND_NS;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let by_ray = run
        .memory_kills()
        .filter(|death| death.verdict.killer == Killer::RayMemoryMonitor);
    let found = by_ray.filter_map(|death| {
        let used = death.memory.at_death.as_ref()?.ray_used_bytes?;
        let total = run.monitor(death)?.total_bytes?;
        let (tracked, node) = run.limit_members(death)?.sums.as_ref()?;
        // All shared memory of the machine is taken for Ray's, so the rest is certainly outside it.
        let rays = Bytes(tracked.0 + node.shmem.0 + ended_before(run, death).0);
        let outside = Bytes(used.0.saturating_sub(rays.0));
        if outside.gib() <= SHARE * total.gib() {
            return None;
        }
        let summary = format!(
            "{} of the {} that Ray counted do not belong to this Ray: its processes held {}, and all shared memory is {}",
            size(outside),
            size(used),
            size(*tracked),
            size(node.shmem)
        );
        let mut finding = about("outside-ray", Certainty::Inferred, death, summary);
        finding.about.bytes = outside;
        finding.evidence = vec!["sampled once a second: growth within the last second is not included".into()];
        finding.remedy = vec![
            "ps -eo pid,rss,user,args --sort=-rss | head".into(),
            "give Ray a memory limit of its own (a container or pod limit), so that it counts only itself".into(),
        ];
        finding.not_if = Some("a Ray process grew by as much within the last second".into());
        Some((death.cluster, finding))
    });
    merged(found)
}

/// Returns what processes held that were killed shortly before this kill, by another act. The
/// members of the limit are counted already.
fn ended_before(run: Run<'_>, kill: &Death) -> Bytes {
    let inside = run.inside(kill);
    let before = |death: &&Death| {
        let since = kill.when.act_time.since(death.when.act_time);
        death.cluster == kill.cluster
            && (1..=FREED_NS).contains(&since)
            && death.end.signal == Some(SIGKILL)
            && !inside.iter().any(|held| held.pid == death.process.pid)
    };
    let ended = run.report.deaths.iter().filter(before);
    let held = ended.filter_map(|death| death.memory.own.private());
    Bytes(held.map(|held| held.0).sum())
}
