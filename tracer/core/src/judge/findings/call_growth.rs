//! Finds a kill that the growth of running calls led to.
//!
//! Reports what the calls had taken, and the setting that bounds what such a call takes.

mod lowered_setting;

use std::collections::BTreeMap;

use super::{
    Run, about, code, controller,
    facts::Member,
    gpus, in_task, leads, more_memory,
    part_of::part_of,
    precision,
    remedy::{self, is_printed},
    settings::{FrameworkSetting, number, of_framework},
    spikes,
    whole_model::{self, Copies},
};
use crate::{
    event::Role,
    ids::{Bytes, size},
    judge::report::{Certainty, Death, Finding, Saving},
    phrase::{self, when},
    ray::framework::{self, Effect, RemedyGoal},
};
use lowered_setting::turned;

/// What the calls took is at least this share of the limit.
const SHARE: f64 = 0.2;
/// If logits are a smaller share of the growth, another batch size would not change it.
const LOGITS: f64 = 0.25;
/// Bytes of a logit, which is a bfloat16 under autocast.
const LOGIT: f64 = 2.0;

/// The least share of what the calls took that storages of gathers hold, if gathers are the cause.
const GATHERED: f64 = 0.25;
/// Parts of the names of methods that train: `update_actor`, and since verl 0.8
/// `critic_train_mini_batch`.
const TRAINS: [&str; 2] = ["update_", "train_mini_batch"];
/// Start of the paths of FSDP's own code (torch 2.8: `_flat_param.py`, `_runtime_utils.py`). The
/// code of a forward pass has another path.
const GATHER: &str = "torch/distributed/fsdp/_";
/// Start of the paths of the optimizers' code (torch 2.8: `optimizer.py`, `adamw.py`).
const OPTIMIZER: &str = "torch/optim/";
/// Evidence that says why no smaller batch is advised.
const ON_GPUS: &str = "it computes on GPUs, where batches and logits lie: what it takes of the host is a copy or its own";
/// How many innermost frames show what a stack was doing.
const INNERMOST: usize = 4;

/// One method in all processes that run it.
struct Method<'a> {
    name: &'a str,
    workers: Vec<&'a Member>,
    took: Bytes,
}

const SMALLER_PASSES: &str = "more and smaller passes in each call; the result is the same";

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let mut found = run.at_limits(|death, limit| {
        let method = biggest(run.inside(death), Member::grown)?;
        if method.took.gib() < SHARE * limit.gib() {
            return None;
        }
        // The summary names one limit.
        let key = (method.name.to_owned(), death.cluster, limit);
        Some((key, finding(run, death, limit, &method)))
    });
    for finding in &mut found {
        let first = run
            .memory_kills()
            .find(|death| finding.deaths.contains(&death.id));
        if let Some(limit) = first.and_then(|death| run.limit(death)) {
            with_later_victims(run, limit, finding);
        }
    }
    found
}

/// The rule for texts: what the calls had taken is not known, but what their processes held is.
pub(super) fn find_held(run: Run<'_>) -> Vec<Finding> {
    if !run.report.recordings.is_empty() {
        return Vec::new();
    }
    run.at_limits(|death, limit| {
        let method = biggest(run.inside(death), |held| Some(held.private))?;
        let enough = method.took.gib() >= SHARE * limit.gib();
        let finding = enough.then(|| held_in(run, death, limit, &method))??;
        Some(((method.name.to_owned(), death.cluster, limit), finding))
    })
}

/// Returns a finding about calls whose setting is known. Its value is computed as if the calls had
/// taken all that their processes held.
fn held_in(run: Run<'_>, death: &Death, limit: Bytes, method: &Method<'_>) -> Option<Finding> {
    let given = of_framework(run.facts);
    // What moves to the host or is pinned there has a GPU to come from.
    let has_gpu = given.iter().filter(|one| !one.overruled).any(|one| {
        let effect = one.effect.as_ref().map(|known| known.effect);
        matches!(effect, Some(Effect::MovesToHost | Effect::Pinned))
    });
    if has_gpu || gpus::may_compute_on_gpus(run) || small_logits(run, &given, method) {
        return None;
    }
    let turned = turned(run, death, limit, method, &given)?;
    let count = method.workers.len();
    let [_, percent, whole] = part_of(method.took, limit);
    let summary = format!(
        "{} ran in {} that held {}, {percent} of the limit of {whole}; how much of it the {} had added is not in the logs",
        method.name,
        phrase::count(count, "process", "processes"),
        size(method.took),
        if count == 1 { "call" } else { "calls" },
    );
    let finding = about("call-held", Certainty::Inferred, death, summary);
    let mut finding = in_task(finding, method.name, &method.workers, |held| {
        Some(format!("pid {}: {}", held.pid, size(held.private)))
    });
    finding.about.bytes = method.took;
    finding.about.turns = true;
    finding.remedy = vec![turned.text()];
    let but = when(
        trains(method),
        "; it does not shrink parameters, gradients and the optimizer's states",
    );
    finding.cost = Some(format!(
        "{SMALLER_PASSES}{but}; no help where the batch lies on a GPU"
    ));
    finding.not_if = Some("they held as much before the call, or compute on GPUs".into());
    Some(finding)
}

fn trains(method: &Method<'_>) -> bool {
    TRAINS.iter().any(|part| method.name.contains(part))
}

/// Returns whether the logits of a pass are known to be a small part of what a method took.
fn small_logits(run: Run<'_>, given: &[FrameworkSetting], method: &Method<'_>) -> bool {
    let logits = logits(run, given, method.name);
    logits.is_some_and(|(bytes, _)| is_small(bytes, method))
}

/// Returns whether the logits of a pass are a small part of what a method took.
fn is_small(bytes: f64, method: &Method<'_>) -> bool {
    bytes * (method.workers.len() as f64) < LOGITS * method.took.0 as f64
}

/// Adds other victims that died in the same method at the same limit. Its calls may have taken too
/// little by then for a finding of their own.
fn with_later_victims(run: Run<'_>, limit: Bytes, finding: &mut Finding) {
    let same = |death: &&Death| {
        let calls = death.activity.calls.as_ref();
        let same_call = calls.is_some_and(|calls| {
            calls.died_in.is_some() && Some(&calls.task) == finding.about.task.as_ref()
        });
        same_call && run.limit(death) == Some(limit)
    };
    let new: Vec<_> = run
        .memory_kills()
        .filter(same)
        .map(|death| death.id)
        .filter(|id| !finding.deaths.contains(id))
        .collect();
    finding.deaths.extend(new);
}

/// Returns the method whose running calls took the most. Controllers, loading and saving are left
/// out, because they have rules of their own.
fn biggest(inside: &[Member], took: fn(&Member) -> Option<Bytes>) -> Option<Method<'_>> {
    let mut methods: BTreeMap<&str, Method<'_>> = BTreeMap::new();
    let workers = inside.iter().filter(|held| held.role == Role::Worker);
    for held in workers.filter(|held| !controller::is_controller(held)) {
        let (Some(name), Some(took)) = (held.doing.as_deref(), took(held)) else {
            continue;
        };
        if spikes::is_phase(held) || leaks_more(held, took) {
            continue;
        }
        let method = methods.entry(name).or_insert(Method {
            name,
            workers: Vec::new(),
            took: Bytes(0),
        });
        method.workers.push(held);
        method.took.0 += took.0;
    }
    methods.into_values().max_by_key(|method| method.took)
}

/// Returns whether earlier calls left more behind than this one took.
fn leaks_more(held: &Member, took: Bytes) -> bool {
    let left = held.leak();
    left.is_some_and(|(_, calls, each)| each.0 * u64::from(calls) > took.0)
}

fn finding(run: Run<'_>, death: &Death, limit: Bytes, method: &Method<'_>) -> Finding {
    let count = method.workers.len();
    let [_, percent, whole] = part_of(method.took, limit);
    let summary = format!(
        "The running {} of {} had added {} in {}, {percent} of the limit of {whole}{}",
        if count == 1 { "call" } else { "calls" },
        method.name,
        size(method.took),
        phrase::count(count, "process", "processes"),
        died(death, method),
    );
    let mut finding = about("call-grew", Certainty::Inferred, death, summary);
    finding.about.bytes = method.took;
    let mut finding = in_task(finding, method.name, &method.workers, line);
    let calls = death.activity.calls.as_ref();
    let first = calls.is_some_and(|calls| calls.task == method.name && calls.died_in_first());
    let earlier = "earlier calls of it took as much and were not killed";
    finding.not_if = (!first).then(|| earlier.into());
    remedies(run, death, limit, method, &mut finding);
    finding
}

/// Says when the victim died, if it ran the method: `; pid 7 died 8.0 s into call 1`.
fn died(death: &Death, method: &Method<'_>) -> String {
    let calls = death.activity.calls.as_ref();
    let calls = calls.filter(|calls| calls.task == method.name);
    let Some((nth, ms)) = calls.and_then(|calls| Some((calls.died_in?, calls.running_ms?))) else {
        return String::new();
    };
    let seconds = ms as f64 / 1000.0;
    format!(
        "; pid {} died {seconds:.1} s into call {nth}",
        death.process.pid
    )
}

fn line(held: &Member) -> Option<String> {
    Some(format!(
        "pid {}: {} before the call, {} at the kill",
        held.pid,
        size(held.before?),
        size(held.private)
    ))
}

fn remedies(run: Run<'_>, death: &Death, limit: Bytes, method: &Method<'_>, finding: &mut Finding) {
    let class = method.workers.iter().find_map(|held| held.class.as_deref());
    let line = class.and_then(|class| code::line_of_calls(run, class));
    let given = of_framework(run.facts);
    let on_gpus = gpus::compute_on_gpus(run, &method.workers);
    let logits = logits(run, &given, method.name).filter(|_| !on_gpus);
    let small = logits
        .as_ref()
        .is_some_and(|(bytes, _)| is_small(*bytes, method));
    let copies = (!on_gpus && is_in(death, GATHER))
        || class.is_some_and(|class| gathers(run, class, method.took));
    let steps = !on_gpus && !copies && is_in(death, OPTIMIZER);
    if copies {
        let text = "; it was in FSDP's gather or reduction of parameters, which a smaller batch does not shrink";
        finding.summary.push_str(text);
    }
    let turned = turned(run, death, limit, method, &given)
        .filter(|_| !small && !copies && !steps && !on_gpus);
    if let Some((bytes, words)) = logits {
        let part = when(small, ", a small part: its batch is not the cause");
        finding
            .evidence
            .push(format!("{words} = {}{part}", size(Bytes(1).times(bytes))));
    }
    let saving = |bytes| Saving {
        task: Some(method.name.to_owned()),
        ..Saving::of(class, bytes)
    };
    if let Some(turned) = &turned {
        leads(
            finding,
            turned.text(),
            saving(method.took.times(turned.saves())),
            SMALLER_PASSES,
        );
    }
    let mut is_turned = turned.is_some();
    if on_gpus {
        is_turned = on_the_host(run, class, method.name, finding);
    }
    if steps {
        is_turned = smaller_states(run, saving(method.took.times(precision::SHARE)), finding);
    }
    if copies {
        let calls = death.activity.calls.as_ref();
        let ranks = Copies {
            class: class.map(str::to_owned),
            copies: method.took,
            held: method.took,
            several: method.workers.len() > 1,
            before_optimizer: !on_gpus && calls.is_some_and(|calls| calls.died_in_first()),
            training: trains(method),
        };
        is_turned = whole_model::add_smaller_copies(run, &ranks, finding);
        if !is_turned {
            finding.remedy.push(fewer_ranks(run));
            finding.cost = Some("less parallelism".into());
        }
    }
    finding.about.turns = is_turned;
    if let Some(line) = line {
        let text = format!(
            "{} allocated {}: process less at a time, or free finished parts",
            line.name(),
            line.part(method.took)
        );
        finding.evidence.push(line.evidence());
        // The user's own line comes first if it has most of the growth, or if no setting was found.
        if line.share >= 0.5 || !is_turned {
            finding.about.own_line = true;
            finding.saving = Some(saving(line.saves(method.took)));
            finding.remedy.insert(0, text);
            // The cost belongs to the setting, which is second now.
            if let (Some(cost), Some(setting)) = (finding.cost.take(), finding.remedy.get_mut(1)) {
                setting.push_str(&format!(" (cost: {cost})"));
            }
        } else {
            finding.remedy.push(text);
        }
    }
    if !finding.remedy.is_empty() {
        let more = more_memory::remedy(run, death, method.took);
        let own = finding.about.own_line;
        let more = more.map(|text| {
            if own {
                format!("{text}; {}", more_memory::DELAYS)
            } else {
                text
            }
        });
        finding.remedy.extend(more);
    }
}

/// Advises on processes that compute on GPUs, and returns whether a setting was found. What they
/// hold on the host is a copy of GPU memory, and no batch is a part of it.
fn on_the_host(run: Run<'_>, class: Option<&str>, method: &str, finding: &mut Finding) -> bool {
    finding.evidence.push(ON_GPUS.to_owned());
    finding.remedy = remedy::keys_in(run, RemedyGoal::LessOnHost, class, Some(method));
    let known = !finding.remedy.is_empty();
    finding.cost = known.then(|| "that much more GPU memory is needed".to_owned());
    known
}

/// Advises smaller optimizer states, and returns whether a setting was found. There are as many
/// states as parameters, whatever the batch. Fewer ranks do not reduce what is sharded.
fn smaller_states(run: Run<'_>, saving: Saving, finding: &mut Finding) -> bool {
    let text =
        "; it was in the optimizer's step, whose states a smaller batch does not make smaller";
    finding.summary.push_str(text);
    let Some(precision) = precision::bfloat16_setting(run) else {
        return false;
    };
    leads(finding, precision, saving, precision::COST);
    true
}

/// Returns the remedy for an unknown number of ranks: each rank gathers one unit's parameters at a
/// time.
fn fewer_ranks(run: Run<'_>) -> String {
    let key = framework::ranks(run.framework);
    let key = key.map_or_else(String::new, |key| format!(": a lower {key}"));
    format!("fewer ranks on this node, since each gathers a copy{key}")
}

/// Returns whether FSDP's storages hold much of what the calls took (torch 2.8: `_alloc_storage` of
/// `torch/distributed/utils.py`). These storages are resized for nothing else, and emptied when a
/// unit has run.
fn gathers(run: Run<'_>, class: &str, took: Bytes) -> bool {
    let growth = run.report.growth.iter().find(|one| one.class == class);
    let lines = growth.into_iter().flat_map(|growth| &growth.lines);
    let resized = lines.filter(|line| {
        let inside = line.inside.as_deref().unwrap_or_default();
        inside.contains("TypedStorage._resize_")
    });
    let held = Bytes(
        resized
            .filter_map(|line| line.held_bytes)
            .map(|held| held.0)
            .sum(),
    );
    held.gib() >= GATHERED * took.gib()
}

/// Returns whether one of the victim's innermost frames was in this code.
fn is_in(death: &Death, code: &str) -> bool {
    let stack = death.activity.stack_at_death.as_deref().unwrap_or_default();
    let mut innermost = stack.lines().take(INNERMOST);
    innermost.any(|line| line.starts_with(code))
}

/// Returns the tokens of one sequence, prompt and response.
fn tokens(given: &[FrameworkSetting]) -> Option<f64> {
    let length = |end: &str| number::<f64>(given, end);
    Some(length("data.max_prompt_length")? + length("data.max_response_length")?)
}

/// Returns the bytes that the logits of one micro batch take, and the calculation in words.
fn logits(run: Run<'_>, given: &[FrameworkSetting], method: &str) -> Option<(f64, String)> {
    let bound = framework::bound(run.framework, method).filter(|bound| !bound.tokens)?;
    let number = |key: &str| {
        let found = given.iter().find(|one| one.key == key && !one.overruled);
        found?.value.parse::<f64>().ok()
    };
    let (batch, vocabulary, tokens) = (number(&bound.key)?, number("vocab_size")?, tokens(given)?);
    let words = format!(
        "logits of a pass: {batch:.0} sequences × {tokens:.0} tokens × {vocabulary:.0} words × {LOGIT:.0} B"
    );
    Some((batch * tokens * vocabulary * LOGIT, words))
}
