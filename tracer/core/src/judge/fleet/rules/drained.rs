//! Finds deaths that came from the end of a node that the autoscaler drained.
//!
//! The node was idle or about to be preempted. What its raylet took along was ended on purpose. A
//! process that somebody else killed there before keeps that verdict, and so does one that a
//! container runtime killed.

use std::collections::HashMap;

use crate::{
    event::Role,
    judge::{
        fleet::{Context, Group, chain},
        report::{Death, Killer, LogMention, Mention},
    },
    ray::words::was_drained,
};

/// Returns the deaths that came from the end of a drained node, each with the GCS's words for it.
pub(in crate::judge::fleet) fn all(context: &Context<'_>) -> Vec<(usize, String)> {
    let drained = drained(context);
    if drained.is_empty() {
        return Vec::new();
    }
    let deaths = context.report.deaths.iter().enumerate();
    let found = deaths.filter_map(|(at, death)| {
        let group = context.group(death.cluster)?;
        let node = context.node(death)?;
        let mention = drained.get(&(group, node.0.as_str()))?;
        ends_with_its_node(context, at, death).then(|| (at, words(mention)))
    });
    found.collect()
}

/// Returns what the GCS says of each drained node.
fn drained<'a>(context: &Context<'a>) -> HashMap<(Group, &'a str), &'a LogMention> {
    let mut drained = HashMap::new();
    for mention in &context.report.mentions {
        if let Mention::NodeDied {
            node,
            reason: Some(reason),
            ..
        } = &mention.what
            && was_drained(reason)
            && let Some(group) = context.group(mention.cluster)
        {
            drained.insert((group, node.0.as_str()), mention);
        }
    }
    drained
}

/// Whether a raylet ended by itself, or the chain of causes of a process begins at its raylet.
fn ends_with_its_node(context: &Context<'_>, at: usize, death: &Death) -> bool {
    let by_itself = |death: &Death| {
        death.process.role == Role::Raylet
            && matches!(
                death.verdict.killer,
                Killer::Exit | Killer::RayCollapse | Killer::RayIntended
            )
    };
    if death.process.role == Role::Raylet {
        return by_itself(death) && death.verdict.cause().is_none();
    }
    let root = chain(context.report, &context.places, at).last();
    death.verdict.killer == Killer::RayCollapse
        && root.is_some_and(|root| root.cluster == death.cluster && by_itself(root))
}

fn words(mention: &LogMention) -> String {
    match &mention.what {
        Mention::NodeDied {
            reason: Some(reason),
            ..
        } => format!("the node was drained: {reason}"),
        _ => "the node was drained".to_owned(),
    }
}
