//! Whether what findings expected to save was saved: by the peaks of the class that they named.

use super::{OwnerChange, OwnerSide, SavingSeen};
use crate::judge::report::Report;

/// One for each finding of the first report that expected something of a class that ran in both.
pub(super) fn seen(a: &Report, owners: &[OwnerChange]) -> Vec<SavingSeen> {
    let found = a.findings.iter().filter_map(|finding| {
        let saving = finding.saving.as_ref()?;
        let class = saving.class.clone()?;
        let owner = owners.iter().find(|owner| owner.class == class)?;
        let peak = |side: Option<OwnerSide>| side?.private_peak_bytes;
        let (before, after) = (peak(owner.a)?, peak(owner.b)?);
        Some(SavingSeen {
            rule: finding.rule.clone(),
            class,
            expected_bytes: saving.bytes,
            seen_bytes: before.0.cast_signed() - after.0.cast_signed(),
        })
    });
    found.collect()
}
