//! Finds a threshold of Ray's that somebody has lowered, while the machine had room.
//!
//! It is reported only if running calls had taken the memory, and nothing keeps it for good: a
//! higher threshold is no remedy for a leak.

use super::{
    Run, about, call_growth, code,
    controller::is_controller,
    hidden_limit, merged,
    more_memory::{self, DELAYS, LoweredThreshold},
    part_of::part_of,
    spikes,
};
use crate::{
    ids::size,
    judge::report::{Certainty, Death, Finding},
    ray::{
        memory_monitor::{Config, THRESHOLD},
        start::Change,
    },
};

/// A threshold that is lower than the default by more than this share was set by somebody. Figures
/// in texts are rounded, and the default was 0.9 up to Ray 2.1.
const CLEARLY_BELOW: f64 = 0.1;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let kills = run.memory_kills();
    let lowered: Vec<(&Death, LoweredThreshold)> = kills
        .filter_map(|death| Some((death, more_memory::lowered_threshold(run, death)?)))
        .collect();
    if lowered.is_empty() {
        return find_in_texts(run);
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

/// Returns the thresholds in texts that are far below Ray's default. What grew, and whether the
/// machine had room, is not in them.
fn find_in_texts(run: Run<'_>) -> Vec<Finding> {
    if !run.report.recordings.is_empty() {
        return Vec::new();
    }
    let kills = run.memory_kills();
    merged(kills.filter_map(|death| {
        // With resource isolation, Ray does not read the threshold.
        if run.node(death).is_some_and(|node| node.isolated) {
            return None;
        }
        let at = death.memory.at_death.as_ref()?;
        let (threshold, total) = (at.ray_threshold_bytes?, at.ray_total.filter(|all| all.0 > 0)?);
        let fraction = threshold.gib() / total.gib();
        let default = Config::default().fraction;
        if fraction > f64::from(default) - CLEARLY_BELOW {
            return None;
        }
        let [part, percent, whole] = part_of(threshold, total);
        let summary = format!(
            "Ray killed at {part} of {whole}, at {percent}: its default is {default}"
        );
        let mut finding = about("low-threshold", Certainty::Inferred, death, summary);
        let change = Change::environment(THRESHOLD, &default.to_string()).at(run.started(death));
        finding.remedy = vec![format!("{change} (now {fraction:.2})")];
        finding.cost = Some(format!("none but a restart of Ray; {DELAYS}"));
        // Code that a framework was given runs in its controller, and logs do not say what it keeps.
        let biggest = run.inside(death).iter().max_by_key(|held| held.private);
        let given = code::named_files(run).filter(|_| biggest.is_some_and(is_controller));
        finding.remedy.extend(given.map(|(key, file)| {
            format!("see whether {key}={file} keeps memory from step to step: the logs do not say")
        }));
        finding.not_if = Some("others need the rest of the machine's memory, or Ray runs with --enable-resource-isolation".into());
        Some(((death.cluster, threshold), finding))
    }))
}
