//! Links a worker that ended on a collective's time-out or a broken connection to another death.
//!
//! That death is one of its job, and its own end is an after-effect.

use std::collections::HashSet;

use super::{CauseLocation, Found};
use crate::{
    event::Role,
    ids::SECOND_NS,
    judge::{
        fleet::{Context, Group, speaker},
        peers::PeerError,
        report::{Death, Killer, LinkReason, LinkRule, LogMention, Mention},
    },
};

/// Clocks of two nodes differ by at most this, unless they are not synchronized at all.
const CLOCKS_NS: i64 = 5 * SECOND_NS;

/// Returns, for each death with such an error and without a cause, the death of its job that it
/// noticed.
pub(in crate::judge::fleet) fn all(
    context: &Context<'_>,
    found: &[(usize, Found)],
) -> Vec<(usize, Found)> {
    let caused: HashSet<usize> = found
        .iter()
        .filter(|(_, found)| matches!(found.cause, CauseLocation::Death(_)))
        .map(|(at, _)| *at)
        .collect();
    let deaths = context.report.deaths.iter().enumerate();
    let open: Vec<(usize, &Death)> = deaths
        .filter(|(at, death)| !caused.contains(at) && death.verdict.cause().is_none())
        .collect();
    // A process that noticed a death is not the first to die. A death that the job survived broke
    // nothing.
    let (noticed, first): (Vec<_>, Vec<_>) = open
        .into_iter()
        .partition(|(_, death)| error_of(context, death).is_some());
    let first: Vec<(usize, &Death)> = first
        .into_iter()
        .filter(|(_, death)| death.listed && death.then.is_none())
        .filter(|(_, death)| death.verdict.killer != Killer::RayIntended)
        .collect();
    noticed
        .into_iter()
        .filter_map(|(at, death)| Some((at, of_one(context, &first, death)?)))
        .collect()
}

fn of_one(context: &Context<'_>, first: &[(usize, &Death)], death: &Death) -> Option<Found> {
    let (group, mention) = error_of(context, death)?;
    let Mention::PeerError { kind, timeout_ms } = &mention.what else {
        return None;
    };
    let error = PeerError::of(*timeout_ms);
    let ended = death.when.exit_time.or(death.when.time)?;
    let deaths = first.iter().filter_map(|(at, other)| {
        let before = ended.0.0.saturating_sub(other.when.time?.0.0);
        let may_be = (-CLOCKS_NS..=error.lasts_ns).contains(&before)
            && is_of_the_job(context, group, death, other);
        may_be.then_some((before, *at))
    });
    let cause = error.cause(deaths)?;
    Some(Found {
        cause: CauseLocation::Death(cause),
        rule: LinkRule::PeerError,
        because: LinkReason::PeerError {
            source: mention.source.clone(),
            kind,
        },
        killer: None,
    })
}

/// Returns what a process that ended by itself last said of its peers.
fn error_of<'a>(context: &Context<'a>, death: &Death) -> Option<(Group, &'a LogMention)> {
    let by_itself = match death.verdict.killer {
        Killer::Crash => true,
        Killer::Exit => death.end.exit_code != Some(0),
        _ => false,
    };
    if !by_itself {
        return None;
    }
    let group = context.group(death.cluster)?;
    let speaker = speaker(death)?;
    let mention = context.peers.get(&(group, speaker.as_str()))?;
    Some((group, mention))
}

/// Whether `other` is a death of the same job, or of the raylet of one of its processes.
fn is_of_the_job(context: &Context<'_>, group: Group, death: &Death, other: &Death) -> bool {
    if death.work.job_id.is_none() || context.group(other.cluster) != Some(group) {
        return false;
    }
    match other.process.role {
        Role::Driver => false,
        Role::Raylet | Role::Agent => {
            let mut deaths = context.report.deaths.iter();
            deaths.any(|one| one.work.job_id == death.work.job_id && one.cluster == other.cluster)
        }
        _ => other.work.job_id == death.work.job_id,
    }
}
