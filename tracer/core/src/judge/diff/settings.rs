//! Compares settings: those in the report, the driver's other arguments, Ray's version.

use std::collections::BTreeMap;

use super::{SettingChange, Value};
use crate::{ids::size, judge::report::Report, path, ray::framework};

/// The key of the command that ran.
pub(super) const COMMAND: &str = "command";
/// The key of what Ray's monitor takes for the machine's memory.
pub(super) const COUNTED: &str = "memory that Ray counts";
/// The key of the threshold of Ray's monitor, which follows from other settings.
pub(super) const THRESHOLD: &str = "Ray's threshold";

/// Returns what differs, by key, and how many settings are the same.
pub(super) fn changes(a: &Report, b: &Report) -> (Vec<SettingChange>, usize) {
    let (mut first, mut second) = (all(a), all(b));
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
            // These two are not settings. They are reported only if they differ.
            same += usize::from(key != COMMAND && key != COUNTED);
        } else {
            changes.push(SettingChange { key, a, b });
        }
    }
    (changes, same)
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
