//! The killed process itself held most of the limit: the simplest cause of all.

use super::{
    Run, about, merged,
    rules::{Contradiction, Needs, Rule},
};
use crate::{
    event::Role,
    ids::size,
    judge::report::{Certainty, Finding},
};

/// At least this share of the limit.
const SHARE: f64 = 0.5;
/// More than the limit was charged elsewhere, before the process came under it.
const WHOLE: f64 = 1.1;

/// The rule.
pub(super) const RULE: Rule = Rule {
    ids: &["one-process"],
    is_cause: true,
    needs: Needs::MemoryKill,
    contradicts: &[Contradiction {
        rule: "one-process",
        other: "teardown",
        why: "a job that succeeded was not ended by a lack of memory: look at the times",
    }],
    find,
};

fn find(run: Run<'_>) -> Vec<Finding> {
    let found = run.memory_kills().filter_map(|death| {
        let limit = run.limit(death)?;
        let victim = death.memory.top.first().filter(|top| top.victim)?;
        let share = victim.private_bytes.gib() / limit.gib();
        if !(SHARE..=WHOLE).contains(&share) {
            return None;
        }
        let name = victim.title.trim_start_matches("ray::");
        let summary = format!(
            "{name} alone held {} of private memory, {:.0} % of the limit of {}: it was killed for its own memory",
            size(victim.private_bytes),
            100.0 * share,
            size(limit)
        );
        let mut finding = about("one-process", Certainty::Inferred, death, summary);
        finding.about.pids = vec![victim.pid];
        finding.remedy =
            vec!["find what it holds with memray run --aggregate, or use smaller batches".into()];
        // Only what Ray schedules has resources.
        let mut inside = run.inside(death).iter();
        if inside.any(|held| held.pid == victim.pid && held.role == Role::Worker) {
            finding.remedy.push(format!(
                "or memory={} in its @ray.remote, which reserves that much for it",
                victim.private_bytes.0
            ));
        }
        finding.wrong_if = Some("it held no more than at other times, and something else grew".into());
        Some(((name.to_owned(), death.cluster), finding))
    });
    merged(found)
}
