//! A worker that lives and keeps more with each call: of which method, how much, and how many calls are left until the next limit.
//!
//! It foretells: no death is its subject. What growth has led to is said by `leak`, with the deaths; of one cluster's method only one of
//! the two speaks.

use super::{
    Run,
    facts::{Growing, Room},
    for_memory,
    rules::{Needs, Rule},
};
use crate::{
    ids::{EventId, size},
    judge::report::{About, Certainty, Death, Finding},
};

/// The rule.
pub(super) const RULE: Rule = Rule {
    ids: &["grows-per-call"],
    is_cause: false,
    needs: Needs::Nothing,
    contradicts: &[],
    find,
};

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let growing = run.facts.growing.iter();
    growing.filter_map(|growing| told(run, growing)).collect()
}

/// What led to a kill is told with it (`leak`).
fn told(run: Run<'_>, growing: &Growing) -> Option<Finding> {
    let deaths = run.report.deaths.iter();
    let killed: Vec<EventId> = deaths
        .filter(|death: &&Death| growing.ended.contains(&death.id) && for_memory(death))
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
        growing.per_call.fine(),
        growing.calls
    );
    let mut evidence = vec![format!(
        "private memory when a call of {task} began, and when the next call began"
    )];
    if let Some(room) = growing.room.as_ref() {
        let left = calls_left(growing, room);
        summary.push_str(&format!(
            "; {left} {} left until {} at {}",
            if left == 1 { "call is" } else { "calls are" },
            room.limit,
            size(room.at)
        ));
        evidence.push(format!(
            "{} used of {} at the end of the recording",
            size(room.used),
            size(room.at)
        ));
    }
    Some(Finding {
        about: About {
            task: Some(task.clone()),
            ..About::default()
        },
        evidence,
        remedy: vec![
            format!("find what {task} keeps: memray run --aggregate, or tracemalloc in the worker"),
            "until then restart the worker every few calls: save, kill the actor, resume".into(),
        ],
        wrong_if: Some("what it keeps is a cache with a bound".into()),
        ..Finding::new("grows-per-call", Certainty::Inferred, summary)
    })
}

/// The calls that still fit: the next one needs room for all that it takes, each further one for what the one before has kept.
fn calls_left(growing: &Growing, room: &Room) -> u64 {
    let after_next = room.left().0.cast_signed() - growing.ahead;
    match u64::try_from(after_next) {
        Ok(after_next) => 1 + after_next / growing.alive.0.max(1),
        Err(_) => 0,
    }
}
