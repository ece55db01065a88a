//! Pinned host memory comes in powers of two: what is asked for a rank may cost nearly twice that.

use super::Run;
use crate::judge::report::{Certainty, Finding};

/// Keys whose GiB are pinned for each rank.
const KEYS: [&str; 2] = ["kv_offloading_size", "cpu_offload_gb"];
/// More than this share above what was asked is worth a word.
const WASTE: f64 = 0.25;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    if run.memory_kills().next().is_none() {
        return Vec::new();
    }
    let given = super::settings::of_framework(run.facts);
    let pinned = given.iter().filter(|one| !one.overruled).filter(|one| {
        let key = one.key.replace('-', "_");
        KEYS.iter().any(|known| key.ends_with(known))
    });
    let found = pinned.filter_map(|one| {
        let asked: f64 = one.value.parse().ok().filter(|asked| *asked > 0.0)?;
        let taken = 2f64.powf(asked.log2().ceil());
        if taken < (1.0 + WASTE) * asked {
            return None;
        }
        let summary = format!(
            "{}={} may take {taken:.0} GiB of host memory for each rank: pinned memory is handed out in powers of two",
            one.key, one.value
        );
        Some(Finding {
            evidence: vec![one.source.clone()],
            remedy: vec![format!("{}={:.0} (or {taken:.0}, if that fits)", one.key, taken / 2.0)],
            cost: Some("less room for the offloaded blocks".into()),
            wrong_if: Some("its torch rounds only small allocations up (pinned_max_power2_size_mb, or vLLM with blocks of its own)".into()),
            deaths: run.memory_kills().map(|death| death.id).collect(),
            ..Finding::new("pinned-rounded-up", Certainty::Inferred, summary)
        })
    });
    found.collect()
}
