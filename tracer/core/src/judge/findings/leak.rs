//! Finds a method that led to a memory kill by leaving memory behind in each call.
//!
//! Reports how much each call left, and how many calls the limit holds. All processes that count
//! against the limit are added up, and what they kept must be a fair share of it. Growth that has
//! not led to a kill yet is reported by `grows-per-call`.

use std::collections::BTreeMap;

use super::{
    LINES, Run, about,
    code::{self, KeptLine},
    facts::Member,
    in_task,
    ray_remote::is_user_code,
    remedy,
};
use crate::{
    ids::{Bytes, size},
    judge::report::{Certainty, Death, Finding, Saving},
    ray::{framework::RemedyGoal, identify},
};

/// Fewer calls than this show no trend.
const ROW: u32 = 5;
/// What was kept is at least this share of the limit.
const SHARE: f64 = 0.1;
/// The remedy if an old vLLM may have leaked in generation.
const OLD_VLLM: &str =
    "upgrade vLLM if it is older than 0.8.3, which leaked with rollout.n above 1";

/// A process whose calls of a method left memory behind.
struct LeakingProcess<'a> {
    held: &'a Member,
    /// Its complete calls.
    calls: u32,
    each: Bytes,
}

impl<'a> LeakingProcess<'a> {
    /// Returns the method and its figures, by the calls that have a row. A victim's own count
    /// includes calls without one.
    fn of(held: &'a Member, death: &Death) -> Option<(&'a str, Self)> {
        let (method, calls, each) = held.leak()?;
        let own = death.activity.calls.as_ref().filter(|own| {
            held.pid == death.process.pid && own.task == method && own.died_in.is_some()
        });
        let calls = own.map_or(calls, |own| own.complete.max(calls));
        (calls >= ROW).then_some((method, Self { held, calls, each }))
    }

    fn kept(&self) -> u64 {
        (self.each.0 * u64::from(self.calls)).min(self.held.private.0)
    }
}

/// One method in all processes that run it.
#[derive(Default)]
struct Method<'a> {
    workers: Vec<LeakingProcess<'a>>,
    /// What one call in each process left, together.
    step: u64,
    /// Kept by all calls so far.
    kept: u64,
}

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    run.at_limits(|death, limit| {
        let mut methods: BTreeMap<&str, Method<'_>> = BTreeMap::new();
        let inside = run.inside(death).iter();
        for (method, one) in inside.filter_map(|held| LeakingProcess::of(held, death)) {
            let of = methods.entry(method).or_default();
            of.step += one.each.0;
            of.kept += one.kept();
            of.workers.push(one);
        }
        let (name, method) = methods.into_iter().max_by_key(|(_, method)| method.kept)?;
        if Bytes(method.kept).gib() < SHARE * limit.gib() {
            return None;
        }
        Some((
            (name.to_owned(), death.cluster),
            finding(run, death, limit, name, &method),
        ))
    })
}

fn finding(run: Run<'_>, death: &Death, limit: Bytes, name: &str, method: &Method<'_>) -> Finding {
    let count = method.workers.len();
    let each = Bytes(method.step / count.max(1) as u64);
    let whole: u64 = run.inside(death).iter().map(|held| held.private.0).sum();
    let room = limit.0.saturating_sub(whole.saturating_sub(method.kept));
    // The complete calls did fit.
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
        "Each call of {name} leaked {}{}, {} in total by complete calls: the limit of {} holds about {fit} {}{died}",
        each.finer_size(),
        match count {
            1 => String::new(),
            many => format!(" in each of {many} processes"),
        },
        size(Bytes(method.kept)),
        size(limit),
        if fit == 1 { "call" } else { "calls" }
    );
    let finding = about("leak", Certainty::Inferred, death, summary);
    let held: Vec<&Member> = method.workers.iter().map(|one| one.held).collect();
    let mut finding = in_task(finding, name, &held, |_| None);
    finding.evidence = method.workers.iter().take(LINES).map(line).collect();
    finding.about.bytes = Bytes(method.kept);
    let class = held.first().and_then(|held| held.class.as_deref());
    let line = line_of(run, method);
    if let Some(line) = &line {
        finding.evidence.push(line.evidence());
        finding.remedy.push(line.free_after_each_call());
        finding.about.own_line = true;
        finding.saving = Some(Saving::of(class, line.saves(Bytes(method.kept))));
    } else if let Some(calls) =
        calls_until_restart(name, method).filter(|_| is_user_code(run, name))
    {
        let text = format!(
            "max_calls={calls} in the @ray.remote of {name}: a new worker takes over after so many"
        );
        finding.remedy.push(text);
        finding.cost = Some("each new worker does its imports again".into());
        let share = 1.0 - (calls * count as u64) as f64 / complete.max(1) as f64;
        let saves = Bytes(method.kept).times(share.max(0.0));
        finding.saving = Some(Saving::of(class, saves));
    }
    if line.is_none() && by_vllm(run, name) {
        finding.remedy.push(OLD_VLLM.to_owned());
    }
    let restart = remedy::keys(run, RemedyGoal::Restart, None);
    if !restart.is_empty() {
        finding.remedy.push(format!(
            "restart from a checkpoint in time ({}; loses the work since then)",
            restart.join(" and ")
        ));
    }
    // A diagnosis is not a remedy, so it comes last.
    if line.is_none() {
        finding.remedy.push(format!(
            "find the line: memray attach PID of {name} in the next run, or py-spy dump --pid PID"
        ));
    }
    finding.not_if = Some("it is a cache that stops growing, or the next call frees it".into());
    finding
}

fn line(one: &LeakingProcess<'_>) -> String {
    format!(
        "pid {}: {} complete calls, {} each, {} held",
        one.held.pid,
        one.calls,
        one.each.finer_size(),
        size(one.held.private)
    )
}

/// Returns the line of the user's code that keeps the memory.
fn line_of<'a>(run: Run<'a>, method: &Method<'_>) -> Option<KeptLine<'a>> {
    let class = method.workers.first()?.held.class.as_deref()?;
    code::line_of_calls(run, class)
}

/// Returns whether vLLM may be what leaks, if no line of the user's code is known. Old versions
/// leaked in generation with several answers to a prompt. The version of vLLM is not recorded.
fn by_vllm(run: Run<'_>, method: &str) -> bool {
    let rl = run.framework.generates_with_vllm();
    let generates = ["generate", "rollout"]
        .iter()
        .any(|word| method.contains(word));
    let given = super::settings::of_framework(run.facts);
    let mut in_force = given.iter().filter(|one| !one.overruled);
    let other =
        in_force.any(|one| one.key.ends_with("rollout.name") && !one.value.contains("vllm"));
    let several =
        super::settings::number::<u64>(&given, "rollout.n").is_some_and(|answers| answers > 1);
    rl && generates && several && !other
}

/// Returns half of the calls of the worker that made the fewest. `None` for an actor, because Ray
/// does not replace it by a new one.
fn calls_until_restart(name: &str, method: &Method<'_>) -> Option<u64> {
    if identify::class_of_call(&format!("ray::{name}")).is_some() {
        return None;
    }
    let made = method.workers.iter().map(|one| one.calls);
    made.min().map(|calls| u64::from(calls / 2).max(1))
}
