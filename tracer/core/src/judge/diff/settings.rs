//! Compares settings: those in the report, the driver's other arguments, Ray's version.

use std::collections::BTreeMap;

use super::{SettingChange, Value};
use crate::{
    ids::{Bytes, size},
    judge::report::Report,
    path,
    ray::framework,
};

/// The key of the command that ran.
pub(super) const COMMAND: &str = "command";
/// The key of what Ray's monitor takes for the machine's memory.
pub(super) const COUNTED: &str = "memory that Ray counts";
/// The key of the cgroup limit at which the kernel killed in one of the runs. Ray may not see it.
pub(super) const CGROUP_LIMIT: &str = "limit of the cgroup";
/// The key of the threshold of Ray's monitor, which follows from other settings.
pub(super) const THRESHOLD: &str = "Ray's threshold";

/// Returns what differs, by key, and how many settings are the same.
pub(super) fn changes(a: &Report, b: &Report) -> (Vec<SettingChange>, usize) {
    let (mut first, mut second) = (all(a), all(b));
    let killed = [a, b].map(killed_at);
    if let Some(cgroup) = killed[0].or(killed[1]).map(|(cgroup, _)| cgroup) {
        for (found, report, own) in [(&mut first, a, killed[0]), (&mut second, b, killed[1])] {
            let limit = own
                .map(|(_, limit)| limit)
                .or_else(|| limit_of(report, cgroup));
            let value = limit.map(|limit| in_force(size(limit), format!("cgroup {cgroup}")));
            found.extend(value.map(|value| (CGROUP_LIMIT.to_owned(), value)));
        }
    }
    let mut keys: Vec<String> = first.keys().chain(second.keys()).cloned().collect();
    keys.sort();
    keys.dedup();
    let mut same = 0;
    let mut changes = Vec::new();
    for key in keys {
        let (a, b) = (first.remove(&key), second.remove(&key));
        let comparable = |value: &Option<Value>| {
            let value = value.as_ref()?;
            Some((value.value.clone(), value.effective))
        };
        if comparable(&a) == comparable(&b) {
            // These are not settings. They are reported only if they differ.
            same += usize::from(![COMMAND, COUNTED, CGROUP_LIMIT].contains(&key.as_str()));
        } else {
            changes.push(SettingChange { key, a, b });
        }
    }
    (changes, same)
}

/// Returns the cgroup whose limit was hit at the first kill by the kernel, and the limit.
fn killed_at(report: &Report) -> Option<(&str, Bytes)> {
    let mut kills = report
        .deaths
        .iter()
        .filter_map(|death| death.memory.oom.as_ref());
    kills.find_map(|oom| Some((oom.cgroup.as_deref()?, oom.limit_bytes?)))
}

/// Returns the limit of a cgroup where nothing was killed for it; of the only one that was seen, if
/// it has another name there.
fn limit_of(report: &Report, cgroup: &str) -> Option<Bytes> {
    let mut limits = report.limits.iter();
    let same = limits.find(|limit| limit.cgroup == cgroup);
    let only = match report.limits.as_slice() {
        [only] => Some(only),
        _ => None,
    };
    same.or(only).map(|limit| limit.limit_bytes)
}

fn all(report: &Report) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for setting in &report.settings {
        let value = Value {
            value: setting.value.clone(),
            source: setting.source.clone(),
            effective: setting.effective,
        };
        keep(&mut found, plain(&setting.key), value);
    }
    for job in &report.jobs {
        let arguments = job.entrypoint.as_deref().map(arguments);
        for (key, value) in arguments.into_iter().flatten() {
            let source = match job.driver_pid {
                Some(pid) => format!("command line of driver {pid}"),
                None => "command line of the driver".to_owned(),
            };
            keep(&mut found, plain(&key), in_force(value, source));
        }
    }
    if let Some(commands) = commands(report) {
        let value = in_force(commands, "entrypoints of the jobs".to_owned());
        keep(&mut found, COMMAND.to_owned(), value);
    }
    for cluster in &report.clusters {
        let monitor = cluster.monitor.as_ref();
        if let Some(total) = monitor.and_then(|monitor| monitor.total_bytes) {
            let value = in_force(size(total), "the raylet".to_owned());
            keep(&mut found, COUNTED.to_owned(), value);
        }
        if let Some(version) = &cluster.ray_version {
            let value = in_force(version.clone(), "the installed package".to_owned());
            keep(&mut found, "Ray version".to_owned(), value);
        }
    }
    found
}

/// Returns what ran, without the options, which have rows of their own: `train.py 16`,
/// `-m verl.trainer.main_ppo`.
fn commands(report: &Report) -> Option<String> {
    let entrypoints = report
        .jobs
        .iter()
        .filter_map(|job| job.entrypoint.as_deref());
    let mut commands: Vec<String> = entrypoints.map(command).collect();
    commands.retain(|command| !command.is_empty());
    commands.sort();
    commands.dedup();
    (!commands.is_empty()).then(|| commands.join("; "))
}

fn command(entrypoint: &str) -> String {
    let is_option = |word: &&str| word.starts_with("--") || word.contains('=');
    let mut words: Vec<&str> = entrypoint
        .split_whitespace()
        .take_while(|word| !is_option(word))
        .collect();
    let program = words.first().map_or("", |word| path::base(word));
    if program.starts_with("python") && words.len() > 1 {
        words.remove(0);
    }
    words.join(" ")
}

fn in_force(value: String, source: String) -> Value {
    Value {
        value,
        source,
        effective: true,
    }
}

/// Keeps the first value of a key that is in force, else the first value.
fn keep(found: &mut BTreeMap<String, Value>, key: String, value: Value) {
    match found.get(&key) {
        Some(known) if known.effective || !value.effective => {}
        _ => {
            found.insert(key, value);
        }
    }
}

/// Returns a key without its prefix: `--object-store-memory` and `--object_store_memory` are one
/// key. A key without a prefix stays as it is.
fn plain(key: &str) -> String {
    let bare = key.trim_start_matches(['-', '+']);
    if bare.len() == key.len() {
        key.to_owned()
    } else {
        bare.replace('-', "_")
    }
}

/// Returns the command line that started each job.
pub(super) fn command_lines(report: &Report) -> impl Iterator<Item = Vec<String>> {
    let jobs = report.jobs.iter();
    jobs.filter_map(|job| job.entrypoint.as_deref()).map(argv)
}

fn argv(entrypoint: &str) -> Vec<String> {
    entrypoint.split_whitespace().map(str::to_owned).collect()
}

fn arguments(entrypoint: &str) -> Vec<(String, String)> {
    framework::pairs(&argv(entrypoint))
}

/// Ends of the keys with which frameworks name the model that is trained.
const MODELS: [&str; 4] = [
    "model.path",
    "model.model_path",
    "model_name_or_path",
    "pretrain",
];

/// Returns whether a setting names the model that is trained.
pub(super) fn names_a_model(key: &str) -> bool {
    MODELS
        .iter()
        .any(|end| key.trim_start_matches('-').ends_with(end))
}

/// Returns whether the model is another one. A run that does not say which it had may have had the
/// same one.
pub(super) fn is_model(change: &SettingChange) -> bool {
    let in_force = |value: &Option<Value>| value.as_ref().is_some_and(|value| value.effective);
    names_a_model(&change.key) && in_force(&change.a) && in_force(&change.b)
}
