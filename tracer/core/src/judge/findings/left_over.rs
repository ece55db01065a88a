//! Finds processes that outlived their raylet and still hold memory.
//!
//! The finding says what to type. raytrace kills nothing.

use super::Run;
use crate::{
    ids::size,
    judge::report::{Certainty, Finding},
    phrase,
};

/// How many processes get a line of evidence.
const MOST: usize = 5;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let left = &run.facts.left_over;
    let Some(first) = left.first() else {
        return Vec::new();
    };
    let pids: Vec<String> = left.iter().map(|one| one.pid.to_string()).collect();
    let whole: u64 = left.iter().map(|one| one.private.0).sum();
    let summary = format!(
        "{} outlived raylet {} by {} s or more and still held {}",
        phrase::count(left.len(), "process", "processes"),
        first.raylet,
        left.iter().map(|one| one.seconds).min().unwrap_or(0),
        size(crate::ids::Bytes(whole))
    );
    let line = |one: &super::facts::LeftOverProcess| {
        let user = one
            .uid
            .map_or_else(String::new, |uid| format!(", uid {uid}"));
        format!(
            "pid {}: {} {}{user}, {} s after its raylet",
            one.pid,
            size(one.private),
            one.title,
            one.seconds
        )
    };
    vec![Finding {
        evidence: left.iter().take(MOST).map(line).collect(),
        remedy: super::remedy::end(&pids),
        not_if: Some("they are meant to keep running (a separate service)".into()),
        ..Finding::new("left-over", Certainty::Inferred, summary)
    }]
}
