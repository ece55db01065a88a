//! Handles nodes that the GCS declared dead while their processes lived.
//!
//! Failures elsewhere came from the declaration, and not from what ended later on such a node.

use super::{CauseLocation, Found};
use crate::{
    event::Role,
    judge::{
        cause::Cause,
        fleet::{Context, chain, order},
        report::Death,
    },
};

/// Returns what was found. Returns the declaration as the cause if the death that was found is an
/// effect of it too.
pub(super) fn or_declaration(context: &Context<'_>, effect: usize, found: Found) -> Found {
    let node = match &found.cause {
        CauseLocation::Death(cause) => node(context, effect, *cause),
        CauseLocation::DeclaredDead { .. } | CauseLocation::Unrecorded { .. } => None,
    };
    match node {
        Some(node) => Found {
            cause: CauseLocation::DeclaredDead { node },
            ..found
        },
        None => found,
    }
}

/// Returns the node of a death that came after its node had been declared dead and after its
/// supposed effect.
fn node(context: &Context<'_>, effect: usize, cause: usize) -> Option<String> {
    let root = chain(context.report, &context.places, cause).last()?;
    let declared = ended_by_it(root) || came_later(context, effect, cause);
    declared.then(|| root.node.clone().unwrap_or_default())
}

/// Whether a raylet ended because it had learned that its node was declared dead.
pub(in crate::judge::fleet) fn ended_by_it(death: &Death) -> bool {
    let by_it = matches!(death.verdict.cause, Cause::NodeDead { .. });
    death.process.role == Role::Raylet && by_it
}

/// Whether the cause came after its effect had ended, on a node that did not answer the GCS.
fn came_later(context: &Context<'_>, effect: usize, cause: usize) -> bool {
    let [effect, cause] = [effect, cause].map(|at| &context.report.deaths[at]);
    let is_silent = || {
        let group = context.group(cause.cluster)?;
        let node = context.node(cause)?;
        Some(context.silent.contains(&(group, node.0.as_str())))
    };
    let ended = effect.when.exit_time.or(effect.when.time);
    let later = |ended| order::is_later(context.report, cause, (effect.recording_id, ended));
    ended.is_some_and(later) && is_silent() == Some(true)
}
