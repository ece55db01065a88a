//! Notes nodes that Ray's GCS declared dead because they did not answer.
//!
//! No death is made of them: such a node may still be alive.

use std::collections::BTreeMap;

use super::{source, text_evidence::TextEvidence};
use crate::{
    event::Role,
    ids::HexId,
    judge::report::{Death, Mention},
    ray::words::did_not_answer,
};

/// The most nodes that are named.
const MAX_NODES: usize = 4;

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
