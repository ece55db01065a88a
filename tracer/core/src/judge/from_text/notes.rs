//! What texts say besides deaths and findings: consequences, Ray's own counts, what was not kept.

use super::claim::{Claim, Gathered};
use crate::judge::{
    dialect,
    report::{Death, Killer},
};

/// What Ray's own messages link to since 2.58.
const PAGE: &str =
    "https://docs.ray.io/en/latest/ray-observability/user-guides/debug-apps/debug-memory.html";

/// After-effects, Ray's own count against what was found, and what was not kept.
pub(super) fn all(gathered: &Gathered, deaths: &[Death], version: Option<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    let nameless = gathered.claims.nameless.iter();
    let unread = nameless.filter(|one| matches!(one.claim, Claim::UnreadKill));
    notes.extend(dialect::unread(unread.count(), version));
    notes.extend(after_effects(gathered, deaths));
    notes.extend(count(gathered, deaths));
    if deaths.is_empty() && gathered.remarks.actor_died {
        notes.push(
            "an actor died, and these lines do not say which: give the whole log, or on its node: raytrace explain /tmp/ray/session_latest".to_owned(),
        );
    }
    if gathered.remarks.old_page {
        notes.push(format!(
            "the page that Ray's message links to is the one of Ray up to 2.57; today: {PAGE}"
        ));
    }
    let repeated = gathered.remarks.repeated;
    if repeated > 0 {
        notes.push(format!(
            "Ray's driver folded {repeated} more {} into the shown ones (\"repeated across cluster\"): as many deaths may be missing; RAY_DEDUP_LOGS=0 shows them",
            if repeated == 1 { "line" } else { "lines" }
        ));
    }
    if gathered.claims.skipped > 0 {
        notes.push(format!(
            "{} claims were not kept: too many",
            gathered.claims.skipped
        ));
    }
    notes
}

fn after_effects(gathered: &Gathered, deaths: &[Death]) -> Option<String> {
    let effects = &gathered.remarks.after_effects;
    let lines: u64 = effects.values().map(|noted| noted.count).sum();
    if lines == 0 {
        return None;
    }
    let kinds: Vec<&str> = effects.keys().copied().collect();
    // Each healthy end has such lines too.
    if !deaths.iter().any(is_first_cause) {
        return None;
    }
    let lines = match lines {
        1 => "1 line".to_owned(),
        _ => format!("{lines} lines"),
    };
    Some(format!(
        "after-effects, not causes: {lines} ({})",
        kinds.join(", ")
    ))
}

fn is_first_cause(death: &Death) -> bool {
    death.listed && death.verdict.cause_death_id.is_none()
}

/// `Ray's own count: 3 killed for memory, 1 for other reasons; found 3 and 1: agrees`.
fn count(gathered: &Gathered, deaths: &[Death]) -> Option<String> {
    let summaries = &gathered.remarks.summaries;
    if summaries.is_empty() {
        return None;
    }
    let memory: u64 = summaries.values().map(|(memory, _)| memory).sum();
    let other: u64 = summaries.values().map(|(_, other)| other).sum();
    let named = |death: &&Death| {
        death.process.pid.0 != 0 || death.work.worker_id.is_some() || death.work.actor_id.is_some()
    };
    let by_ray = |death: &&Death| death.verdict.killer == Killer::RayMemoryMonitor;
    let found = deaths.iter().filter(named).filter(by_ray).count() as u64;
    let rest = deaths
        .iter()
        .filter(named)
        .filter(|death| !by_ray(death) && death.listed)
        .count() as u64;
    let verdict = match (super::nameless::missing(gathered), found > memory) {
        (0, false) => "agrees".to_owned(),
        (0, true) => "the last minute, or other nodes, are not in the count".to_owned(),
        (missing, _) => format!(
            "the logs of their node name the other {missing}; there: raytrace explain /tmp/ray/session_latest/logs"
        ),
    };
    Some(format!(
        "Ray counted {memory} killed for memory and {other} for other reasons; these logs name {found} and {rest}: {verdict}"
    ))
}
