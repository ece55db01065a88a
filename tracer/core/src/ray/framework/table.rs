//! Reads the tables in `tables/`, one JSON file for each framework.
//!
//! A user of that framework can read and correct its table, and give one for a framework of their
//! own (`docs/reference/frameworks.md`). The keys of a table are:
//!
//! - `distribution`: the name of the package that it is installed as, which is also the name of its
//!   import
//! - `starts_workers`: whether it starts Ray's workers itself. If so, its own keys say how many
//!   there are
//! - `generates_with_vllm`: whether its rollouts run vLLM unless a setting says otherwise
//! - `prints`: words of the first line of the configuration that it prints
//! - `commands`: words of a command line that starts it
//! - `classes`: parts of the names of its actor classes and processes, by which it is recognized.
//!   `since` and `until` are as in `settings`
//! - `needs_gpus`: whether it runs on GPUs only
//! - `decide_kills`: keys that decide which worker Ray's memory monitor kills, and when
//! - `settings`: keys (their ends) that bear on memory. Each has the `values` that do (`any`, `on`,
//!   `off`), their `effect`, `why`, and what to set `instead`. `acts_on` has parts of the class
//!   names that it acts on, and `for_each` says what a number counts for. `since` and `until` are
//!   the first and the last version that read it (a date for a program without versions). `not_in`
//!   lists frameworks in which the effect does not hold. A `note` has its own `note_not_in`.
//!   `default` is the number where the configuration does not print the setting, and `typed` how it
//!   is typed then
//! - `remedies`: what to set for a goal. `value` may be a word in capitals for a value to choose,
//!   or empty for leaving the setting out; `HALF` is half of the present value. `default` says that
//!   the framework has this value already. `only_if_typed` is a setting that must have been typed.
//!   `old_key` is the key before a renaming. `acts_on` is as in `settings`. `acts_in` has parts of
//!   the names of the methods that it makes grow
//! - `calls`: for a part of a method's name, the setting that bounds what a call takes.
//!   `instead_if` names a switch, and `instead` the setting that counts while the switch is on.
//!   `only_with` is a setting without which it has no effect. `and` names the settings of other
//!   calls that pass the same batch and take as much, and `trains` that of the call that trains on
//!   it. `tokens` says that `key` counts tokens,
//!   `from_source` that nobody has run it with a lower value, which the report says
//! - `ranks`: the setting for the number of ranks on a node
//! - `words`: advice that has no key

use std::{
    collections::BTreeMap,
    sync::{LazyLock, OnceLock},
};

use serde::Deserialize;

use super::{Effect, Framework, RemedyGoal};

/// What is known about a framework.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) framework: String,
    /// The versions whose sources the table was made from. For its readers only.
    #[serde(default)]
    #[expect(dead_code, reason = "it is read by people")]
    checked_with: Option<String>,
    pub(super) distribution: Option<String>,
    #[serde(default)]
    pub(super) starts_workers: bool,
    #[serde(default)]
    pub(super) generates_with_vllm: bool,
    #[serde(default)]
    pub(super) prints: Vec<String>,
    #[serde(default)]
    pub(super) commands: Vec<String>,
    #[serde(default)]
    pub(super) classes: Vec<KnownClass>,
    #[serde(default)]
    pub(super) needs_gpus: bool,
    #[serde(default)]
    pub(super) decide_kills: Vec<String>,
    #[serde(default)]
    pub(super) settings: Vec<KnownSetting>,
    #[serde(default)]
    pub(super) remedies: BTreeMap<RemedyGoal, Vec<RemedyEntry>>,
    #[serde(default)]
    pub(super) calls: Vec<Bound>,
    pub(super) ranks: Option<String>,
    #[serde(default)]
    pub(super) words: BTreeMap<RemedyGoal, String>,
}

/// A part of the name of an actor class or a process.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownClass {
    pub(super) name: String,
    /// The first and the last version that have it. For its readers, and for the check against the
    /// source.
    #[serde(default)]
    #[expect(dead_code, reason = "it is read by people and by `cargo xtask canary`")]
    since: Option<String>,
    #[serde(default)]
    #[expect(dead_code, reason = "it is read by people and by `cargo xtask canary`")]
    until: Option<String>,
}

/// What is known about a setting.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownSetting {
    /// The end of its key.
    pub(super) key: String,
    pub(super) values: Values,
    pub(super) effect: Effect,
    #[serde(default)]
    pub(super) why: String,
    pub(super) instead: Option<String>,
    #[serde(default)]
    pub(super) acts_on: Vec<String>,
    pub(super) for_each: Option<Each>,
    pub(super) since: Option<String>,
    pub(super) until: Option<String>,
    #[serde(default)]
    pub(super) not_in: Vec<String>,
    pub(super) note: Option<String>,
    #[serde(default)]
    pub(super) note_not_in: Vec<String>,
    /// The value where the configuration does not print the setting.
    pub(super) default: Option<u64>,
    /// How it is typed if the configuration does not print it: Hydra wants a `+`.
    pub(super) typed: Option<String>,
}

/// The values that have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Values {
    Any,
    On,
    Off,
}

/// What a number counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Each {
    /// Each GPU.
    Gpu,
    /// Each engine, with all its ranks.
    Engine,
}

/// What bounds the memory of a method's calls.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// A part of the method's name.
    pub call: String,
    /// The setting. What a call takes is proportional to its value.
    pub key: String,
    /// Switches, of which the first that is set decides. While it is on, `instead` counts in place
    /// of `key`.
    #[serde(default)]
    pub instead_if: Vec<String>,
    /// The setting that counts while the switch in `instead_if` is on.
    pub instead: Option<String>,
    /// A setting and a part of its value. Without them, `key` has no effect.
    pub only_with: Option<(String, String)>,
    /// Settings of other calls that pass the same batch. They bound those calls as `key` bounds
    /// this one.
    #[serde(default)]
    pub and: Vec<String>,
    /// The setting of the call that trains on the same batch.
    pub trains: Option<String>,
    /// Whether `key` counts tokens, not sequences.
    #[serde(default)]
    pub tokens: bool,
    /// Whether this is known from the framework's source alone, and nobody has run it.
    #[serde(default)]
    pub from_source: bool,
    /// The first and the last version that have the call. For its readers, and for the check
    /// against the source.
    pub since: Option<String>,
    /// As `since`.
    pub until: Option<String>,
}

/// A setting in the table that a remedy changes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemedyEntry {
    pub(super) key: String,
    pub(super) value: String,
    #[serde(default)]
    pub(super) default: bool,
    /// A setting that must have been typed, or this one has no effect.
    pub(super) only_if_typed: Option<String>,
    pub(super) old_key: Option<String>,
    /// Parts of the names of the classes that it acts on; if empty, it acts on all.
    #[serde(default)]
    pub(super) acts_on: Vec<String>,
    /// Parts of the names of the methods that it makes grow; if empty, it affects all.
    #[serde(default)]
    pub(super) acts_in: Vec<String>,
}

impl Values {
    pub(super) fn take(self, value: &str) -> bool {
        match self {
            Self::Any => true,
            Self::On => matches!(value, "True" | "true" | "1" | ""),
            Self::Off => matches!(value, "False" | "false" | "0"),
        }
    }
}

/// Tables that the user gave.
static GIVEN: OnceLock<Vec<Table>> = OnceLock::new();

/// All tables: those that the user gave come first, and replace one of the same name.
static TABLES: LazyLock<Vec<&'static Table>> = LazyLock::new(|| {
    let given = given();
    let built_in = BUILT_IN.iter().filter(|table| {
        let replaced = |own: &Table| own.framework == table.framework;
        !given.iter().any(replaced)
    });
    given.iter().chain(built_in).collect()
});

static BUILT_IN: LazyLock<Vec<Table>> = LazyLock::new(|| {
    let parsed = Framework::ALL.iter().map(|one| parse(one.file()));
    parsed.collect()
});

/// Returns the program's own tables.
pub(super) fn built_in() -> &'static [Table] {
    &BUILT_IN
}

/// Returns the tables that the user gave.
pub(super) fn given() -> &'static [Table] {
    GIVEN.get().map_or(&[], Vec::as_slice)
}

/// Adds tables that the user gave. It must be called before any table is used, and once.
pub(super) fn give(tables: Vec<Table>) {
    // Later calls change nothing: findings of one process rest on the same tables.
    let _ = GIVEN.set(tables);
}

#[expect(
    clippy::expect_used,
    reason = "the files are compiled in and are parsed in tests"
)]
fn parse(file: &str) -> Table {
    serde_json::from_str(file).expect("a table of tracer/core/src/ray/framework/tables")
}

/// Returns all tables, in the order in which a key is searched.
pub(super) fn all() -> &'static [&'static Table] {
    &TABLES
}

/// Returns the table of a framework.
pub(super) fn of(framework: Framework) -> Option<&'static Table> {
    let name = framework.name();
    TABLES.iter().copied().find(|table| table.framework == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each framework has a table, and no key is in two tables.
    #[test]
    fn tables_share_no_key() {
        let frameworks = Framework::ALL;
        for framework in frameworks {
            assert!(of(framework).is_some(), "{}", framework.name());
        }
        assert_eq!(all().len(), frameworks.len());
        let mut keys: Vec<&str> = all()
            .iter()
            .flat_map(|table| &table.settings)
            .map(|known| known.key.as_str())
            .collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
        let named = |name: &String| frameworks.iter().any(|one| one.name() == name);
        for known in all().iter().flat_map(|table| &table.settings) {
            let exceptions = known.not_in.iter().chain(&known.note_not_in);
            assert!(exceptions.into_iter().all(named), "{}", known.key);
            let is_explained = known.effect == Effect::RemedySetting || !known.why.is_empty();
            assert!(is_explained, "{} says no why", known.key);
        }
    }
}
