//! A memory kill that a method led to by leaving something behind in each call: how much, and how many calls the limit holds.
//!
//! It explains deaths: all processes that count against the limit add up, and what they kept must be a part of it. Of what has not killed
//! yet, `grows-per-call` speaks.

use std::collections::BTreeMap;

use super::{
    Run, about,
    code::{self, Kept},
    facts::Held,
    in_task, merged, remedy,
    rules::{Contradiction, Needs, Rule},
};
use crate::{
    ids::{Bytes, size},
    judge::report::{Certainty, Death, Finding, Saving},
    ray::framework::Aim,
};

/// Fewer calls are no row.
const ROW: u32 = 5;
/// What was kept is at least this share of the limit.
const SHARE: f64 = 0.1;

/// One method in all processes that run it.
#[derive(Default)]
struct Method<'a> {
    workers: Vec<&'a Held>,
    /// Left by one call of each.
    step: u64,
    /// Kept by all calls so far.
    kept: u64,
}

/// The rule.
pub(super) const RULE: Rule = Rule {
    ids: &["leak"],
    is_cause: true,
    needs: Needs::MemoryKill,
    contradicts: &[
        Contradiction {
            rule: "leak",
            other: "save-spike",
            why: "a leak is never given back, a save's peak is: one of them is not the cause",
        },
        Contradiction {
            rule: "leak",
            other: "load-spike",
            why: "a leak grows call by call, a load once: one of them is not the cause",
        },
    ],
    find,
};

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let found = run.memory_kills().filter_map(|death| {
        let limit = run.limit(death)?;
        let mut methods: BTreeMap<&str, Method<'_>> = BTreeMap::new();
        for held in run.inside(death) {
            let Some((method, calls, each)) = held.leak.as_ref().filter(|leak| leak.1 >= ROW)
            else {
                continue;
            };
            let of = methods.entry(method).or_default();
            of.workers.push(held);
            of.step += each.0;
            of.kept += each.0 * u64::from(*calls);
        }
        let (name, method) = methods.into_iter().max_by_key(|(_, method)| method.kept)?;
        if Bytes(method.kept).gib() < SHARE * limit.gib() {
            return None;
        }
        Some((
            (name.to_owned(), death.cluster),
            finding(run, death, limit, name, &method),
        ))
    });
    merged(found)
}

fn finding(run: Run<'_>, death: &Death, limit: Bytes, name: &str, method: &Method<'_>) -> Finding {
    let count = method.workers.len();
    let each = Bytes(method.step / count.max(1) as u64);
    let whole: u64 = run.inside(death).iter().map(|held| held.private.0).sum();
    let room = limit.0.saturating_sub(whole.saturating_sub(method.kept));
    // Those that were complete did fit.
    let complete = method.kept / method.step.max(1);
    let fit = (room / method.step.max(1)).max(complete);
    let died = death
        .activity
        .calls
        .as_ref()
        .filter(|calls| calls.task == name);
    let died = died.and_then(|calls| calls.died_in);
    let died = died.map_or_else(String::new, |nth| format!("; it died in call {nth}"));
    let summary = format!(
        "each call of {name} left {} behind in {count} {}, {} by then: the limit of {} holds about {fit} {}{died}",
        each.fine(),
        if count == 1 { "process" } else { "processes" },
        size(Bytes(method.kept)),
        size(limit),
        if fit == 1 { "call" } else { "calls" }
    );
    let finding = about("leak", Certainty::Inferred, death, summary);
    let mut finding = in_task(finding, name, &method.workers, line);
    finding.remedy = remedy(run, name, method);
    if let Some(line) = line_of(run, method) {
        finding.evidence.push(line.evidence());
        let text = format!(
            "{} {}: release it after each call",
            line.name(),
            line.keeps(Bytes(method.kept))
        );
        // The line is known: no profiler has to find it.
        finding.remedy[0] = text;
        finding.saving = Some(Saving {
            class: method.workers.first().and_then(|held| held.class.clone()),
            bytes: line.saves(Bytes(method.kept)),
        });
    }
    finding.cost = Some("a restart loses what was done since the last checkpoint".into());
    finding.wrong_if =
        Some("it is a cache that stops growing, or if the next call frees it".into());
    finding
}

fn line(held: &Held) -> Option<String> {
    let (_, calls, each) = held.leak.as_ref()?;
    Some(format!(
        "pid {}: {calls} complete calls, {} each, {} held",
        held.pid,
        each.fine(),
        size(held.private)
    ))
}

/// The user's own line that keeps it.
fn line_of<'a>(run: Run<'a>, method: &Method<'_>) -> Option<Kept<'a>> {
    let class = method.workers.first()?.class.as_deref()?;
    code::of_calls(run, class)
}

/// Whether vLLM may be what leaks: it did in generation, for several answers to a prompt.
fn by_vllm(run: Run<'_>, method: &str) -> bool {
    let rl = run.framework.generates_with_vllm();
    let generates = ["generate", "rollout"]
        .iter()
        .any(|word| method.contains(word));
    let given = super::settings::of_framework(run.facts);
    let other = given.iter().filter(|one| !one.overruled).any(|one| {
        let engine = one.key.ends_with("rollout.name") && !one.value.contains("vllm");
        let single = one.key.ends_with("rollout.n") && one.value == "1";
        engine || single
    });
    rl && generates && !other
}

fn remedy(run: Run<'_>, name: &str, method: &Method<'_>) -> Vec<String> {
    let biggest = method.workers.first().map_or(0, |held| held.pid.0);
    let mut remedy = vec![format!(
        "find what grows: memray attach {biggest} in the next run, or py-spy dump --pid {biggest}"
    )];
    if by_vllm(run, name) {
        remedy.push("vLLM 0.8.3 or newer: older ones leak with rollout.n above 1".into());
    }
    let restart = remedy::keys(run, Aim::Restart);
    if !restart.is_empty() {
        remedy.push(format!(
            "until then a restart before it is full: {}",
            restart.join(", ")
        ));
    }
    remedy
}
