//! What to turn, in the keys of each framework. Every key of a lever is one that [`super::is_known`] knows.

use serde::Deserialize;

use super::{Framework, table};
pub use table::Bound;

/// What a remedy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// Less host memory in each rank: no copies of what lies on the GPU.
    LessOnHost,
    /// Less host memory in the process that holds the data: verl's `TaskRunner`.
    LessInController,
    /// Fewer subprocesses that load data: each holds what the data set keeps.
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

/// A setting to turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lever {
    /// Its key as typed.
    pub key: &'static str,
    /// Its key before the framework renamed it.
    pub old: Option<&'static str>,
    /// The value to give. A word in capitals stands for one to choose, nothing for leaving it out.
    pub value: &'static str,
    /// Whether the framework has this value where nobody gives another.
    pub default: bool,
    /// A setting that must have been typed for it to bear on anything.
    pub only_if_typed: Option<&'static str>,
    /// Parts of the names of the classes that it acts on; of all where there is none.
    acts_on: &'static [String],
}

impl Lever {
    /// Whether it changes anything for processes of this class.
    #[must_use]
    pub(crate) fn acts_on(&self, class: &str) -> bool {
        self.acts_on.is_empty()
            || self
                .acts_on
                .iter()
                .any(|part| class.contains(part.as_str()))
    }

    /// Whether each framework whose actors have the same classes has it under the same key: where the class is all that is known,
    /// nothing else may be advised.
    #[must_use]
    pub(crate) fn is_of_all_forks(&self, framework: Framework, aim: Aim) -> bool {
        let has = |fork: &Framework| levers(*fork, aim).iter().any(|lever| lever.key == self.key);
        framework.forks().iter().all(has)
    }
}

/// The levers of a framework for an aim; none where no key is known.
#[must_use]
pub(crate) fn levers(framework: Framework, aim: Aim) -> Vec<Lever> {
    let table = table::of(framework);
    let turns = table.and_then(|table| table.levers.get(&aim));
    turns
        .into_iter()
        .flatten()
        .map(|turn| Lever {
            key: &turn.key,
            old: turn.old_key.as_deref(),
            value: &turn.value,
            default: turn.default,
            only_if_typed: turn.only_if_typed.as_deref(),
            acts_on: &turn.acts_on,
        })
        .collect()
}

/// The setting that says how many ranks a node has.
#[must_use]
pub(crate) fn ranks(framework: Framework) -> Option<&'static str> {
    table::of(framework)?.ranks.as_deref()
}

/// What bounds the memory of a method's calls: the longest part of its name counts.
#[must_use]
pub fn bound(framework: Framework, method: &str) -> Option<&'static Bound> {
    let bounds = table::of(framework)?.calls.iter();
    let named = bounds.filter(|bound| method.contains(&bound.call));
    named.max_by_key(|bound| bound.call.len())
}

/// What helps and has no key.
#[must_use]
pub fn words(framework: Framework, aim: Aim) -> Option<&'static str> {
    let words = &table::of(framework)?.words;
    words.get(&aim).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::{super::is_known, *};

    #[test]
    fn no_remedy_names_a_key_that_the_table_does_not_know() {
        let aims = [
            Aim::LessOnHost,
            Aim::LessInController,
            Aim::FewerLoaders,
            Aim::Precision,
            Aim::Fewer,
            Aim::Load,
            Aim::Save,
            Aim::Restart,
            Aim::Gpu,
            Aim::Sleep,
        ];
        let mut seen = 0;
        for framework in Framework::ALL {
            for lever in aims.into_iter().flat_map(|aim| levers(framework, aim)) {
                for key in [Some(lever.key), lever.old].into_iter().flatten() {
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
                    bound.instead_if.as_ref(),
                    bound.instead.as_ref(),
                    only,
                ];
                for key in keys.into_iter().flatten().chain(&bound.and) {
                    assert!(is_known(key), "{key}");
                }
            }
        }
    }
}
