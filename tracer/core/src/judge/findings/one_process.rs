//! Finds a killed process that itself held most of the limit: the simplest cause.

use super::{
    Run, about, code,
    part_of::part_of,
    ray_remote::{in_python, is_user_code},
};
use crate::{
    event::Role,
    ids::{Bytes, size},
    judge::report::{Certainty, Finding, class_of_title},
    ray::identify,
};

/// The victim held at least this share of the limit.
const SHARE: f64 = 0.5;
/// Other workers that held less than this share of the limit would not have made room.
const OTHERS: f64 = 0.1;
/// If the process held more than this share, a part was charged elsewhere, before it came under
/// this limit.
const WHOLE: f64 = 1.1;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    run.at_limits(|death, limit| {
        let victim = death.memory.top.first().filter(|top| top.victim)?;
        let share = victim.private_bytes.gib() / limit.gib();
        if !(SHARE..=WHOLE).contains(&share) {
            return None;
        }
        let name = victim.title.trim_start_matches("ray::");
        let [part, percent, whole] = part_of(victim.private_bytes, limit);
        let summary = format!(
            "{name} alone held {part} of private memory, {percent} of the limit of {whole}: it was killed for the memory that it held itself"
        );
        let mut finding = about("one-process", Certainty::Inferred, death, summary);
        finding.about.pids = vec![victim.pid];
        finding.about.bytes = victim.private_bytes;
        let class = class_of_title(&victim.title);
        let line = class.and_then(|class| code::line_of_calls(run, &class));
        if let Some(line) = line {
            finding.remedy.push(line.free_what_is_used_up(victim.private_bytes));
            finding.evidence.push(line.evidence());
        }
        // Only the user's own tasks have resources to set. These help only if other workers would
        // then not run beside the task. An actor takes as much wherever it starts.
        let title = identify::title(&victim.title);
        let is_actor = death.work.actor_id.is_some()
            || title.is_some_and(|title| title.actor_class.is_some());
        let is_theirs = !is_actor && is_user_code(run, name);
        let workers = || {
            let inside = run.inside(death).iter();
            inside.filter(|held| held.role == Role::Worker)
        };
        let others = workers().filter(|held| held.pid != victim.pid);
        let others = Bytes(others.map(|held| held.private.0).sum());
        let is_worker = workers().any(|held| held.pid == victim.pid);
        if is_worker && is_theirs && others.gib() >= OTHERS * limit.gib() {
            finding.remedy.push(format!(
                "memory={} in its .options() or @ray.remote, which reserves that much for it: other workers held {}",
                in_python(victim.private_bytes),
                size(others)
            ));
        }
        finding.not_if = Some("it held no more than at other times and something else grew".into());
        Some(((name.to_owned(), death.cluster), finding))
    })
}
