//! What Ray's words tell besides deaths: its own count of kills, and which versions speak like that.

use std::sync::LazyLock;

use regex::Regex;

use super::{HexIds as _, pattern, peel::LogLine};
use crate::{
    ids::HexId,
    judge::from_text::claim::{Remarks, Words},
};

/// Words of these lines.
pub(super) const ANCHORS: [&str; 5] = [
    "killed due to memory pressure (OOM)",
    "docs.ray.io/en/releases-",
    NODE_ID[0],
    NODE_ID[1],
    NODE_ID[2],
];

/// A raylet's words for its own node: `Setting node ID node_id=…` (2.44 to 2.60), the same of `Initializing NodeManager`, and its
/// state dump's (2.9 to 2.60).
const NODE_ID: [&str; 3] = [
    "Setting node ID node_id=",
    "Initializing NodeManager node_id=",
    "[state-dump] Node ID: ",
];

/// `3 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: …` (2.2 to 2.60),
/// and what people quote of it: `10 Workers killed due to memory pressure (OOM)`.
static COUNT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(\d+) Workers? (?:\(tasks / actors\) )?killed due to memory pressure \(OOM\)(?:, (\d+) Workers? crashed due to other reasons)?",
    )
});
static RELEASE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"docs\.ray\.io/en/releases-(\d+\.\d+\.\d+)/"));

/// Words that only some versions use, with the first and last minor version of 2.
const DIALECTS: [(&str, Words); 8] = [
    ("where the task was running was", (1, 1)),
    ("where the task (", (2, 49)),
    ("where the lease (", (51, 54)),
    ("There are some potential root causes", (0, 53)),
    ("Some common causes include", (54, 60)),
    ("consider enabling resource isolation", (58, 60)),
    ("Considered workers: [;", (56, 56)),
    ("GB used / ", (57, 60)),
];

/// Notes what a line tells.
pub(super) fn line(line: &LogLine, remarks: &mut Remarks) {
    let text = line.text.as_str();
    // A pattern that begins with digits is slow where there is nothing to find.
    let count = text.contains(ANCHORS[0]).then(|| COUNT.captures(text));
    if let Some(found) = count.flatten() {
        let node = text.hex_after("(ID: ", 56).map_or(String::new(), |id| id.0);
        let time = line.stamp.local.or(line.stamp.utc).unwrap_or(0);
        let others = found.get(2).map_or("0", |others| others.as_str());
        if let (Ok(memory), Ok(other)) = (found[1].parse(), others.parse()) {
            remarks.summaries.insert((node, time), (memory, other));
        }
    }
    remarks.actor_died |= text.contains("The actor died unexpectedly before finishing this task");
    if let Some(found) = RELEASE.captures(text) {
        remarks.ray_version = Some(found[1].to_owned());
    }
    for (words, (first, last)) in DIALECTS {
        if text.contains(words) {
            let (from, to) = remarks.dialect.unwrap_or((first, last));
            remarks.dialect = Some((from.max(first), to.min(last)));
        }
    }
}

/// The node of the raylet that writes this line, where it says so.
pub(super) fn node_id(line: &LogLine) -> Option<HexId> {
    let mut words = NODE_ID.iter();
    words.find_map(|words| line.text.hex_after(words, 56))
}
