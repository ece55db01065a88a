//! A raylet that ended because it had lost the GCS, or another part of its node that gave that up first: the GCS's death is its cause, on
//! whatever node.

use super::{Found, Place};
use crate::{
    event::Role,
    judge::{
        cause::Cause,
        fleet::Context,
        report::{Killer, LinkRule, Tie},
    },
};

pub(super) fn find(context: &Context<'_>, at: usize) -> Option<Found> {
    let death = &context.report.deaths[at];
    let by_itself = matches!(
        death.verdict.killer,
        Killer::RayCollapse | Killer::Exit | Killer::Crash | Killer::RayIntended
    );
    let of_raylet = death.process.role == Role::Raylet && by_itself;
    if !of_raylet && death.verdict.cause != Cause::GcsLost {
        return None;
    }
    let cluster = death.cluster?;
    let said = context.lost_gcs.get(&cluster)?;
    let group = context.group(Some(cluster))?;
    let because = Tie::GcsGone {
        source: said.source.clone(),
    };
    let cause = context.gcs.get(&group).and_then(|deaths| deaths.first());
    if let Some(cause) = cause {
        return Some(Found {
            cause: Place::Death(*cause),
            rule: LinkRule::HeadDied,
            because,
            killer: None,
        });
    }
    // The machine of the head may have gone as a whole: then no recording holds the GCS's death.
    let parts = context.report.clusters.iter().zip(&context.groups);
    let head = parts
        .filter(|(_, of)| **of == group)
        .any(|(cluster, _)| cluster.head);
    (!head).then_some(Found {
        cause: Place::Unrecorded { node: None },
        rule: LinkRule::HeadDied,
        because,
        killer: None,
    })
}
