//! Bounds how far each node's clock is from the clock of the GCS's node.
//!
//! A message is received after it was sent. So each message with both ends recorded bounds the
//! difference of two clocks from one side. All bounds of a node are intersected.

use std::collections::{HashMap, HashSet};

use super::nodes;
use crate::{
    ids::{BootTime, HexId, WallTime},
    judge::report::{ClockOffset, Death, MessageKind, MessageTime, Report, Utc},
};

const MS_NS: i64 = 1_000_000;
/// Log lines are stamped a moment before or after what they report. Clocks that differ by less
/// count as right.
const SMALL_NS: i64 = 50 * MS_NS;
/// Bounds that are further apart show only the direction of a clock's error, not its size.
const FAR_APART_NS: i64 = 10_000 * MS_NS;

/// Bounds of how far a node's clock is ahead of the GCS's, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Bounds {
    least: Option<i64>,
    most: Option<i64>,
}

impl Bounds {
    fn take(&mut self, kind: MessageKind, ahead: i64) {
        if kind.begins_on_node() {
            self.least = Some(self.least.map_or(ahead, |known| known.max(ahead)));
        } else {
            self.most = Some(self.most.map_or(ahead, |known| known.min(ahead)));
        }
    }

    /// Returns the correction of the clock: 0 if it may be right, or if it was changed in between.
    fn correction(self) -> i64 {
        let least = self.least.filter(|least| *least > SMALL_NS);
        let most = self.most.filter(|most| *most < -SMALL_NS);
        match (least, most, self.least, self.most) {
            (Some(_), Some(_), ..) | (None, None, ..) => 0,
            (Some(least), None, _, most) => nearest(least, most),
            (None, Some(most), least, _) => nearest(most, least),
        }
    }

    fn into_offset(self) -> ClockOffset {
        ClockOffset {
            ahead_at_least_ms: self.least.map(|ns| ns.div_euclid(MS_NS)),
            ahead_at_most_ms: self.most.map(|ns| -(-ns).div_euclid(MS_NS)),
            corrected_by_ms: self.correction() / MS_NS,
        }
    }
}

/// Returns a value between a bound that contradicts the clock and the bound on the other side, if
/// that one is near. Otherwise returns the first bound.
fn nearest(bound: i64, other: Option<i64>) -> i64 {
    let near = other.filter(|other| (other - bound).abs() <= FAR_APART_NS);
    let apart = near.map_or(0, |other| other - bound);
    bound + apart / 2
}

/// Returns, for each recording, how far its clock is from its GCS's, if messages show it.
pub(super) fn offsets(report: &Report) -> HashMap<u32, ClockOffset> {
    let boots: HashMap<u32, &str> = (report.recordings.iter())
        .map(|recording| (recording.id, recording.host.boot_id.as_str()))
        .collect();
    // Recordings of one boot share a clock.
    let clock_of = |cluster: u32| -> String {
        let cluster = report.clusters.get(cluster as usize);
        let recording = cluster.map_or(u32::MAX, |cluster| cluster.recording_id);
        let boot = boots.get(&recording).copied().unwrap_or("");
        if boot.is_empty() {
            format!("recording {recording}")
        } else {
            boot.to_owned()
        }
    };
    let (bounds, heads) = bounds(&report.message_times, &nodes::groups(report), clock_of);
    let mut found = HashMap::new();
    for cluster in &report.clusters {
        let clock = clock_of(cluster.id);
        if let Some(bounds) = bounds.get(&clock).filter(|_| !heads.contains(&clock)) {
            found
                .entry(cluster.recording_id)
                .or_insert(bounds.into_offset());
        }
    }
    found
}

/// Returns the bounds of each clock, and the clocks that each GCS itself logs by.
fn bounds(
    message_times: &[MessageTime],
    groups: &[usize],
    clock_of: impl Fn(u32) -> String,
) -> (HashMap<String, Bounds>, HashSet<String>) {
    type End<'a> = (usize, MessageKind, &'a HexId);
    let group = |message: &MessageTime| groups.get(message.cluster as usize).copied();
    let mut gcs: HashMap<End<'_>, (Utc, String)> = HashMap::new();
    let mut heads: HashSet<String> = HashSet::new();
    for message in message_times.iter().filter(|message| message.by_gcs) {
        let Some(group) = group(message) else {
            continue;
        };
        let end = (message.time, clock_of(message.cluster));
        heads.insert(end.1.clone());
        let known = gcs
            .entry((group, message.kind, &message.id))
            .or_insert(end.clone());
        if message.time < known.0 {
            *known = end;
        }
    }
    // A GCS that moved to another node has two clocks, so nothing is compared with either.
    let mut clocks: HashMap<usize, HashSet<&str>> = HashMap::new();
    for ((group, ..), (_, clock)) in &gcs {
        clocks.entry(*group).or_default().insert(clock);
    }
    let mut first: HashMap<(End<'_>, String), Utc> = HashMap::new();
    for message in message_times.iter().filter(|message| !message.by_gcs) {
        let Some(group) = group(message) else {
            continue;
        };
        let is_one = clocks.get(&group).is_some_and(|clocks| clocks.len() == 1);
        let clock = clock_of(message.cluster);
        if is_one {
            let end = ((group, message.kind, &message.id), clock);
            let known = first.entry(end).or_insert(message.time);
            *known = message.time.min(*known);
        }
    }
    let mut found: HashMap<String, Bounds> = HashMap::new();
    for ((end, clock), on_node) in first {
        if let Some((at_gcs, _)) = gcs.get(&end) {
            let ahead = on_node.0.0.saturating_sub(at_gcs.0.0);
            found.entry(clock).or_default().take(end.1, ahead);
        }
    }
    (found, heads)
}

/// Moves the times of deaths and of mentions on nodes with a wrong clock. A `sign` of -1 moves them
/// to the GCS's clock, 1 moves them back.
pub(super) fn shift(report: &mut Report, offsets: &HashMap<u32, ClockOffset>, sign: i64) {
    let by = |recording: Option<u32>| {
        let offset = recording.and_then(|recording| offsets.get(&recording));
        offset.map_or(0, |offset| sign * offset.corrected_by_ms * MS_NS)
    };
    if offsets.values().all(|offset| offset.corrected_by_ms == 0) {
        return;
    }
    for death in &mut report.deaths {
        let by = by(death.recording_id);
        for time in [&mut death.when.time, &mut death.when.exit_time] {
            *time = time.map(|time| moved(time, by));
        }
        death.when.act_time = act_time(death);
    }
    let clusters = &report.clusters;
    for mention in &mut report.mentions {
        let cluster = mention.cluster.and_then(|one| clusters.get(one as usize));
        let by = by(cluster.map(|cluster| cluster.recording_id));
        mention.time = mention.time.map(|time| moved(time, by));
    }
    (report.deaths).sort_by_key(|death| (death.when.act_time, death.id));
}

fn moved(time: Utc, by: i64) -> Utc {
    Utc(WallTime(time.0.0.saturating_add(by)))
}

fn act_time(death: &Death) -> BootTime {
    let time = death.when.time.or(death.when.exit_time);
    time.map_or(death.when.act_time, |time| {
        BootTime(time.0.0.max(0).cast_unsigned())
    })
}

/// Orders deaths by the corrected times. These are reported beside the times of their own nodes.
pub(super) fn reorder(report: &mut Report, offsets: &HashMap<u32, ClockOffset>) {
    for death in &mut report.deaths {
        let offset = death.recording_id.and_then(|id| offsets.get(&id));
        let by = offset.map_or(0, |offset| offset.corrected_by_ms * MS_NS);
        if let Some(time) = death.when.time.or(death.when.exit_time).filter(|_| by != 0) {
            let corrected = moved(time, -by);
            death.when.corrected_time = Some(corrected);
            death.when.act_time = BootTime(corrected.0.0.max(0).cast_unsigned());
        }
    }
    (report.deaths).sort_by_key(|death| (death.when.act_time, death.id));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds_of(least: Option<i64>, most: Option<i64>) -> Bounds {
        let ns = |ms: i64| ms * MS_NS;
        Bounds {
            least: least.map(ns),
            most: most.map(ns),
        }
    }

    /// A clock that may be right is not corrected.
    #[test]
    fn wrong_clock_moves_between_its_bounds() {
        let corrected = |least, most| bounds_of(least, most).correction() / MS_NS;
        assert_eq!(corrected(None, None), 0);
        assert_eq!(corrected(Some(-900), Some(400)), 0);
        assert_eq!(corrected(Some(20), None), 0);
        assert_eq!(corrected(Some(1900), Some(2300)), 2100);
        assert_eq!(corrected(Some(-2300), Some(-1900)), -2100);
        assert_eq!(corrected(Some(1900), None), 1900);
        assert_eq!(corrected(Some(1900), Some(90_000)), 1900);
        assert_eq!(corrected(Some(-90_000), Some(-1900)), -1900);
        // The clock was set in between, so no single number is right.
        assert_eq!(corrected(Some(1900), Some(-1900)), 0);
    }
}
