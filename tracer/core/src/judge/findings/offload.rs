//! Finds memory that moved from a GPU to the host: an offload, or a sleep with a copy.
//!
//! The figures are those that the process printed, or that NVML and `/proc` measured.

use std::collections::BTreeMap;

use super::{Run, facts::Offload, remedy};
use crate::{
    ids::{Bytes, size},
    judge::report::{About, Certainty, Finding},
    phrase,
    ray::{facts::GpuMoved, framework::RemedyGoal},
};

/// Less than this is not the offload of a model.
const LEAST: Bytes = Bytes(2 << 30);

/// Parts of the names of inference engines and of the actors that hold one.
const ENGINES: [&str; 3] = ["vllm", "llmrayactor", "sglang"];

/// Returns whether a process with this class, name or command line is an inference engine.
pub(super) fn is_engine(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ENGINES.iter().any(|part| name.contains(part))
}

/// Returns what was given up, from what each process printed before and after. A point has the
/// process that printed it, the figures and the line.
pub(crate) fn find_offloads(points: &[(String, &GpuMoved, String)]) -> Vec<Offload> {
    let mut before: Vec<(&str, &str, Bytes, &str)> = Vec::new();
    let mut found: Vec<Offload> = Vec::new();
    for (who, moved, line) in points {
        let offload = match moved {
            GpuMoved::Before { what, used, .. } => {
                before.retain(|(known, of, ..)| known != who || of != what);
                before.push((who, what, *used, line));
                continue;
            }
            GpuMoved::After { what, used, total } => {
                let at = before
                    .iter()
                    .rposition(|(known, of, ..)| known == who && of == what);
                let Some((_, _, had, first)) = at.map(|at| before.remove(at)) else {
                    continue;
                };
                Offload {
                    who: who.clone(),
                    by_engine: false,
                    what: format!(
                        "{what} ({:.2} to {:.2} of {})",
                        had.gib(),
                        used.gib(),
                        size(*total)
                    ),
                    freed: Bytes(had.0.saturating_sub(used.0)),
                    to_host: None,
                    lines: vec![first.to_owned(), line.clone()],
                }
            }
            GpuMoved::Slept { freed, to_host } => Offload {
                who: who.clone(),
                by_engine: true,
                what: "sleep".into(),
                freed: *freed,
                to_host: Some(*to_host),
                lines: vec![line.clone()],
            },
        };
        found.push(offload);
    }
    found
}

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let kills: Vec<_> = run.memory_kills().map(|death| death.id).collect();
    let worth = |one: &&Offload| one.to_host.unwrap_or(one.freed) >= LEAST;
    let all = || run.facts.offloads.iter().filter(worth);
    let Some(biggest) = all().max_by_key(|one| one.to_host.unwrap_or(one.freed)) else {
        return Vec::new();
    };
    // The most that each gave up at once. It does so again and again.
    let mut each: BTreeMap<&str, u64> = BTreeMap::new();
    for one in all() {
        let most = each.entry(&one.who).or_default();
        *most = one.to_host.unwrap_or(one.freed).0.max(*most);
    }
    let host = match biggest.to_host {
        Some(bytes) => format!("{} of it are a copy on the host", size(bytes)),
        None => "a sleep of level 1 keeps its weights on the host; the log does not say how much"
            .to_owned(),
    };
    let summary = format!(
        "{} moved {} off the GPU at {}: {host}; {} did so",
        biggest.who,
        size(biggest.freed),
        biggest.what,
        phrase::count(each.len(), "process", "processes")
    );
    let certainty = match biggest.to_host {
        Some(_) => Certainty::Inferred,
        None => Certainty::Unknown,
    };
    let goal = if biggest.by_engine {
        RemedyGoal::Sleep
    } else {
        RemedyGoal::LessOnHost
    };
    let mut remedy = remedy::keys(run, goal, None);
    let mut cost = "RAM down, GPU up by the same";
    if remedy.is_empty() {
        remedy = remedy::keys(run, RemedyGoal::Fewer, None);
        cost = "less parallelism";
    }
    let cost = (!remedy.is_empty()).then(|| cost.to_owned());
    let about = About {
        bytes: Bytes(each.values().sum()),
        ..About::default()
    };
    vec![Finding {
        about,
        evidence: biggest.lines.clone(),
        remedy,
        cost,
        not_if: Some("the private memory of these processes does not rise at that moment".into()),
        deaths: kills,
        ..Finding::new("offload-to-host", certainty, summary)
    }]
}
