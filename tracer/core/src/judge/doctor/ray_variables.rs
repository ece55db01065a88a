//! Checks each `RAY_*` variable of a raylet, and those that only a driver has.
//!
//! A variable is in force or has no effect.

use super::{
    Check, State,
    facts::{Driver, Node},
};
use crate::ray::{
    knobs::{self, IgnoredVariable, KNOBS, Reader},
    memory_monitor::{Config, THRESHOLD},
    start::Change,
    version::Version,
};

pub(super) fn checks(node: &Node) -> Vec<Check> {
    if node.hidden {
        let text =
            "unknown: the raylet belongs to another user, and only that user may read its settings";
        let check = Check::new("settings.hidden", State::Missing, text);
        return vec![check.command("sudo raytrace doctor").of(node.pid())];
    }
    let version = node
        .cluster
        .as_ref()
        .and_then(|cluster| cluster.ray_version.as_deref())
        .and_then(Version::parse);
    let mut checks: Vec<Check> = node
        .drivers
        .iter()
        .flat_map(|driver| {
            misplaced(node, driver)
                .into_iter()
                .chain(ignored(node, driver, version))
        })
        .collect();
    checks.extend(
        node.settings
            .iter()
            .filter_map(|(key, value)| own(node, key, value, version)),
    );
    checks.extend(defaults(node));
    checks
        .into_iter()
        .map(|check| check.of(node.pid()))
        .collect()
}

fn no_effect(key: &str, text: String) -> Check {
    Check::new(format!("setting.{key}"), State::Problem, text).word("IGNORED")
}

fn ok(key: &str, text: String) -> Check {
    Check::new(format!("setting.{key}"), State::Ok, text)
}

/// Checks a variable of the raylet's environment.
fn own(node: &Node, key: &str, value: &str, version: Option<Version>) -> Option<Check> {
    let pair = format!("{key}={value}");
    if let Some(IgnoredVariable { why, instead }) = knobs::ignored(key, value, version) {
        let text = format!("{pair}: {why}");
        return Some(
            no_effect(key, text)
                .value(&value)
                .command(instead.at(node.started())),
        );
    }
    let unread = node.unread.iter().flatten().any(|unread| unread == key);
    if unread && like_a_knob(key) {
        let name = node
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.ray_version.clone());
        let text = format!("{pair}: Ray {} does not read it", name.unwrap_or_default());
        return Some(
            no_effect(key, text)
                .value(&value)
                .command(format!("unset {key}")),
        );
    }
    knobs::find(key)?;
    if node.isolated && key == THRESHOLD {
        let text = format!(
            "{pair}: with resource isolation the user cgroup's memory.high is the threshold"
        );
        let instead = Change::flag("system-reserved-memory", "BYTES").at(node.started());
        return Some(no_effect(key, text).value(&value).command(instead));
    }
    let monitor_is_off = Config::of(&node.settings).refresh_ms == 0;
    if monitor_is_off && key == THRESHOLD {
        let text = format!(
            "{pair}: no effect while Ray's monitor is off; once it is on, this is its threshold"
        );
        let note = Check::new(format!("setting.{key}"), State::Note, text);
        return Some(note.value(&value));
    }
    Some(ok(key, pair).value(&value))
}

/// Whether a variable looks like a setting of Ray, which is in lower case after `RAY_`. Kubernetes
/// and others set `RAY_HEAD_SERVICE_HOST` and the like.
fn like_a_knob(key: &str) -> bool {
    let rest = key.strip_prefix("RAY_").unwrap_or(key);
    rest.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Reports what a driver sets differently from its raylet, if only the raylet's value counts.
fn misplaced(node: &Node, driver: &Driver) -> Vec<Check> {
    let in_force = |key: &str| {
        let set = node.settings.iter().find(|(known, _)| known == key);
        set.map(|(_, value)| value.clone())
    };
    let only_raylet = driver.settings.iter().filter_map(|(key, value)| {
        let knob = knobs::find(key).filter(|knob| knob.reader != Reader::Owner)?;
        let effective = in_force(key);
        (effective.as_deref() != Some(value)).then_some((knob, key, value, effective))
    });
    only_raylet
        .map(|(knob, key, value, effective)| {
            let (effective, origin) = match effective {
                Some(value) => (value, ""),
                None => (knob.default.to_owned(), " (default)"),
            };
            let text = format!(
                "{key}={value}: set in driver {}, but only the raylet reads it. In force: {effective}{origin}",
                driver.pid
            );
            no_effect(key, text)
                .value(&value)
                .expected(&effective)
                .command(match knobs::set_for_raylet(key, value, &effective) {
                    Change::Unset(key) => {
                        format!("unset {key}: at {value} the kernel would kill first")
                    }
                    change => change.at(node.started()),
                })
        })
        .collect()
}

/// Reports what a driver sets that no Ray of this version reads, and that its raylet does not set.
fn ignored(node: &Node, driver: &Driver, version: Option<Version>) -> Vec<Check> {
    let only_here = driver.settings.iter().filter(|(key, _)| {
        let same = |(known, _): &(String, String)| known == key;
        knobs::find(key).is_none() && !node.settings.iter().any(same)
    });
    let found = only_here.filter_map(|(key, value)| {
        let IgnoredVariable { why, instead } = knobs::ignored(key, value, version)?;
        let text = format!("{key}={value} of driver {}: {why}", driver.pid);
        let check = no_effect(key, text).value(&value);
        Some(check.command(instead.at(node.started())))
    });
    found.collect()
}

/// Reports the two settings that decide, if nobody set them.
fn defaults(node: &Node) -> Vec<Check> {
    let unset = |key: &&str| !node.settings.iter().any(|(known, _)| known == key);
    let decisive = [THRESHOLD, "RAY_memory_monitor_refresh_ms"];
    let missing = decisive.into_iter().filter(unset);
    missing
        .filter_map(|key| KNOBS.iter().find(|knob| knob.key == key))
        .map(|knob| {
            ok(knob.key, format!("{}={} (default)", knob.key, knob.default)).value(&knob.default)
        })
        .collect()
}
