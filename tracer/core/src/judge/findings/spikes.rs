//! Finds a peak of memory while a model is loaded or a checkpoint is written.
//!
//! It adds up how much processes had grown from the start of that until the kill.

use super::{
    Run, about, code,
    facts::Member,
    gpus, in_task, merged, more_memory,
    part_of::part_of,
    remedy,
    whole_model::{self, Copies},
};
use crate::{
    event::Role,
    ids::{Bytes, size},
    judge::report::{Certainty, Death, Finding},
    phrase,
    ray::framework::RemedyGoal,
};

/// The growth is at least this share of the limit.
const SHARE: f64 = 0.2;

/// A phase of a job, recognized by words in the names of its methods.
struct Phase {
    rule: &'static str,
    words: &'static [&'static str],
    what: &'static str,
    goal: RemedyGoal,
    remedy: &'static str,
    cost: &'static str,
    not_if: &'static str,
}

const PHASES: [Phase; 2] = [
    Phase {
        rule: "save-spike",
        words: &["save_checkpoint", "save_model", "save_"],
        what: "writing a checkpoint",
        goal: RemedyGoal::Save,
        remedy: "save without the optimizer's states, and let fewer ranks write at once",
        cost: "a resumed run starts with a new optimizer state",
        not_if: "memory stays up after the save",
    },
    Phase {
        rule: "load-spike",
        words: &[
            "init_model",
            "load_model",
            "load_checkpoint",
            "from_pretrained",
            "__init__",
        ],
        what: "loading",
        goal: RemedyGoal::Load,
        remedy: "load on one rank or on the meta device, from safetensors, or start the ranks one after another",
        cost: "a slower start",
        not_if: "memory keeps growing after the load",
    },
];

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let found = run.memory_kills().flat_map(|death| {
        let phases = PHASES.iter();
        phases.filter_map(move |phase| {
            let finding = spike(run, death, phase)?;
            Some(((phase.rule, death.cluster), finding))
        })
    });
    merged(found)
}

fn spike(run: Run<'_>, death: &Death, phase: &Phase) -> Option<Finding> {
    let limit = run.limit(death)?;
    let grown = |held: &&Member| held.grown().filter(|grown| grown.0 > 0);
    let inside = run.inside(death).iter();
    let busy: Vec<&Member> = inside
        .filter(|held| held.role == Role::Worker && is_in(held, phase))
        .filter(|held| grown(held).is_some())
        .collect();
    let sum = Bytes(busy.iter().filter_map(&grown).map(|grown| grown.0).sum());
    if sum.gib() < SHARE * limit.gib() {
        return None;
    }
    let most = busy.iter().max_by_key(|held| grown(held))?;
    let most_grown = grown(most)?;
    // A process with most of the growth is the rank that gathers the whole state.
    let alone = busy.len() > 1 && most_grown.0 * 2 > sum.0;
    let who = if alone {
        format!("pid {} alone {}", most.pid, size(most_grown))
    } else {
        format!("the largest {}", size(most_grown))
    };
    let method = most.doing.as_deref()?;
    let [part, percent, whole] = part_of(sum, limit);
    let summary = format!(
        "{} in {method} had grown by {part} since they began it ({who}), {percent} of the limit of {whole}: a peak of {}",
        phrase::count(busy.len(), "process", "processes"),
        phase.what
    );
    let finding = about(phase.rule, Certainty::Inferred, death, summary);
    let mut finding = in_task(finding, method, &busy, line);
    finding.about.bytes = sum;
    finding.remedy = remedy::keys(run, phase.goal, None);
    finding.cost = Some(phase.cost.to_owned());
    if phase.goal == RemedyGoal::Load {
        whole_model::add_smaller_copies(run, &copies(run, &busy, sum), &mut finding);
    }
    // A framework's own writer or loader has most of its lines in packages.
    let class = most.class.as_deref();
    let line = class.and_then(|class| code::line_of_calls(run, class));
    if let Some(line) = line.filter(|_| finding.remedy.is_empty()) {
        finding.remedy.push(format!(
            "{} allocated {}: process less at a time, or free finished parts",
            line.name(),
            line.part(sum)
        ));
        finding.evidence.push(line.evidence());
        finding.cost = None;
    }
    // The general advice is for several ranks of a framework that has no setting for it.
    if finding.remedy.is_empty() && busy.len() > 1 {
        finding.remedy.push(phase.remedy.to_owned());
    }
    finding.cost = finding.cost.filter(|_| !finding.remedy.is_empty());
    finding.remedy.extend(more_memory::remedy(run, death, sum));
    finding.not_if = Some(phase.not_if.to_owned());
    Some(finding)
}

/// Describes the copies that the ranks hold: each loads the whole model before it is sharded.
fn copies(run: Run<'_>, busy: &[&Member], grown: Bytes) -> Copies {
    Copies {
        class: busy
            .first()
            .and_then(|held| held.class.as_deref())
            .map(str::to_owned),
        copies: grown,
        held: Bytes(busy.iter().map(|held| held.private.0).sum()),
        several: busy.len() > 1,
        // In a training on GPUs, the optimizer's states stay there.
        before_optimizer: !gpus::compute_on_gpus(run, busy),
        training: false,
    }
}

fn line(held: &Member) -> Option<String> {
    Some(format!(
        "pid {}: {} before, {} at the kill",
        held.pid,
        size(held.before?),
        size(held.private)
    ))
}

/// Returns whether a process loads or saves.
pub(super) fn is_phase(held: &Member) -> bool {
    PHASES.iter().any(|phase| is_in(held, phase))
}

fn is_in(held: &Member, phase: &Phase) -> bool {
    held.doing.as_deref().is_some_and(|doing| {
        // `offload_model` loads nothing.
        let doing = doing.replace("offload", "");
        phase.words.iter().any(|word| doing.contains(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Pid;

    /// A method that moves a model to the host does not load one.
    #[test]
    fn offload_model_is_no_loading_phase() {
        let loads = |doing: &str| {
            let held = Member {
                pid: Pid(7),
                role: Role::Worker,
                class: None,
                doing: Some(doing.into()),
                private: Bytes(2),
                shared: Bytes(0),
                before: Some(Bytes(1)),
                cluster: None,
                cgroup: None,
                growth: None,
                reused: None,
                idle: None,
                on_gpu: false,
            };
            is_in(&held, &PHASES[1])
        };
        assert!(loads("WorkerDict.load_model"));
        assert!(!loads("WorkerDict.offload_model"));
    }
}
