//! Lists the settings of a remedy, in the keys of each framework.
//!
//! Every key is one that [`super::is_known`] knows.

use serde::Deserialize;

use super::{Framework, table};
pub use table::Bound;

/// The goal of a remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemedyGoal {
    /// Less host memory in each rank: no copies of what is on the GPU.
    LessOnHost,
    /// Less host memory in the process that holds the data: verl's `TaskRunner`.
    LessInController,
    /// Fewer subprocesses that load data. Each holds what the data set keeps.
    FewerLoaders,
    /// Smaller parameters, gradients and optimizer states in each rank.
    Precision,
    /// Fewer processes at the same time.
    Fewer,
    /// A smaller peak while the model is loaded.
    Load,
    /// A smaller peak while a checkpoint is written.
    Save,
    /// A restart before a leak reaches the limit.
    Restart,
    /// Less GPU memory.
    Gpu,
    /// An engine that sleeps without a copy of its weights on the host.
    Sleep,
}

/// A setting that a remedy changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemedySetting {
    /// Its key as typed.
    pub key: &'static str,
    /// Its key before the framework renamed it.
    pub old: Option<&'static str>,
    /// The value to set. A word in capitals stands for a value to choose, an empty one for leaving
    /// the setting out.
    pub value: &'static str,
    /// Whether this value is the framework's default.
    pub default: bool,
    /// A setting that must have been typed, or this one has no effect.
    pub only_if_typed: Option<&'static str>,
    /// Parts of the names of the classes that it acts on; if empty, it acts on all.
    acts_on: &'static [String],
    /// Parts of the names of the methods that it makes grow; if empty, it affects all.
    acts_in: &'static [String],
}

impl RemedySetting {
    /// Whether it changes anything for processes of this class.
    pub(crate) fn acts_on(&self, class: &str) -> bool {
        has_part(self.acts_on, class)
    }

    /// Whether it makes calls of this method grow: `PolicyModelActor.fit`.
    pub(crate) fn acts_in(&self, method: &str) -> bool {
        has_part(self.acts_in, method)
    }

    /// Whether every framework with the same actor classes has this setting under the same key. If
    /// only the class is known, no other setting may be advised.
    pub(crate) fn is_of_all_forks(&self, framework: Framework, goal: RemedyGoal) -> bool {
        let has = |fork: &Framework| {
            remedy_settings(*fork, goal)
                .iter()
                .any(|setting| setting.key == self.key)
        };
        framework.forks().iter().all(has)
    }
}

/// Whether a name contains one of these parts. True if there are no parts.
fn has_part(parts: &[String], name: &str) -> bool {
    parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str()))
}

/// Returns a framework's settings for a goal; empty where no key is known.
pub(crate) fn remedy_settings(framework: Framework, goal: RemedyGoal) -> Vec<RemedySetting> {
    let table = table::of(framework);
    let entries = table.and_then(|table| table.remedies.get(&goal));
    entries
        .into_iter()
        .flatten()
        .map(|entry| RemedySetting {
            key: &entry.key,
            old: entry.old_key.as_deref(),
            value: &entry.value,
            default: entry.default,
            only_if_typed: entry.only_if_typed.as_deref(),
            acts_on: &entry.acts_on,
            acts_in: &entry.acts_in,
        })
        .collect()
}

/// Returns the setting for the number of ranks on a node.
pub(crate) fn ranks(framework: Framework) -> Option<&'static str> {
    table::of(framework)?.ranks.as_deref()
}

/// Returns what bounds the memory of a method's calls. If several parts of the method's name are
/// known, the longest counts.
pub fn bound(framework: Framework, method: &str) -> Option<&'static Bound> {
    let bounds = table::of(framework)?.calls.iter();
    let named = bounds.filter(|bound| method.contains(&bound.call));
    named.max_by_key(|bound| bound.call.len())
}

/// Returns what this setting bounds.
pub fn bound_by(framework: Framework, key: &str) -> Option<&'static Bound> {
    let mut bounds = table::of(framework)?.calls.iter();
    bounds.find(|bound| bound.key == key)
}

/// Returns advice that has no key.
pub fn advice_without_key(framework: Framework, goal: RemedyGoal) -> Option<&'static str> {
    let words = &table::of(framework)?.words;
    words.get(&goal).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::{super::is_known, *};

    #[test]
    fn openrlhf_setting_acts_in_its_calls() {
        let acting = |method: &str| -> Vec<&str> {
            let settings = remedy_settings(Framework::OpenRlhf, RemedyGoal::LessOnHost).into_iter();
            let class = method.split('.').next().expect("a class");
            let acts = |setting: &RemedySetting| setting.acts_on(class) && setting.acts_in(method);
            settings.filter(acts).map(|setting| setting.key).collect()
        };
        assert_eq!(acting("PolicyModelActor.fit"), ["--ds.adam_offload"]);
        assert_eq!(
            acting("PolicyModelActor.offload_states"),
            ["--ds.enable_sleep"]
        );
        assert_eq!(acting("LLMRayActor.sleep"), ["--vllm.enable_sleep"]);
        let none: [&str; 0] = [];
        for method in ["PolicyModelActor.forward", "LLMRayActor.get_responses"] {
            assert_eq!(acting(method), none, "{method}");
        }
    }

    #[test]
    fn remedies_name_only_known_keys() {
        let goals = [
            RemedyGoal::LessOnHost,
            RemedyGoal::LessInController,
            RemedyGoal::FewerLoaders,
            RemedyGoal::Precision,
            RemedyGoal::Fewer,
            RemedyGoal::Load,
            RemedyGoal::Save,
            RemedyGoal::Restart,
            RemedyGoal::Gpu,
            RemedyGoal::Sleep,
        ];
        let mut seen = 0;
        for framework in Framework::ALL {
            for setting in goals
                .into_iter()
                .flat_map(|goal| remedy_settings(framework, goal))
            {
                for key in [Some(setting.key), setting.old].into_iter().flatten() {
                    assert!(is_known(key.trim_start_matches('-')), "{key}");
                }
                seen += 1;
            }
        }
        assert!(seen > 20, "{seen}");
        for framework in Framework::ALL {
            let bounds = table::of(framework).map_or(&[][..], |table| &table.calls);
            for bound in bounds {
                let only = bound.only_with.as_ref().map(|(key, _)| key);
                let keys = [
                    Some(&bound.key),
                    bound.instead.as_ref(),
                    bound.trains.as_ref(),
                    only,
                ];
                let several = bound.and.iter().chain(&bound.instead_if);
                for key in keys.into_iter().flatten().chain(several) {
                    assert!(is_known(key), "{key}");
                }
            }
        }
    }
}
