//! Finds growth of the process that drives the job: a framework's controller, or the driver.

use super::{Run, about, code, facts::Member, part_of::part_of, remedy};
use crate::{
    event::Role,
    ids::{Bytes, size},
    judge::report::{Certainty, Death, Finding, Saving},
    ray::framework::RemedyGoal,
};

/// What it took is at least this share of the limit.
const SHARE: f64 = 0.2;
/// Classes of the process that holds the data and drives the training. The last one is OpenRLHF's.
const CLASSES: [&str; 5] = [
    "TaskRunner",
    "TaskRunnerV1",
    "Runner",
    "main_task",
    "PPOTrainer",
];

/// Evidence if the line is not known.
const UNKNOWN_LINE: &str = "the line at which it grew was not recorded";

/// Returns whether a process drives the job.
pub(super) fn is_controller(held: &Member) -> bool {
    let class = held.class.as_deref();
    held.role == Role::Driver || class.is_some_and(|class| CLASSES.contains(&class))
}

/// Returns what the process took since its job began. For a driver, the job begins when a worker
/// first runs something for it. What it had loaded before is a matter of size, which
/// `head-component` reports.
fn grown(held: &Member) -> Bytes {
    let before = held.before.unwrap_or(held.private);
    Bytes(held.private.0.saturating_sub(before.0))
}

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    run.at_limits(|death, limit| {
        let inside = run.inside(death).iter();
        let biggest = inside
            .filter(|held| is_controller(held))
            .max_by_key(|held| grown(held))?;
        if grown(biggest).gib() < SHARE * limit.gib() {
            return None;
        }
        let finding = finding(run, death, biggest, limit);
        Some((biggest.pid, finding))
    })
}

fn finding(run: Run<'_>, death: &Death, held: &Member, limit: Bytes) -> Finding {
    let (name, class) = if held.role == Role::Driver {
        ("the driver", "driver")
    } else {
        let class = held.class.as_deref().unwrap_or("the controller");
        (held.doing.as_deref().unwrap_or(class), class)
    };
    let took = grown(held);
    let line = code::line_of_calls(run, class);
    let through = line.as_ref().map_or_else(String::new, |line| {
        format!(
            "; at least {} of it was allocated at {}",
            size(line.saves(took)),
            line.name()
        )
    });
    let [part, percent, whole] = part_of(took, limit);
    let summary = format!(
        "{name} (pid {}) took {part} since its job began, {percent} of the limit of {whole}{through}",
        held.pid
    );
    let mut finding = about("controller-grew", Certainty::Inferred, death, summary);
    finding.evidence = vec![format!("pid {}: {} held", held.pid, size(held.private))];
    finding.about.pids = vec![held.pid];
    finding.about.bytes = took;
    finding.about.task = held.doing.as_deref().map(str::to_owned);
    finding.not_if = Some("its memory falls again within the job".into());
    if let Some(line) = line {
        let brought = line.brought_in_by(run);
        let brought = brought.map_or_else(String::new, |key| format!(" (brought in by {key})"));
        finding.remedy = vec![format!(
            "keep no more than a step needs of what {} allocates{brought}",
            line.name()
        )];
        finding.about.own_line = true;
        finding.evidence.push(line.evidence());
        finding.saving = Some(Saving::of(Some(class), line.saves(took)));
    } else {
        finding.remedy = remedy::keys(run, RemedyGoal::LessInController, None);
        finding.evidence.push(UNKNOWN_LINE.to_owned());
    }
    finding
}
