//! Reports that the size of the object store is a maximum and not reserved.
//!
//! A smaller size gives back only what the store holds.

use super::{Run, about};
use crate::{
    event::SharedMemory,
    ids::{BootTime, size},
    judge::report::{Certainty, Finding},
};

/// Below this share of the limit the object store is not what filled it.
const SHARE: f64 = 0.1;
/// Settings that show that somebody takes the size for reserved.
const BELIEVED: [&str; 2] = ["RAY_object_store_memory", "ray_init.object_store_memory"];

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let believed = super::settings::rows(run.facts, run.report)
        .into_iter()
        .find(|row| BELIEVED.iter().any(|key| row.setting.key.ends_with(key)));
    let Some(believed) = believed else {
        return Vec::new();
    };
    let found = run.memory_kills().find_map(|death| {
        let limit = run.limit(death)?;
        let cap = run.node(death)?.object_store?;
        let before = |(seen, _): &&(BootTime, SharedMemory)| seen.since(death.when.act_time) <= 0;
        let seen = run.facts.shared_memory.iter().filter(before);
        let used = seen.max_by_key(|(seen, _)| *seen)?.1.used;
        if used.gib() > SHARE * limit.gib() {
            return None;
        }
        let summary = format!(
            "The object store is not the problem: /dev/shm held {} of at most {}, {:.0} % of the limit of {}; its size is a maximum, not reserved",
            size(used),
            size(cap),
            100.0 * used.gib() / limit.gib(),
            size(limit)
        );
        let mut finding = about("object-store-not-reserved", Certainty::Inferred, death, summary);
        finding.evidence = vec![format!("{}={}, {}", believed.setting.key, believed.setting.value, believed.setting.source)];
        Some(finding)
    });
    found.into_iter().collect()
}
