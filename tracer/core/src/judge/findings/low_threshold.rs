//! Finds a threshold of Ray's that somebody has lowered, while the machine had room.
//!
//! It is reported only if running calls had taken the memory, and nothing keeps it for good: a
//! higher threshold is no remedy for a leak.

use super::{
    Run, about, call_growth, hidden_limit, merged,
    more_memory::{self, LoweredThreshold},
    spikes,
};
use crate::{
    ids::size,
    judge::report::{Certainty, Death, Finding},
};

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let kills = run.memory_kills();
    let lowered: Vec<(&Death, LoweredThreshold)> = kills
        .filter_map(|death| Some((death, more_memory::lowered_threshold(run, death)?)))
        .collect();
    if lowered.is_empty() {
        return Vec::new();
    }
    let mut grew = call_growth::find(run);
    grew.extend(spikes::find(run));
    let growing = hidden_limit::growing(run);
    merged(lowered.into_iter().filter_map(|(death, lowered)| {
        let cause = grew.iter().find(|one| one.deaths.contains(&death.id))?;
        if hidden_limit::keeps_growing(&growing, death) {
            return None;
        }
        let took = cause.about.bytes;
        let (_, room) = more_memory::with_room(run, death, &lowered, took)?;
        let limit = run.limit(death)?;
        let summary = format!(
            "Ray killed at {}, because {} was set where Ray was started (its default is {} higher); at least {} of the machine were {}",
            size(limit),
            lowered.set,
            size(lowered.gives),
            size(room.bytes),
            room.free
        );
        let mut finding = about("low-threshold", Certainty::Inferred, death, summary);
        finding.remedy = vec![lowered.change];
        finding.cost = Some(more_memory::cost("none but a restart of Ray", took, cause.about.own_line));
        finding.about.has_room = true;
        Some(((death.cluster, limit), finding))
    }))
}
