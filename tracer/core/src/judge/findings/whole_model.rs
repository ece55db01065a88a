//! What to turn where each rank holds a copy of the whole model: half the precision, half as many ranks, or both.

use super::{Run, leads, precision, ranks};
use crate::{
    ids::Bytes,
    judge::report::{Finding, Saving},
};

/// Why one of the two is not enough.
const STILL_TO_COME: &str = "killed before the optimizer's first step: gradients and the optimizer's states, three times the parameters, were still to come; one of the two settings alone helps at this peak only";

/// What the ranks of a class hold.
pub(super) struct Copies {
    pub(super) class: Option<String>,
    /// What their copies took.
    pub(super) copies: Bytes,
    /// What goes with a rank that is gone.
    pub(super) held: Bytes,
    /// Whether there is more than one rank.
    pub(super) several: bool,
    /// Whether the optimizer's states were still to come, on the host.
    pub(super) before_optimizer: bool,
}

/// Puts what makes the copies smaller before other remedies; whether there is such a setting.
pub(super) fn smaller(run: Run<'_>, ranks: &Copies, finding: &mut Finding) -> bool {
    let fewer = ranks::halved(run).filter(|_| ranks.several);
    let precision = precision::halved(run);
    let saving = |bytes| Saving {
        class: ranks.class.clone(),
        bytes,
    };
    if let (Some(fewer), Some(precision), true) = (&fewer, &precision, ranks.before_optimizer) {
        // What is saved at the later peak was not seen.
        finding
            .remedy
            .insert(0, format!("{precision} {}", fewer.text()));
        finding.cost = Some(format!("{}; {}", ranks::COST, precision::COST));
        finding.evidence.push(STILL_TO_COME.to_owned());
        return true;
    }
    let known = fewer.is_some() || precision.is_some();
    if let Some(fewer) = fewer {
        let bytes = ranks.held.times(fewer.share());
        leads(finding, fewer.text(), saving(bytes), ranks::COST);
    }
    if let Some(precision) = precision {
        let bytes = ranks.copies.times(precision::SHARE);
        leads(finding, precision, saving(bytes), precision::COST);
    }
    known
}
