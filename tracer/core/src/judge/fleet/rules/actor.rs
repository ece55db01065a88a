//! Links a driver that failed because an actor had died to the actor's death.
//!
//! The driver's own log names the actor, or else the log of another owner of the same job or of the
//! GCS.

use super::{CauseLocation, Found};
use crate::{
    event::Role,
    ids::{HexId, MINUTE_NS, SECOND_NS},
    judge::{
        fleet::{Context, Group, speaker},
        report::{Death, Killer, LinkReason, LinkRule, LogMention, Mention},
    },
};

/// A driver that ran on for longer after an actor's death did not end because of it, unless a log
/// says more.
const BEFORE_END_NS: i64 = 2 * MINUTE_NS;
/// Log lines that are read while their process ends may be stamped this much too late.
const LATE_NS: i64 = SECOND_NS;

pub(super) fn find(context: &Context<'_>, at: usize) -> Option<Found> {
    let death = &context.report.deaths[at];
    let failed = matches!(death.verdict.killer, Killer::Exit) && death.end.exit_code != Some(0);
    if !failed || !matches!(death.process.role, Role::Driver) {
        return None;
    }
    let group = context.group(death.cluster)?;
    let own = speaker(death)?;
    let by_itself = context.dead_actors.get(&(group, Some(own.as_str())));
    let by_itself = by_itself.into_iter().flatten().copied();
    let found = last_fatal(context, group, death, by_itself);
    found.or_else(|| {
        let job = death.work.job_id.clone().or_else(|| HexId::parse(own.get(..8)?))?;
        let others = context
            .dead_actors
            .iter()
            .filter(|((of, _), _)| *of == group)
            .flat_map(|(_, mentions)| mentions.iter().copied())
            .filter(|mention| matches!(&mention.what, Mention::ActorDied { actor, .. } if actor.0.ends_with(&job.0)));
        last_fatal(context, group, death, others)
    })
}

/// Returns the death of the last actor that is called dead before the driver's end and whose death
/// is of interest.
fn last_fatal<'a>(
    context: &Context<'_>,
    group: Group,
    driver: &Death,
    mentions: impl Iterator<Item = &'a LogMention>,
) -> Option<Found> {
    let end = driver.when.exit_time.or(driver.when.time)?;
    let before = |mention: &&LogMention| {
        mention.time.is_some_and(|time| {
            let before = end.0.0.saturating_sub(time.0.0);
            (-LATE_NS..BEFORE_END_NS).contains(&before)
        })
    };
    let mut mentions: Vec<&LogMention> = mentions.filter(before).collect();
    mentions.sort_by_key(|mention| std::cmp::Reverse(mention.time));
    let mut deaths = mentions.iter().filter_map(|mention| {
        let (actor, death) = death_of(context, group, mention)?;
        let survived = context.report.deaths[death].then.is_some();
        (!survived && context.is_of_interest(death)).then_some((*mention, actor, death))
    });
    if let Some((mention, actor, death)) = deaths.next() {
        return Some(Found {
            cause: CauseLocation::Death(death),
            rule: LinkRule::ActorDied,
            because: named(mention, actor),
            killer: None,
        });
    }
    mentions
        .iter()
        .find_map(|mention| elsewhere(context, group, mention))
}

fn named(mention: &LogMention, actor: &HexId) -> LinkReason {
    LinkReason::NamesActor {
        source: mention.source.clone(),
        actor: actor.clone(),
    }
}

/// Returns the death of the worker that an actor ran in, else of its node's raylet.
fn death_of<'a>(
    context: &Context<'_>,
    group: Group,
    mention: &'a LogMention,
) -> Option<(&'a HexId, usize)> {
    let Mention::ActorDied { actor, worker } = &mention.what else {
        return None;
    };
    let by_worker = worker
        .as_ref()
        .and_then(|worker| context.death_of_worker(group, worker));
    let by_actor = || {
        let worker = context.worker_of(group, actor)?;
        context.death_of_worker(group, worker)
    };
    let by_id = || {
        let deaths = context.by_actor.get(&(group, actor.0.as_str()))?;
        deaths.last().copied()
    };
    let by_node = || {
        let worker = worker
            .as_ref()
            .or_else(|| context.worker_of(group, actor))?;
        let node = context.worker_on.get(&(group, worker.0.as_str()))?;
        context.raylets.get(&(group, node.0.as_str())).copied()
    };
    let death = by_worker
        .or_else(by_actor)
        .or_else(by_id)
        .or_else(by_node)?;
    Some((actor, death))
}

/// Returns the cause if an actor's node has no recording.
fn elsewhere(context: &Context<'_>, group: Group, mention: &LogMention) -> Option<Found> {
    let Mention::ActorDied { actor, worker } = &mention.what else {
        return None;
    };
    let worker = worker
        .as_ref()
        .or_else(|| context.worker_of(group, actor))?;
    let node = *context.worker_on.get(&(group, worker.0.as_str()))?;
    let mut recorded = context.report.clusters.iter();
    if recorded.any(|cluster| cluster.node_id.as_ref() == Some(node)) {
        return None;
    }
    Some(Found {
        cause: CauseLocation::Unrecorded {
            node: Some(context.names.of_node(group, node)),
        },
        rule: LinkRule::ActorDied,
        because: named(mention, actor),
        killer: None,
    })
}
