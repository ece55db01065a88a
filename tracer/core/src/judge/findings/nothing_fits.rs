//! Reports memory kills that no rule explains, with the largest processes and no cause.

use std::collections::BTreeSet;

use crate::{
    ids::{EventId, size},
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
    // The victims of one decision of Ray's are one kill.
    let acts = left.iter().map(|death| {
        let act = death.verdict.act;
        act.map_or(death.id, |act| act.death_id)
    });
    let kills = acts.collect::<BTreeSet<EventId>>().len();
    let summary = format!(
        "raytrace did not find what filled the memory at {} were {}",
        if kills == 1 {
            "this kill; the largest processes".to_owned()
        } else {
            format!("these {kills} kills; the largest processes at the first")
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
