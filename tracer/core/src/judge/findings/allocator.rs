//! Finds memory that tasks freed and the allocator kept.
//!
//! It stays resident in workers between tasks. The next task reuses it, but nobody else can use it
//! meanwhile.
//!
//! Frees are not recorded. What is seen is the level at which a worker's tasks begin: it rises with
//! the first tasks and then stays, although a task leaves nothing behind on purpose. Actors may, so
//! they are not reported. A level that still rises is reported by `leak`.

use std::collections::BTreeMap;

use super::{LINES, Run, about, facts::Member, part_of::part_of, ray_remote::is_user_code};
use crate::{
    ids::Bytes,
    judge::{
        report::{Certainty, Finding},
        state::calls::ReusedMemory,
    },
    phrase,
};

/// Less than this in a worker is taken for its modules and caches.
const LEAST: Bytes = Bytes(256 << 20);
/// The workers together keep at least this share of the limit.
const SHARE: f64 = 0.1;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    run.at_limits(|death, limit| {
        let mut tasks: BTreeMap<&str, Vec<(&Member, &ReusedMemory)>> = BTreeMap::new();
        for held in run.inside(death) {
            if let Some(reused) = held.reused.as_deref().filter(|reused| reused.kept >= LEAST) {
                tasks.entry(&reused.task).or_default().push((held, reused));
            }
        }
        let sum = |of: &[(&Member, &ReusedMemory)]| Bytes(of.iter().map(|(_, reused)| reused.kept.0).sum());
        let (task, workers) = tasks.into_iter().max_by_key(|(_, of)| sum(of))?;
        let kept = sum(&workers);
        if kept.gib() < SHARE * limit.gib() {
            return None;
        }
        let [part, percent, whole] = part_of(kept, limit);
        let summary = format!(
            "{} held {part} between tasks ({task} first) that later tasks reused without adding to it: freed by the task, kept by the allocator, {percent} of the limit of {whole}",
            phrase::count(workers.len(), "worker", "workers")
        );
        let mut finding = about("allocator-keeps", Certainty::Inferred, death, summary);
        finding.evidence = workers.iter().take(LINES).map(|(held, reused)| line(held, reused)).collect();
        finding.remedy = vec![
            format!("max_calls=1 in the @ray.remote of {task}: its worker exits after the task and frees all of it"),
            "runtime_env={\"env_vars\": {\"MALLOC_TRIM_THRESHOLD_\": \"131072\"}}: glibc then returns each freed block of 128 KiB or more to the kernel, which it stops doing once large blocks were freed".into(),
            "MALLOC_ARENA_MAX=2 in its env_vars, where many threads allocate, or LD_PRELOAD of libjemalloc or libtcmalloc".into(),
        ];
        if is_user_code(run, task) {
            finding.cost = Some("a new process for each task".into());
        } else {
            finding.remedy.remove(0);
        }
        finding.about.bytes = kept;
        finding.not_if = Some(
            "it is modules or caches that the first task loads (then ctypes.CDLL(None).malloc_trim(0) at the end of the task does not lower it)".into(),
        );
        Some(((task.to_owned(), death.cluster), finding))
    })
}

fn line(held: &Member, reused: &ReusedMemory) -> String {
    format!(
        "pid {}: {} more than before its first task when each of {} later ones began",
        held.pid,
        reused.kept.finer_size(),
        reused.calls.saturating_sub(1)
    )
}
