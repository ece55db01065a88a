//! Finds pinned host memory that was rounded up to a power of two.
//!
//! What is asked for an engine may cost nearly twice as much.

use super::Run;
use crate::judge::report::{Certainty, Finding};

/// The setting of the GiB for all ranks of an engine together.
const KEY: &str = "kv_offloading_size";
/// Settings of the number of ranks of an engine.
const RANKS: [&str; 2] = ["tensor_model_parallel_size", "tensor_parallel_size"];
/// At least this share above what was asked is worth reporting.
const WASTE: f64 = 0.25;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let given = super::settings::of_framework(run.facts);
    let in_force = |keys: &'static [&'static str]| {
        given.iter().filter(move |one| {
            let key = one.key.replace('-', "_");
            !one.overruled && keys.iter().any(|known| key.ends_with(known))
        })
    };
    let ranks = in_force(&RANKS).find_map(|one| one.value.parse::<u32>().ok());
    let ranks = ranks.filter(|ranks| *ranks > 0);
    let found = in_force(&[KEY]).filter_map(|one| {
        let asked: f64 = one.value.parse().ok().filter(|asked| *asked > 0.0)?;
        // Engines have one rank, or a power of two.
        let count = f64::from(ranks.unwrap_or(1));
        let taken = 2f64.powf((asked / count).log2().ceil()) * count;
        if taken < (1.0 + WASTE) * asked {
            return None;
        }
        let of = match ranks {
            Some(ranks) if ranks > 1 => format!("each engine, {} for each of its {ranks} ranks", gib(taken / count)),
            _ => "each engine, all its ranks together".to_owned(),
        };
        let summary = format!(
            "{}={} may take {} of host memory for {of}: pinned memory is allocated in powers of two",
            one.key, one.value, gib(taken)
        );
        Some(Finding {
            evidence: vec![one.source.clone()],
            remedy: vec![format!("{}={} (or {taken}, if that fits)", one.key, taken / 2.0)],
            cost: Some("less room for the offloaded blocks".into()),
            not_if: Some("its torch rounds up small allocations only (pinned_max_power2_size_mb, or a vLLM that allocates its own blocks)".into()),
            deaths: run.memory_kills().map(|death| death.id).collect(),
            ..Finding::new("pinned-power-of-two", Certainty::Inferred, summary)
        })
    });
    found.collect()
}

/// Formats GiB, with a fraction only if there is one.
fn gib(gib: f64) -> String {
    format!("{gib} GiB")
}
