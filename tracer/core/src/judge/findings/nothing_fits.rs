//! Reports memory kills that no rule explains, with the largest processes and no cause.

use crate::{
    ids::size,
    judge::report::{Certainty, Death, Finding},
};

pub(super) fn find(left: &[&Death]) -> Option<Finding> {
    let first = left.first()?;
    let table: Vec<String> = first
        .memory
        .top
        .iter()
        .map(|one| {
            format!(
                "{} {} (pid {})",
                size(one.private_bytes),
                one.title,
                one.pid
            )
        })
        .collect();
    let summary = format!(
        "No rule explains {} were {}",
        if left.len() == 1 {
            "this memory kill; the largest processes".to_owned()
        } else {
            format!(
                "these {} memory kills; the largest processes at the first",
                left.len()
            )
        },
        if table.is_empty() {
            "not sampled".to_owned()
        } else {
            table.join(", ")
        }
    );
    Some(Finding {
        evidence: left
            .iter()
            .map(|death| super::victim(death))
            .take(5)
            .collect(),
        deaths: left.iter().map(|death| death.id).collect(),
        ..Finding::new("nothing-fits", Certainty::Unknown, summary)
    })
}
