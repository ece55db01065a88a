//! Memory of each class in both recordings.

use super::{OwnerChange, OwnerSide};
use crate::judge::report::Report;

/// All classes, the largest change of the peak first.
pub(super) fn changes(a: &Report, b: &Report) -> Vec<OwnerChange> {
    let owners = a.owners.iter().chain(&b.owners);
    let mut classes: Vec<&str> = owners.map(|owner| owner.class.as_str()).collect();
    classes.sort_unstable();
    classes.dedup();
    let mut changes: Vec<OwnerChange> = classes
        .into_iter()
        .map(|class| OwnerChange {
            class: class.to_owned(),
            a: side(a, class),
            b: side(b, class),
        })
        .collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.peak_delta().unsigned_abs()));
    changes
}

fn side(report: &Report, class: &str) -> Option<OwnerSide> {
    let owner = report.owners.iter().find(|owner| owner.class == class)?;
    Some(OwnerSide {
        processes: owner.processes,
        private_peak_bytes: owner.private_peak_bytes,
        per_call_bytes: owner.per_call_bytes,
    })
}

impl OwnerChange {
    /// By how much the peak of its private memory rose from the first to the second, in bytes.
    #[must_use]
    pub fn peak_delta(&self) -> i128 {
        let peak = |side: Option<OwnerSide>| {
            let bytes = side.and_then(|side| side.private_peak_bytes);
            i128::from(bytes.map_or(0, |bytes| bytes.0))
        };
        peak(self.b) - peak(self.a)
    }
}
