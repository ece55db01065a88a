//! Reads what Ray says about other things than deaths: its own count of kills, and its version.

use std::sync::LazyLock;

use regex::Regex;

use super::{HexIds as _, line::LogLine, pattern};
use crate::{
    ids::HexId,
    judge::{
        from_text::claim::{Summary, TextRemarks},
        report::Mention,
    },
    ray::log::monitor_kill,
};

/// Keywords of these lines.
pub(super) const KEYWORDS: [&str; 7] = [
    "killed due to memory pressure (OOM)",
    " (tasks / actors) killed due to memory pressure (OOM)",
    DECLARED_DEAD,
    "docs.ray.io/en/releases-",
    NODE_ID[0],
    NODE_ID[1],
    NODE_ID[2],
];

/// How a raylet names its own node: `Setting node ID node_id=…` (2.44 to 2.60), the same in
/// `Initializing NodeManager`, and in its state dump (2.9 to 2.60).
const NODE_ID: [&str; 3] = [
    "Setting node ID node_id=",
    "Initializing NodeManager node_id=",
    "[state-dump] Node ID: ",
];

/// What drivers print, and the GCS logs, of a node that did not answer (2.0 to 2.60): `The node with
/// node id: ID and address: IP and node name: NAME has been marked dead because the detector has
/// missed too many heartbeats from it. …`; 1.x prints `and ip: IP`, up to 1.0 `node id ID`
/// alone, and up to 0.8 `client ID ID`.
const DECLARED_DEAD: &str = " has been marked dead because ";

/// The digits of a node's id up to Ray 1.0.
const OLD_NODE_DIGITS: usize = 40;

/// Ray's own count: `3 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers
/// crashed due to other reasons at node (ID: …` (2.2 to 2.60), and what people quote of it: `10
/// Workers killed due to memory pressure (OOM)`.
static COUNT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(\d+) Workers? (?:\(tasks / actors\) )?killed due to memory pressure \(OOM\)(?:, (\d+) Workers? crashed due to other reasons)?",
    )
});
static RELEASE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"docs\.ray\.io/en/releases-(\d+\.\d+\.\d+)/"));

/// Notes what a line says.
pub(super) fn line(line: &LogLine, remarks: &mut TextRemarks) {
    let text = line.text.as_str();
    // A pattern that begins with digits is slow on lines without a match.
    let count = text.contains(KEYWORDS[0]).then(|| COUNT.captures(text));
    if let Some(found) = count.flatten() {
        let node = text
            .hex_after("(ID: ", HexId::WORKER_DIGITS)
            .map_or(String::new(), |id| id.0);
        let time = line.stamp.local.or(line.stamp.utc).unwrap_or(0);
        let others = found.get(2).map_or("0", |others| others.as_str());
        if let (Ok(memory), Ok(other)) = (found[1].parse(), others.parse()) {
            let ip = text.split_once(", IP: ").map(|(_, rest)| rest);
            let ip = ip.and_then(|rest| Some(rest.split_once(')')?.0.to_owned()));
            let summary = Summary { memory, other, ip };
            remarks.summaries.insert((node, time), summary);
        }
    }
    if let Some(found) = RELEASE.captures(text) {
        remarks.ray_version = Some(found[1].to_owned());
    }
    for (first, last) in monitor_kill::wording_versions(text) {
        let (from, to) = remarks.wording.unwrap_or((first, last));
        remarks.wording = Some((from.max(first), to.min(last)));
    }
}

/// Returns what a line says of a node that the GCS has declared dead: its address, and why.
pub(super) fn dead_node(line: &LogLine) -> Option<[Mention; 2]> {
    let (node, why) = line.text.split_once(DECLARED_DEAD)?;
    let id = (node.hex_after("node with node id: ", HexId::WORKER_DIGITS))
        .or_else(|| node.hex_after("node with node id ", OLD_NODE_DIGITS))
        .or_else(|| node.hex_after("node with client ID ", OLD_NODE_DIGITS))?;
    let names = (node.split_once(" and address: ")).or_else(|| node.split_once(" and ip: "));
    let names = names.map_or("", |(_, names)| names);
    let (address, name) = names.split_once(" and node name: ").unwrap_or((names, ""));
    let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let why = why.split(". ").next().unwrap_or(why);
    Some([
        Mention::NodeIs {
            node: id.clone(),
            name: known(name),
            address: known(address),
        },
        Mention::NodeDied {
            node: id,
            reason: None,
            message: Some(why.trim_end_matches('.').to_owned()),
        },
    ])
}

/// What a raylet logs first: since Ray 2.9 (`main.cc`), and before (`io_service_pool.cc`).
const FIRST_OF_RAYLET: [&str; 2] = ["Setting cluster ID to", "IOServicePool is running"];

/// Whether a raylet begins its log with this line.
pub(super) fn is_first_of_raylet(line: &LogLine) -> bool {
    let mut words = FIRST_OF_RAYLET.iter();
    words.any(|words| line.text.starts_with(words))
}

/// Returns the id of the node, if the line is by a raylet that names it.
pub(super) fn node_id(line: &LogLine) -> Option<HexId> {
    let mut words = NODE_ID.iter();
    words.find_map(|words| line.text.hex_after(words, HexId::WORKER_DIGITS))
}
