//! Links the end of a raylet that had lost the GCS to the GCS's death, on any node.
//!
//! Another part of the node may have given up on the GCS first. Its end is linked in the same way.

use super::{CauseLocation, Found};
use crate::{
    event::Role,
    ids::SECOND_NS,
    judge::{
        cause::Cause,
        fleet::{Context, Group},
        report::{Death, Killer, LinkReason, LinkRule},
    },
};

/// A process that lost the GCS tries for 60 s to reach it again, and for 600 s if `KubeRay` keeps
/// the GCS's state (`gcs_rpc_server_reconnect_timeout_s`).
const TRIES_NS: i64 = 660 * SECOND_NS;
/// Clocks of two nodes differ by at most this, unless they are not synchronized at all.
const CLOCKS_NS: i64 = 5 * SECOND_NS;

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
    let mention = context.lost_gcs.get(&cluster)?;
    let group = context.group(Some(cluster))?;
    let because = LinkReason::GcsGone {
        source: mention.source.clone(),
    };
    if let Some(cause) = gcs(context, group, death) {
        return Some(Found {
            cause: CauseLocation::Death(cause),
            rule: LinkRule::HeadDied,
            because,
            killer: None,
        });
    }
    // The head's machine may have gone as a whole. Then no recording has the GCS's death.
    let parts = context.report.clusters.iter().zip(&context.groups);
    let head = parts
        .filter(|(_, of)| **of == group)
        .any(|(cluster, _)| cluster.head);
    (!head).then_some(Found {
        cause: CauseLocation::Unrecorded { node: None },
        rule: LinkRule::HeadDied,
        because,
        killer: None,
    })
}

/// Returns the death of the GCS nearest before the end of the process that lost it. If a time is
/// not known, returns the GCS's only death.
fn gcs(context: &Context<'_>, group: Group, lost: &Death) -> Option<usize> {
    let deaths = context.gcs.get(&group)?;
    let time = |death: &Death| death.when.exit_time.or(death.when.time);
    let before = |at: &usize| {
        let died = time(&context.report.deaths[*at])?;
        Some(time(lost)?.0.0.saturating_sub(died.0.0))
    };
    if let [only] = deaths.as_slice()
        && before(only).is_none()
    {
        return Some(*only);
    }
    let near = deaths.iter().filter_map(|at| Some((before(at)?, *at)));
    let near = near.filter(|(before, _)| (-CLOCKS_NS..=TRIES_NS).contains(before));
    let nearest = near.min_by_key(|(before, _)| before.abs());
    nearest.map(|(_, at)| at)
}
