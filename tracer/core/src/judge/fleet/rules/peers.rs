//! A worker that ends because a collective timed out or a connection broke: an after-effect of the first death of its job.

use std::collections::HashSet;

use super::{Found, Place};
use crate::{
    event::Role,
    ids::SECOND_NS,
    judge::{
        fleet::{Context, Group, speaker},
        report::{Death, Killer, LinkRule, LogMention, Saying, Tie},
    },
    ray::log::after_effects,
};

/// Clocks of two nodes differ by no more, or they are not kept at all.
const CLOCKS_NS: i64 = 5 * SECOND_NS;

/// For each death with such an error that has no cause the first death of its job.
pub(in crate::judge::fleet) fn all(
    context: &Context<'_>,
    found: &[(usize, Found)],
) -> Vec<(usize, Found)> {
    let caused: HashSet<usize> = found
        .iter()
        .filter(|(_, found)| matches!(found.cause, Place::Death(_)))
        .map(|(at, _)| *at)
        .collect();
    let deaths = context.report.deaths.iter().enumerate();
    let open: Vec<(usize, &Death)> = deaths
        .filter(|(at, death)| !caused.contains(at) && death.verdict.cause().is_none())
        .collect();
    // Who notices a death is not the first.
    let (noticed, first): (Vec<_>, Vec<_>) = open
        .into_iter()
        .partition(|(_, death)| error_of(context, death).is_some());
    let first: Vec<(usize, &Death)> = first
        .into_iter()
        .filter(|(_, death)| death.listed && death.verdict.killer != Killer::RayIntended)
        .collect();
    noticed
        .into_iter()
        .filter_map(|(at, death)| Some((at, of_one(context, &first, death)?)))
        .collect()
}

fn of_one(context: &Context<'_>, first: &[(usize, &Death)], death: &Death) -> Option<Found> {
    let (group, said) = error_of(context, death)?;
    let Saying::PeerError { kind, timeout_ms } = &said.what else {
        return None;
    };
    let longest = after_effects::lasts_ns(*timeout_ms);
    let ended = death.when.exit_time.or(death.when.time)?;
    let (cause, _) = first
        .iter()
        .filter(|(_, other)| {
            is_of_the_job(context, group, death, other)
                && other.when.time.is_some_and(|time| {
                    let before = ended.0.0.saturating_sub(time.0.0);
                    (-CLOCKS_NS..=longest).contains(&before)
                })
        })
        .min_by_key(|(_, other)| other.when.time)?;
    Some(Found {
        cause: Place::Death(*cause),
        rule: LinkRule::PeerError,
        because: Tie::PeerError {
            source: said.source.clone(),
            kind,
        },
        killer: None,
    })
}

/// What a process that ended by itself last said of its peers.
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
    let said = context.peers.get(&(group, speaker.as_str()))?;
    Some((group, said))
}

/// Whether `other` is a death of the same job, or of the raylet below one of its processes.
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
