//! Reads what Ray says about other things than deaths: its own count of kills, and its version.

use std::sync::LazyLock;

use regex::Regex;

use super::{HexIds as _, line::LogLine, pattern};
use crate::{ids::HexId, judge::from_text::claim::TextRemarks, ray::log::kill};

/// Keywords of these lines.
pub(super) const KEYWORDS: [&str; 5] = [
    "killed due to memory pressure (OOM)",
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
            remarks.summaries.insert((node, time), (memory, other));
        }
    }
    if let Some(found) = RELEASE.captures(text) {
        remarks.ray_version = Some(found[1].to_owned());
    }
    for (first, last) in kill::wording_versions(text) {
        let (from, to) = remarks.wording.unwrap_or((first, last));
        remarks.wording = Some((from.max(first), to.min(last)));
    }
}

/// Returns the id of the node, if the line is by a raylet that names it.
pub(super) fn node_id(line: &LogLine) -> Option<HexId> {
    let mut words = NODE_ID.iter();
    words.find_map(|words| line.text.hex_after(words, HexId::WORKER_DIGITS))
}
