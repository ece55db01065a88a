//! Links a worker that Ray ended because its owner, or its owner's node, had died.
//!
//! The owner's id stands in Ray's words.

use super::{CauseLocation, Found};
use crate::judge::{
    fleet::Context,
    report::{Killer, LinkReason, LinkRule, Mention},
};

pub(super) fn find(context: &Context<'_>, at: usize) -> Option<Found> {
    let death = &context.report.deaths[at];
    if !matches!(
        death.verdict.killer,
        Killer::RayCollapse | Killer::RayIntended
    ) {
        return None;
    }
    let group = context.group(death.cluster)?;
    let worker = death.work.worker_id.as_ref()?;
    let mention = context.owners.get(&(group, worker.0.as_str()))?;
    let Mention::OwnerDied {
        owner: Some(owner),
        node,
        ..
    } = &mention.what
    else {
        return None;
    };
    let on = context.worker_on.get(&(group, owner.0.as_str())).copied();
    let raylet = || {
        let on = on?;
        context.raylets.get(&(group, on.0.as_str())).copied()
    };
    let (raylet, of_owner) = (raylet(), context.death_of_worker(group, owner));
    let by_node = *node || of_owner.is_none();
    let (rule, cause) = match (by_node, raylet, of_owner) {
        (true, Some(raylet), _) => (LinkRule::OwnerNodeDied, Some(raylet)),
        (_, _, Some(owner)) => (LinkRule::OwnerDied, Some(owner)),
        (_, _, None) => (LinkRule::OwnerDied, None),
    };
    let named = LinkReason::NamesOwner {
        source: mention.source.clone(),
        owner: owner.clone(),
    };
    let Some(cause) = cause.filter(|cause| *cause != at) else {
        let on = on?;
        let known = context.report.clusters.iter();
        let recorded = known
            .filter(|cluster| cluster.node_id.as_ref() == Some(on))
            .count();
        return (recorded == 0).then(|| Found {
            cause: CauseLocation::Unrecorded {
                node: Some(context.names.of_node(group, on)),
            },
            rule,
            because: named,
            killer: None,
        });
    };
    // A worker that outlived the normal end of its owner was ended on purpose, as on one node. A
    // worker whose owner died was not, even if its own log has only the request to end.
    let killer = if ended_well(context, cause) {
        Some(Killer::RayIntended)
    } else {
        context.is_of_interest(cause).then_some(Killer::RayCollapse)
    };
    Some(Found {
        cause: CauseLocation::Death(cause),
        rule,
        because: named,
        killer,
    })
}

fn ended_well(context: &Context<'_>, cause: usize) -> bool {
    let death = &context.report.deaths[cause];
    let meant = death.verdict.killer == Killer::RayIntended && death.verdict.cause().is_none();
    let clean = death.end.exit_code == Some(0) && !death.verdict.cause.is_failed_exit();
    meant || (death.verdict.killer == Killer::Exit && clean)
}
