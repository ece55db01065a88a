//! Notes nodes that Ray's GCS declared dead because they did not answer.
//!
//! No death is made of them: such a node may still be alive.

use std::{
    collections::{BTreeMap, HashMap},
    ops::RangeInclusive,
};

use super::{Made, source, text_evidence::TextEvidence, zone::Clock};
use crate::{
    event::Role,
    ids::{HexId, SECOND_NS},
    judge::{
        cause::Cause,
        report::{Certainty, Death, Killer, Mention, Remote},
    },
    ray::words::did_not_answer,
};

/// The most nodes that are named.
const MAX_NODES: usize = 4;

/// An actor's end is reported at most this much after its node was declared dead, and at most a
/// second before.
const WITH_NODE_NS: RangeInclusive<i64> = -SECOND_NS..=10 * SECOND_NS;

/// Attributes the end of a worker that has no reason of its own to its node, if the same text says
/// that Ray's GCS declared that node dead at that time.
pub(super) fn blame(gathered: &TextEvidence, clock: &Clock, made: &mut [Made]) {
    let mut addresses: HashMap<&str, &HexId> = HashMap::new();
    for mention in &gathered.mentions {
        if let Mention::NodeIs { node, address, .. } = &mention.what {
            addresses.extend(address.as_deref().map(|address| (address, node)));
        }
    }
    for one in made.iter_mut() {
        let is_raylet = one.death.process.role == Role::Raylet;
        if !one.bare || is_raylet || one.death.verdict.cause_death_id.is_some() {
            continue;
        }
        let by_address = || addresses.get(one.node.1.as_deref()?).copied();
        let Some(own) = one
            .node
            .0
            .as_deref()
            .and_then(HexId::parse)
            .or_else(|| by_address().cloned())
        else {
            continue;
        };
        let mut mentions = gathered.mentions.iter();
        let says = mentions.find_map(|mention| match &mention.what {
            Mention::NodeDied {
                node,
                message: Some(message),
                ..
            } if *node == own && mention.place.text == one.place.text => {
                let time = clock
                    .time(mention.place, mention.stamp)
                    .or(mention.stamp.local);
                let apart = one.time.zip(time).map(|(one, node)| one - node);
                apart
                    .is_some_and(|apart| WITH_NODE_NS.contains(&apart))
                    .then(|| message.clone())
            }
            _ => None,
        });
        if let Some(says) = says {
            let verdict = &mut one.death.verdict;
            verdict.killer = Killer::RayCollapse;
            verdict.certainty = Certainty::Inferred;
            verdict.reason_certainty = Certainty::Inferred;
            verdict.cause_remote = Some(Remote::Says(says.clone()));
            verdict.cause = Cause::NodeDead { says: Some(says) };
        }
    }
}

/// Returns a note on the silent nodes, unless a raylet's end explains them.
pub(super) fn note(gathered: &TextEvidence, deaths: &[Death]) -> Option<String> {
    if deaths
        .iter()
        .any(|death| death.process.role == Role::Raylet)
    {
        return None;
    }
    let mut places: BTreeMap<&HexId, String> = BTreeMap::new();
    let mut addresses: BTreeMap<&HexId, &str> = BTreeMap::new();
    for mention in &gathered.mentions {
        match &mention.what {
            Mention::NodeDied {
                node,
                message: Some(message),
                ..
            } if did_not_answer(message) => {
                let place = || source(gathered, mention.place);
                places.entry(node).or_insert_with(place);
            }
            Mention::NodeIs { node, address, .. } => {
                addresses.extend(address.as_deref().map(|address| (node, address)));
            }
            _ => {}
        }
    }
    let shown = places.iter().take(MAX_NODES).map(|(node, place)| {
        let id = node.0.get(..8).unwrap_or(&node.0);
        let address = addresses
            .get(node)
            .map_or(String::new(), |ip| format!("{ip}, "));
        format!("{id} ({address}{place})")
    });
    let mut shown: Vec<String> = shown.collect();
    if places.len() > MAX_NODES {
        shown.push(format!("{} more", places.len() - MAX_NODES));
    }
    let (nodes, they, their) = match places.len() {
        0 => return None,
        1 => ("node", "it", "its"),
        _ => ("nodes", "they", "their"),
    };
    Some(format!(
        "Ray's GCS declared {nodes} {} dead because {they} did not answer: the machine or the raylet had ended, or was too slow. Explain {their} raylet.out and kernel log too",
        shown.join(", ")
    ))
}
