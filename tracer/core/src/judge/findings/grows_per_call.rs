//! Finds workers that are alive and keep more memory with each call.
//!
//! Reports the method, how much a call keeps, and how many calls are left until the nearest limit.
//! This is a forecast and concerns no death. Growth that led to a kill is reported by `leak`. For
//! one method of a cluster, only one of the two rules reports a finding.

use super::{Run, code, facts::GrowingMethod};
use crate::{
    ids::{EventId, size},
    judge::{
        query::headroom::Headroom,
        report::{About, Certainty, Death, Finding},
        state::calls::WARM_UP,
    },
    ray::identify,
};

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let growing = run.facts.growing.iter();
    growing
        .filter_map(|growing| finding(run, growing))
        .collect()
}

/// Returns the finding for one method of a cluster. `None` if the growth led to a kill, which
/// `leak` reports, or if no such worker is alive.
fn finding(run: Run<'_>, growing: &GrowingMethod) -> Option<Finding> {
    let deaths = run.report.deaths.iter();
    let killed: Vec<EventId> = deaths
        .filter(|death: &&Death| {
            growing.ended.contains(&death.id) && death.verdict.killer.is_memory_kill()
        })
        .map(|death| death.id)
        .collect();
    if !killed.is_empty() || growing.alive.0 == 0 {
        return None;
    }
    let task = &growing.task;
    let many = match growing.workers {
        1 => String::new(),
        many => format!("in each of {many} workers "),
    };
    let mut summary = format!(
        "{task} {many}grows {} per call ({} calls seen), never freed",
        growing.per_call.finer_size(),
        growing.calls
    );
    let mut evidence = vec![format!(
        "private memory at the start of a call of {task} and of the next one"
    )];
    let mut remedy = Vec::new();
    let class = task.split('.').next().unwrap_or(task);
    if let Some(line) = code::line_of_calls(run, class) {
        let (free, part) = (line.free_after_each_call(), line.part(growing.kept));
        remedy.push(format!("{free} ({part} without the first {WARM_UP} calls)"));
        evidence.push(line.evidence());
    }
    if let Some(headroom) = growing.headroom.as_ref() {
        let left = calls_left(growing, headroom);
        if left > 0 {
            let restart = match identify::class_of_call(&format!("ray::{task}")) {
                Some(_) => "save a checkpoint and restart the actor",
                None => "replace the worker",
            };
            remedy.push(format!(
                "until that is fixed, {restart} after at most {left} more {}",
                if left == 1 { "call" } else { "calls" }
            ));
        }
        summary.push_str(&format!(
            "; {left} {} left until {} at {}",
            if left == 1 { "call is" } else { "calls are" },
            headroom.limit,
            size(headroom.at)
        ));
        evidence.push(format!(
            "{} used of {} at the end of the recording",
            size(headroom.used),
            size(headroom.at)
        ));
    }
    Some(Finding {
        about: About {
            task: Some(task.clone()),
            ..About::default()
        },
        evidence,
        remedy,
        not_if: Some("what it keeps is a bounded cache".into()),
        ..Finding::new("grows-per-call", Certainty::Inferred, summary)
    })
}

/// Returns how many calls still fit. The next one needs room for all that it takes, each further
/// one for what the call before it has kept.
fn calls_left(growing: &GrowingMethod, headroom: &Headroom) -> u64 {
    let after_next = headroom.left().0.cast_signed() - growing.ahead;
    match u64::try_from(after_next) {
        Ok(after_next) => 1 + after_next / growing.alive.0.max(1),
        Err(_) => 0,
    }
}
