//! The table of rules: what each finds, whether that is a cause of a kill, what it needs, and which finding it contradicts.

use super::{
    Run, advice, after_effects, allocator, call_growth, children, controller, framework, gpu_count,
    gpu_orphan, grows_per_call, head, high_threshold, idle, leak, left_over, many_workers,
    monitor_off, object_store, offload, one_process, outside_ray, own_shared, pinned, retry_loop,
    said, second_cluster, settings, shared_memory, spikes, teardown, unseen_limit, wrong_suspect,
};
use crate::judge::report::Finding;

/// One rule, which lives in a file of its own.
pub(super) struct Rule {
    /// The names of its findings.
    pub(super) ids: &'static [&'static str],
    /// Whether these name a cause of a kill: where none does, nothing fits.
    pub(super) is_cause: bool,
    /// Without what it has nothing to say.
    pub(super) needs: Needs,
    /// Findings of other rules whose remedies are opposite, or of which only one can be right.
    pub(super) contradicts: &'static [Contradiction],
    /// What it finds.
    pub(super) find: fn(Run<'_>) -> Vec<Finding>,
}

/// What a rule needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing in particular.
    Nothing,
    /// A death for memory.
    MemoryKill,
}

/// Two findings of which each is told of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contradiction {
    /// One of the rule's own.
    pub(super) rule: &'static str,
    /// That of another rule.
    pub(super) other: &'static str,
    /// Why.
    pub(super) why: &'static str,
}

/// Why offloading and a full GPU contradict.
pub(super) const OFFLOADED: &str = "offloading gives the host's memory for the GPU's: both are short here, so fewer ranks or a smaller model is left";

/// The rules, in the order in which their findings are shown: causes first, then settings, then what is no cause.
pub(super) static ALL: [Rule; 32] = [
    controller::RULE,
    leak::RULE,
    call_growth::RULE,
    children::RULE,
    wrong_suspect::RULE,
    allocator::RULE,
    idle::RULE,
    spikes::RULE,
    grows_per_call::RULE,
    many_workers::RULE,
    one_process::RULE,
    head::RULE,
    outside_ray::RULE,
    unseen_limit::RULE,
    monitor_off::RULE,
    own_shared::RULE,
    offload::RULE,
    pinned::RULE,
    shared_memory::RULE,
    retry_loop::RULE,
    high_threshold::RULE,
    settings::RULE,
    framework::RULE,
    object_store::RULE,
    advice::RULE,
    second_cluster::RULE,
    left_over::RULE,
    gpu_orphan::RULE,
    gpu_count::RULE,
    said::RULE,
    after_effects::RULE,
    teardown::RULE,
];

impl Rule {
    /// Whether it can have something to say.
    pub(super) fn applies(&self, run: Run<'_>) -> bool {
        match self.needs {
            Needs::Nothing => true,
            Needs::MemoryKill => run.memory_kills().next().is_some(),
        }
    }
}

/// Whether a finding names a cause of a kill.
pub(super) fn is_cause(finding: &Finding) -> bool {
    let mut causes = ALL.iter().filter(|rule| rule.is_cause);
    causes.any(|rule| rule.ids.contains(&finding.rule.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_known(id: &str) -> bool {
        ALL.iter().any(|rule| rule.ids.contains(&id))
    }

    #[test]
    fn every_contradiction_is_between_findings_that_exist_and_stands_once() {
        let pairs: Vec<&Contradiction> = ALL.iter().flat_map(|rule| rule.contradicts).collect();
        for pair in &pairs {
            assert!(is_known(pair.rule) && is_known(pair.other), "{pair:?}");
            let same = |one: &&&Contradiction| {
                [one.rule, one.other] == [pair.rule, pair.other]
                    || [one.other, one.rule] == [pair.rule, pair.other]
            };
            assert_eq!(pairs.iter().filter(same).count(), 1, "{pair:?}");
        }
        for rule in &ALL {
            let own = |pair: &Contradiction| rule.ids.contains(&pair.rule);
            assert!(rule.contradicts.iter().all(own), "{:?}", rule.ids);
        }
    }

    #[test]
    fn the_documentation_names_every_rule() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/findings.md"
        );
        let text = std::fs::read_to_string(path).expect("docs/reference/findings.md");
        for id in ALL.iter().flat_map(|rule| rule.ids) {
            assert!(text.contains(&format!("`{id}`")), "{id}");
        }
    }
}
