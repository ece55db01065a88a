//! Advises on ranks with copies of the whole model: half the precision, ranks, or both.

use super::{
    Run, leads, precision,
    ranks::{self, FewerRanks},
};
use crate::{
    ids::Bytes,
    judge::report::{Finding, Saving},
};

/// Evidence that says why one of the two settings is not enough.
const STILL_TO_COME: &str = "killed before the optimizer's first step: gradients and optimizer states (three times the parameters) were still to come; one of the two settings alone helps at this peak only";

/// What the ranks of a class hold.
pub(super) struct Copies {
    pub(super) class: Option<String>,
    /// What their copies took.
    pub(super) copies: Bytes,
    /// All that the ranks hold, which a removed rank gives back.
    pub(super) held: Bytes,
    /// Whether there is more than one rank.
    pub(super) several: bool,
    /// Whether the optimizer's states were still to come on the host.
    pub(super) before_optimizer: bool,
    /// Whether they were in the call that trains, which has the highest peak.
    pub(super) training: bool,
}

/// Puts settings that make the copies smaller before other remedies. Returns whether there is such
/// a setting.
pub(super) fn add_smaller_copies(run: Run<'_>, ranks: &Copies, finding: &mut Finding) -> bool {
    let fewer = ranks::half_the_ranks(run).filter(|_| ranks.several);
    let precision = precision::bfloat16_setting(run);
    let saving = |bytes| Saving::of(ranks.class.as_deref(), bytes);
    if let (Some(fewer), Some(precision), true) = (&fewer, &precision, ranks.before_optimizer) {
        // Nothing was seen of a peak that is still to come.
        let left = (1.0 - fewer.share()) * (1.0 - precision::SHARE);
        let bytes = ranks.copies.times(1.0 - left);
        finding.saving = ranks.training.then(|| saving(bytes));
        finding.remedy.insert(0, both(precision, fewer));
        finding.cost = Some(format!("{}; {}", precision::COST, fewer.cost()));
        finding.evidence.push(STILL_TO_COME.to_owned());
        finding.about.before_optimizer = true;
        return true;
    }
    let known = fewer.is_some() || precision.is_some();
    if let Some(fewer) = fewer {
        let bytes = ranks.held.times(fewer.share());
        // If there is another setting, that is the first remedy, and the finding has its cost.
        let text = match precision {
            Some(_) => format!("{} (cost: {})", fewer.text(), fewer.cost()),
            None => fewer.text(),
        };
        leads(finding, text, saving(bytes), &fewer.cost());
    }
    if let Some(precision) = precision {
        let bytes = ranks.copies.times(precision::SHARE);
        leads(finding, precision, saving(bytes), precision::COST);
    }
    known
}

/// Joins two settings into one remedy, as they are typed: `+a.model_dtype=bf16 b.ranks=1 (now 2):
/// set both, …`, or with `(now fp32 and 2)`.
fn both(precision: &str, fewer: &FewerRanks) -> String {
    let (dtype, now) = match precision.split_once(" (now ") {
        Some((typed, now)) => (typed, format!("{} and ", now.trim_end_matches(')'))),
        None => (precision, String::new()),
    };
    format!(
        "{dtype} {}={} (now {now}{}): set both: one alone is enough for this peak, but not for the optimizer's first step, which comes next and needs all gradients and its states",
        fewer.key, fewer.value, fewer.now
    )
}
