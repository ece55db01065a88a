//! Memory that left the GPU came to the host: an offload or a sleep with a copy, in the figures that the process printed.

use super::{
    Run,
    facts::Offload,
    remedy,
    rules::{Contradiction, Needs, OFFLOADED, Rule},
};
use crate::{
    ids::{Bytes, size},
    judge::report::{Certainty, Finding},
    ray::{facts::GpuMoved, framework::Aim},
};

/// Less is no offload of a model.
const LEAST: Bytes = Bytes(2 << 30);

/// What was given up, from what each process printed before and after: its writer, the figures, the line.
pub(in crate::judge) fn paired(points: &[(String, &GpuMoved, String)]) -> Vec<Offload> {
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

/// The rule.
pub(super) const RULE: Rule = Rule {
    ids: &["offload-to-host"],
    is_cause: true,
    needs: Needs::MemoryKill,
    contradicts: &[Contradiction {
        rule: "offload-to-host",
        other: "gpu-out-of-memory",
        why: OFFLOADED,
    }],
    find,
};

fn find(run: Run<'_>) -> Vec<Finding> {
    let kills: Vec<_> = run.memory_kills().map(|death| death.id).collect();
    let worth = |one: &&Offload| one.to_host.unwrap_or(one.freed) >= LEAST;
    let all = || run.facts.offloads.iter().filter(worth);
    let Some(biggest) = all().max_by_key(|one| one.to_host.unwrap_or(one.freed)) else {
        return Vec::new();
    };
    let mut who: Vec<&str> = all().map(|one| one.who.as_str()).collect();
    who.sort_unstable();
    who.dedup();
    let host = match biggest.to_host {
        Some(bytes) => format!("{} of it are a copy on the host", size(bytes)),
        None => {
            "a sleep of level 1 keeps the weights of it on the host; how much is not in the log"
                .to_owned()
        }
    };
    let summary = format!(
        "{} gave {} of GPU memory up at {}: {host}; {} do so",
        biggest.who,
        size(biggest.freed),
        biggest.what,
        if who.len() == 1 {
            "1 process".to_owned()
        } else {
            format!("{} processes", who.len())
        }
    );
    let certainty = match biggest.to_host {
        Some(_) => Certainty::Inferred,
        None => Certainty::Unknown,
    };
    // Only a sleep says what it copies.
    let aim = match biggest.to_host {
        Some(_) => Aim::Sleep,
        None => Aim::LessOnHost,
    };
    let mut remedy = remedy::keys(run, aim);
    if remedy.is_empty() {
        remedy = remedy::keys(run, Aim::Fewer);
    }
    vec![Finding {
        evidence: biggest.lines.clone(),
        remedy,
        cost: Some("RAM down, GPU up by the same".into()),
        wrong_if: Some("private memory of these processes does not rise at that moment".into()),
        deaths: kills,
        ..Finding::new("offload-to-host", certainty, summary)
    }]
}
