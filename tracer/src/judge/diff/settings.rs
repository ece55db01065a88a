//! Settings in both recordings: those that the report names, the driver's other arguments, and the version of Ray.

use std::collections::BTreeMap;

use super::{SettingChange, Value};
use crate::{judge::report::Report, ray::framework};

/// What differs, by key, and how many are the same.
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
            same += 1;
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
    for cluster in &report.clusters {
        if let Some(version) = &cluster.ray_version {
            let value = in_force(version.clone(), "the installed package".to_owned());
            keep(&mut found, "Ray version".to_owned(), value);
        }
    }
    found
}

fn in_force(value: String, source: String) -> Value {
    Value {
        value,
        source,
        effective: true,
    }
}

/// The one that is in force counts, else the first.
fn keep(found: &mut BTreeMap<String, Value>, key: String, value: Value) {
    match found.get(&key) {
        Some(known) if known.effective || !value.effective => {}
        _ => {
            found.insert(key, value);
        }
    }
}

/// `--object_store_memory` and `object-store-memory` are one key.
fn plain(key: &str) -> String {
    let bare = key.trim_start_matches(['-', '+']);
    if bare.len() == key.len() {
        key.to_owned()
    } else {
        bare.replace('-', "_")
    }
}

fn arguments(entrypoint: &str) -> Vec<(String, String)> {
    let argv: Vec<String> = entrypoint.split_whitespace().map(str::to_owned).collect();
    framework::pairs(&argv)
}
