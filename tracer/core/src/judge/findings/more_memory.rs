//! Advises how much more memory a node needs.
//!
//! This is the last advice, after what can be changed in the workload. Where a limit is low and the
//! machine has room, `low-threshold` and `hidden-limit` say so.

use super::Run;
use crate::{
    ids::{Bytes, size},
    judge::report::{Death, Killer},
    ray::{
        memory_monitor::{Config, THRESHOLD},
        start::Change,
    },
};

/// Returns how much to add to a limit if the running calls had taken `took`. They had not ended, so
/// it is as much again, and at least a quarter of the limit.
pub(super) fn extra_memory(limit: Bytes, took: Bytes) -> Bytes {
    took.max(Bytes(limit.0 / 4))
}

/// Returns the remedy for a kill by Ray's monitor. The kernel's limits are left to `hidden-limit`.
pub(super) fn remedy(run: Run<'_>, death: &Death, took: Bytes) -> Option<String> {
    let limit = run.limit(death)?;
    if death.verdict.killer != Killer::RayMemoryMonitor {
        return None;
    }
    let lowered = lowered_threshold(run, death);
    let has_room = |lowered| with_room(run, death, lowered, took).is_some();
    if lowered.as_ref().is_some_and(has_room) {
        return None;
    }
    let more = extra_memory(limit, took);
    let why = if more == took {
        "as much again as the running calls had taken"
    } else {
        "a quarter of the limit: the running calls had taken less, but had not ended"
    };
    let needed = size(more);
    let Some(LoweredThreshold { change, gives, .. }) = lowered else {
        return Some(format!("about {needed} more memory for this node ({why})"));
    };
    let given = size(gives);
    Some(if gives >= more {
        format!(
            "{change}: Ray's threshold is then {given} higher; about {needed} more are needed ({why})"
        )
    } else {
        format!("about {needed} more memory for this node ({why}); {change} gives {given} of it")
    })
}

/// What a higher limit does where a line of the user's code may keep memory for good.
pub(super) const DELAYS: &str = "it only delays the kill if the job's own code keeps more and more";

/// Says what a higher limit costs, `none …`, and that the running calls, which had taken `took`,
/// had not ended. Most of that may be kept by a line of the user's.
pub(super) fn cost(none: &str, took: Bytes, keeps: bool) -> String {
    if keeps {
        return format!("{none}; {DELAYS}");
    }
    let took = size(took);
    format!("{none}; it may not suffice: the calls had added {took} and not ended")
}

/// The least share of the machine outside of Ray at which it is not called free.
const SHARED_MACHINE: f64 = 0.25;

/// The memory of a machine that was not in use during a recording.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// The least of it.
    pub(super) bytes: Bytes,
    /// `free`; where others use the machine too, it is not called that.
    pub(super) free: &'static str,
}

/// Returns the least memory of the machine that was not in use while it was recorded.
pub(super) fn room(run: Run<'_>, death: &Death) -> Option<Room> {
    let mut machines = run.report.machines.iter();
    let own = machines.find(|one| Some(one.recording_id) == death.recording_id);
    let peak = own.map_or(run.report.peak, |one| one.peak)?;
    let used = run.limit_members(death).and_then(|one| one.sums.as_ref());
    let outside = used.map_or(0.0, |(tracked, node)| node.used().gib() - tracked.gib());
    let is_shared = outside > SHARED_MACHINE * peak.total_bytes.gib();
    Some(Room {
        bytes: Bytes(peak.total_bytes.0.saturating_sub(peak.used_bytes.0)),
        free: if is_shared {
            "not in use (others use it too)"
        } else {
            "free"
        },
    })
}

/// A threshold that somebody has lowered.
pub(super) struct LoweredThreshold {
    /// Ray's default as a change, with what is set now.
    pub(super) change: String,
    /// What is set, as it was typed.
    pub(super) set: String,
    /// How much higher the default is.
    pub(super) gives: Bytes,
}

/// Returns how much more is needed if the running calls had taken `took`, and the room of the
/// machine, if both it and the default of Ray's threshold have room for that.
pub(super) fn with_room(
    run: Run<'_>,
    death: &Death,
    lowered: &LoweredThreshold,
    took: Bytes,
) -> Option<(Bytes, Room)> {
    let more = extra_memory(run.limit(death)?, took);
    let room = room(run, death)?;
    (lowered.gives >= more && room.bytes >= more).then_some((more, room))
}

/// Returns the threshold at which Ray's monitor killed, if somebody has lowered it.
pub(super) fn lowered_threshold(run: Run<'_>, death: &Death) -> Option<LoweredThreshold> {
    if death.verdict.killer != Killer::RayMemoryMonitor {
        return None;
    }
    let node = run.node(death).filter(|node| !node.isolated)?;
    let monitor = run.monitor(death)?;
    let (threshold, total) = (monitor.threshold_bytes?, monitor.total_bytes?);
    let (_, now) = node.settings.iter().find(|(key, _)| key == THRESHOLD)?;
    let fraction = Config::of(&node.settings).fraction;
    let default = Config::default().fraction;
    let gives = total
        .times(f64::from(default))
        .0
        .saturating_sub(threshold.0);
    let change = Change::environment(THRESHOLD, &default.to_string()).at(node.started);
    (fraction < default && gives > 0).then(|| LoweredThreshold {
        change: format!("{change} (now {now})"),
        set: format!("{THRESHOLD}={now}"),
        gives: Bytes(gives),
    })
}

#[cfg(test)]
mod tests {
    use super::{Bytes, cost};

    /// No limit is high enough for what a line keeps in each step.
    #[test]
    fn cost_of_a_higher_limit_says_whether_it_only_delays() {
        let grew = cost("none", Bytes(1 << 30), false);
        assert!(
            grew.ends_with("the calls had added 1.0 GiB and not ended"),
            "{grew}"
        );
        let keeps = cost("none", Bytes(1 << 30), true);
        assert!(
            keeps.starts_with("none; it only delays the kill"),
            "{keeps}"
        );
    }
}
