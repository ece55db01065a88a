//! Says what the settings of a framework do to memory, by their keys.
//!
//! The knowledge is in `tables/`, one JSON file for each framework. A setting is reported only when
//! it is on a command line or in a configuration that the framework printed. A remedy names no key
//! that is missing from these tables.

mod given;
mod remedy_settings;
mod table;
mod which;

use std::{collections::HashMap, sync::LazyLock};

use serde::Deserialize;

pub use given::{GivenTable, add, parse};
pub use remedy_settings::{Bound, RemedyGoal, RemedySetting, advice_without_key, bound, bound_by};
pub(crate) use remedy_settings::{ranks, remedy_settings};
pub use table::Each;
use table::{KnownSetting, Table};
pub use which::Framework;

/// Where a setting puts memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// More host memory, less GPU memory. This is the wrong direction against a RAM OOM.
    MovesToHost,
    /// GPU memory only: it neither helps nor harms the host.
    GpuOnly,
    /// Pinned host memory for each GPU or engine, in GiB as given.
    Pinned,
    /// A setting that remedies may change. Its value alone is no fault.
    RemedySetting,
    /// No effect.
    Nothing,
}

/// Returns words from the first lines of the configurations that frameworks print.
pub fn configuration_openings() -> impl Iterator<Item = &'static str> {
    let prints = table::all().iter().flat_map(|table| &table.prints);
    prints.map(String::as_str)
}

/// Returns words from the command lines that start frameworks.
pub fn commands() -> impl Iterator<Item = &'static str> {
    let commands = table::all().iter().flat_map(|table| &table.commands);
    commands.map(String::as_str)
}

/// Returns the package that a framework is installed as. A fork has the name of its original.
pub(crate) fn distribution(framework: Framework) -> Option<&'static str> {
    table::of(framework)?.distribution.as_deref()
}

/// Returns the packages that frameworks are installed as. Each is imported by the same name.
pub fn distributions() -> impl Iterator<Item = &'static str> {
    let all = table::all().iter();
    all.filter_map(|table| table.distribution.as_deref())
}

/// Whether a key is in one of the program's own tables.
fn is_built_in(key: &str) -> bool {
    let mut settings = table::built_in().iter().flat_map(|table| &table.settings);
    settings.any(|known| is_key(key, &known.key))
}

/// Returns the number of a setting where the configuration does not print it.
pub(crate) fn default(key: &str) -> Option<u64> {
    find(key)?.1.default
}

/// Returns a key as it is typed: with a `+` if Hydra's configuration does not have it.
pub(crate) fn typed(key: &str) -> &str {
    find(key)
        .and_then(|(_, known)| known.typed.as_deref())
        .unwrap_or(key)
}

/// Whether a key is in a table.
pub fn is_known(key: &str) -> bool {
    find(key).is_some()
}

/// A setting on a command line with its effect on memory.
#[derive(Debug, Clone)]
pub struct SettingEffect {
    /// Its key as given.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Where it puts memory.
    pub effect: Effect,
    /// The reason.
    pub why: &'static str,
    /// What to give instead.
    pub instead: Option<&'static str>,
    /// Parts of the class names that it acts on; empty where that is not known.
    pub acts_on: &'static [String],
    /// What its value counts for (each GPU or each engine), where it is a number.
    pub for_each: Option<Each>,
    known: &'static KnownSetting,
    table: &'static Table,
}

/// Which versions of a program read a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The program: the framework whose table has the setting.
    pub of: &'static str,
    /// The first version, or a date for a program without versions.
    pub since: Option<&'static str>,
    /// The last version.
    pub until: Option<&'static str>,
}

impl SettingEffect {
    /// Whether the effect holds in this framework.
    pub(crate) fn holds_in(&self, framework: Framework) -> bool {
        !self
            .known
            .not_in
            .iter()
            .any(|name| name == framework.name())
    }

    /// Returns the versions that read it, if not all do.
    pub fn versions(&self) -> Option<Versions> {
        let versions = Versions {
            of: &self.table.framework,
            since: self.known.since.as_deref(),
            until: self.known.until.as_deref(),
        };
        (versions.since.or(versions.until).is_some()).then_some(versions)
    }

    /// Returns where the setting is read, if it is not read everywhere.
    pub fn note(&self, framework: Framework) -> Option<&'static str> {
        let known = self.known;
        let named = known
            .note_not_in
            .iter()
            .any(|name| name == framework.name());
        known.note.as_deref().filter(|_| !named)
    }
}

/// A setting, and the table that contains it.
type InTable = (&'static Table, &'static KnownSetting);

/// All settings by the last word of their keys, each in the order of the tables.
static BY_LAST_WORD: LazyLock<HashMap<&'static str, Vec<InTable>>> = LazyLock::new(|| {
    let tables = table::all().iter();
    let all = tables.flat_map(|table| table.settings.iter().map(move |known| (*table, known)));
    let mut by_word: HashMap<&'static str, Vec<InTable>> = HashMap::new();
    for (table, known) in all {
        let word = last_word(&known.key);
        by_word.entry(word).or_default().push((table, known));
    }
    by_word
});

fn last_word(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Returns the table entry for a key. The first one that fits counts.
fn find(key: &str) -> Option<InTable> {
    let key = key.replace('-', "_");
    let alike = BY_LAST_WORD.get(last_word(&key))?;
    let fits = |(_, known): &&InTable| is_key(&key, &known.key);
    alike.iter().find(fits).copied()
}

/// Whether a key decides which worker Ray's memory monitor kills, or when.
pub(crate) fn decides_kills(key: &str) -> bool {
    let mut keys = table::all().iter().flat_map(|table| &table.decide_kills);
    keys.any(|known| known == key)
}

/// Returns the settings that bear on memory, with their effect.
pub fn setting_effects(pairs: &[(String, String)]) -> Vec<SettingEffect> {
    let known = pairs.iter().filter_map(|(key, value)| {
        let (table, known) = find(key)?;
        takes(known, value).then(|| SettingEffect {
            key: key.clone(),
            value: value.clone(),
            effect: known.effect,
            why: &known.why,
            instead: known.instead.as_deref(),
            acts_on: &known.acts_on,
            for_each: known.for_each,
            known,
            table,
        })
    });
    known.collect()
}

/// Returns all settings on a command line: `key=value`, `+key=value`, `--key value`, `--key=value`,
/// `--key`. The value is empty where none follows.
pub fn pairs(argv: &[String]) -> Vec<(String, String)> {
    let numbered = argv.iter().enumerate();
    numbered
        .filter_map(|(at, argument)| pair(argument, argv.get(at + 1)))
        .collect()
}

fn pair(argument: &str, next: Option<&String>) -> Option<(String, String)> {
    let plain = argument.trim_start_matches('+');
    if let Some((key, value)) = plain.trim_start_matches('-').split_once('=') {
        return Some((key.to_owned(), value.trim_matches(['"', '\'']).to_owned()));
    }
    let key = plain.strip_prefix("--")?;
    let value = next.filter(|next| !next.starts_with('-') && !next.contains('='));
    Some((key.to_owned(), value.cloned().unwrap_or_default()))
}

/// Whether a key, with `_` for each `-`, equals a known key or ends with it.
fn is_key(key: &str, known: &str) -> bool {
    key.strip_suffix(known)
        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

fn takes(known: &KnownSetting, value: &str) -> bool {
    let nothing = known.effect == Effect::Pinned
        && matches!(value, "0" | "0.0" | "" | "None" | "null" | "none");
    !nothing && known.values.take(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(line: &str) -> Vec<(String, Effect)> {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = setting_effects(&pairs(&argv)).into_iter();
        let found = found.filter(|found| found.effect != Effect::RemedySetting);
        found.map(|found| (found.key, found.effect)).collect()
    }

    fn effect(line: &str) -> Option<Effect> {
        effects(line).first().map(|(_, effect)| *effect)
    }

    #[test]
    fn each_wrong_advice_against_a_ram_oom_is_known() {
        let actor = "actor_rollout_ref.actor.fsdp_config";
        for (line, wanted) in [
            (format!("{actor}.param_offload=True"), Effect::MovesToHost),
            (
                format!("+{actor}.optimizer_offload=true"),
                Effect::MovesToHost,
            ),
            (
                "actor_rollout_ref.ref.fsdp_config.param_offload=True".into(),
                Effect::Nothing,
            ),
            (
                "actor_rollout_ref.ref.fsdp_config.optimizer_offload=True".into(),
                Effect::Nothing,
            ),
            (
                "actor_rollout_ref.rollout.gpu_memory_utilization=0.3".into(),
                Effect::GpuOnly,
            ),
            (
                "actor_rollout_ref.rollout.enforce_eager=True".into(),
                Effect::GpuOnly,
            ),
            (
                "actor_rollout_ref.rollout.enable_chunked_prefill=True".into(),
                Effect::GpuOnly,
            ),
            (
                "actor_rollout_ref.rollout.free_cache_engine=False".into(),
                Effect::GpuOnly,
            ),
            (
                "actor_rollout_ref.rollout.swap_space=40".into(),
                Effect::Pinned,
            ),
            ("--swap-space 4".into(), Effect::Pinned),
            ("--kv-offloading-size 80".into(), Effect::Pinned),
            ("--vllm_enable_sleep --colocate".into(), Effect::MovesToHost),
            ("--vllm.enable_sleep".into(), Effect::MovesToHost),
            ("--adam_offload".into(), Effect::MovesToHost),
            (
                "worker.ref.fsdp.enable_cpu_offload=true".into(),
                Effect::MovesToHost,
            ),
            (
                "worker.actor.offload.offload_params=true".into(),
                Effect::MovesToHost,
            ),
        ] {
            assert_eq!(effect(&line), Some(wanted), "{line}");
        }
    }

    #[test]
    fn off_or_similar_settings_are_not_reported() {
        for line in [
            "actor_rollout_ref.actor.fsdp_config.param_offload=False",
            "actor_rollout_ref.rollout.free_cache_engine=True",
            "--swap-space 0",
            "my_param_offload=True",
            "data.train_batch_size=1024",
            "python train.py",
        ] {
            assert_eq!(effects(line), [], "{line}");
        }
    }
}
