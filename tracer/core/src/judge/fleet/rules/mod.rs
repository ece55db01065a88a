//! Finds the cause of a death on another node, by rules in one file each.

mod actor;
pub(super) mod declared_dead;
pub(super) mod drained;
mod head;
mod owner;
pub(super) mod peers;

use super::{Context, order};
use crate::judge::report::{Killer, LinkReason, LinkRule, Report};

/// Where a cause is.
#[derive(Debug)]
pub(super) enum CauseLocation {
    /// Among the deaths, at this index.
    Death(usize),
    /// On a node that was declared dead while its processes lived. No death is the cause.
    DeclaredDead {
        /// Its name.
        node: String,
    },
    /// On a node without a recording.
    Unrecorded {
        /// Its name, if it is known.
        node: Option<String>,
    },
}

/// What a rule found.
#[derive(Debug)]
pub(super) struct Found {
    /// Where the cause is.
    pub(super) cause: CauseLocation,
    /// The rule.
    pub(super) rule: LinkRule,
    /// The evidence for it.
    pub(super) because: LinkReason,
    /// The death's killer in the light of its cause, if that differs from what its own node can
    /// know.
    pub(super) killer: Option<Killer>,
}

impl Found {
    /// Whether the cause that was found came only after the death at this index.
    pub(super) fn is_after(&self, report: &Report, death: usize) -> bool {
        let CauseLocation::Death(cause) = self.cause else {
            return false;
        };
        order::is_after(report, &report.deaths[cause], &report.deaths[death])
    }
}

/// Finds the cause of a death that has none on its own node.
pub(super) fn find(context: &Context<'_>, death: usize) -> Option<Found> {
    if context.report.deaths[death].verdict.cause().is_some() {
        return None;
    }
    let found = owner::find(context, death)
        .or_else(|| actor::find(context, death))
        .or_else(|| head::find(context, death))?;
    Some(declared_dead::or_declaration(context, death, found))
}
