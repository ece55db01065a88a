//! Collects the settings that affect memory, and finds those without effect.
//!
//! Their order is by source: configurations that a framework printed, resolved; command lines; the
//! raylet's environment and what it logged about its monitor; what only a driver has set.

use std::str::FromStr;

use super::{
    Run,
    facts::{Driver, Facts, Node},
};
use crate::{
    ids::{HexId, size},
    judge::report::{Certainty, ClusterReport, Finding, Report, Setting},
    ray::{
        framework::{self, Effect, SettingEffect},
        knobs::{self, Reader},
        memory_monitor::THRESHOLD,
        start::Change,
    },
};

/// A setting. If it has no effect, also the reason and what to type instead.
pub(super) struct Row {
    pub(super) setting: Setting,
    why: Option<(String, String)>,
}

/// A setting of a framework, with its source.
#[derive(Debug, Clone)]
pub(super) struct FrameworkSetting {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) source: String,
    /// What it does with this value; `None` if that is not worth mentioning.
    pub(super) effect: Option<SettingEffect>,
    /// Whether a printed configuration has another value.
    pub(super) overruled: bool,
    /// Whether it was typed for this run. A value that was only printed may be the framework's
    /// default.
    pub(super) typed: bool,
    /// The number of its cluster, and its job.
    whose: Whose,
}

/// The number of a cluster, and a job in it, as far as they are known.
type Whose = (Option<u32>, Option<HexId>);

impl FrameworkSetting {
    /// Returns whether it is in force, and `other` has another value for it in the same cluster.
    fn is_beside(&self, other: &Self) -> bool {
        self.key == other.key && self.whose.0 == other.whose.0 && !self.overruled
    }
}

impl Row {
    fn of(mut self, cluster: u32, job: Option<&HexId>) -> Self {
        self.setting.cluster = Some(cluster);
        self.setting.job_id = job.cloned();
        self
    }
}

/// Returns the number that is in force for the setting whose key ends with `end`.
pub(super) fn number<T: FromStr>(given: &[FrameworkSetting], end: &str) -> Option<T> {
    let found = given
        .iter()
        .find(|one| one.key.ends_with(end) && !one.overruled);
    found?.value.parse().ok()
}

/// Returns all settings, by source.
pub(crate) fn all(facts: &Facts, report: &Report) -> Vec<Setting> {
    let rows = rows(facts, report);
    rows.into_iter().map(|row| row.setting).collect()
}

/// Returns a finding for each setting without effect.
pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let found = rows(run.facts, run.report).into_iter().filter_map(|row| {
        let (why, instead) = row.why?;
        let Setting {
            key, value, source, ..
        } = row.setting;
        let summary = format!("{key}={value} has no effect: {why}");
        let finding = Finding {
            evidence: vec![source],
            remedy: vec![instead],
            ..Finding::new("setting-without-effect", Certainty::Proven, &summary)
        };
        Some((summary, finding))
    });
    super::merged(found)
}

pub(super) fn rows(facts: &Facts, report: &Report) -> Vec<Row> {
    let given = of_framework(facts).into_iter().map(|given| Row {
        setting: Setting {
            effective: !given.overruled
                && given
                    .effect
                    .as_ref()
                    .is_none_or(|one| one.effect != Effect::Nothing),
            key: given.key,
            value: given.value,
            source: given.source,
            cluster: given.whose.0,
            job_id: given.whose.1,
        },
        why: None,
    });
    let mut rows: Vec<Row> = given.collect();
    for (number, node) in (0u32..).zip(&facts.nodes) {
        let cluster = report.clusters.iter().find(|cluster| cluster.id == number);
        let of_cluster = of_raylet(node).into_iter();
        let of_cluster = of_cluster.chain(cluster.and_then(of_monitor));
        rows.extend(of_cluster.map(|row| row.of(number, None)));
        let drivers = facts.drivers.iter();
        for driver in drivers.filter(|driver| driver.cluster == Some(number)) {
            let rows_of_driver = of_driver(node, driver).into_iter();
            rows.extend(rows_of_driver.map(|row| row.of(number, driver.job.as_ref())));
        }
    }
    rows
}

/// Returns the settings of frameworks: first those that were printed, of which the last counts,
/// then those of command lines that no printed one repeats, of which the last counts too.
pub(super) fn of_framework(facts: &Facts) -> Vec<FrameworkSetting> {
    let mut given: Vec<FrameworkSetting> = Vec::new();
    for printed in &facts.printed {
        let whose = (printed.cluster, printed.job.clone());
        for one in known(&printed.settings, &printed.source, &whose) {
            let in_force = |known: &&mut FrameworkSetting| known.is_beside(&one);
            match given.iter_mut().find(in_force) {
                Some(earlier) if earlier.value == one.value => {}
                // The job was started again with another value.
                Some(earlier) => {
                    earlier.overruled = true;
                    given.push(one);
                }
                None => given.push(one),
            }
        }
    }
    let printed = given.len();
    for driver in &facts.drivers {
        let whose = (driver.cluster, driver.job.clone());
        for one in known(&framework::pairs(&driver.argv), &driver.source, &whose) {
            let one = FrameworkSetting { typed: true, ..one };
            let same = |known: &&mut FrameworkSetting| known.is_beside(&one);
            match given[..printed].iter_mut().find(same) {
                None => {
                    let before = given[printed..].iter_mut().find(same);
                    if let Some(earlier) = before.filter(|earlier| earlier.source == one.source) {
                        earlier.overruled = true;
                    }
                    given.push(one);
                }
                Some(printed) if printed.value == one.value => printed.typed = true,
                Some(_) => given.push(FrameworkSetting {
                    overruled: true,
                    ..one
                }),
            }
        }
    }
    given
}

/// Returns those of `pairs` that affect memory.
fn known(pairs: &[(String, String)], source: &str, whose: &Whose) -> Vec<FrameworkSetting> {
    let known = pairs.iter().filter(|(key, _)| framework::is_known(key));
    known
        .map(|pair| FrameworkSetting {
            key: pair.0.clone(),
            value: pair.1.clone(),
            source: source.to_owned(),
            effect: framework::setting_effects(std::slice::from_ref(pair)).pop(),
            overruled: false,
            typed: false,
            whose: whose.clone(),
        })
        .collect()
}

fn of_raylet(node: &Node) -> Vec<Row> {
    let Some(raylet) = node.raylet.map(|raylet| raylet.pid) else {
        return Vec::new();
    };
    let source = format!("environment of raylet {raylet}");
    let of_environment = node.settings.iter().filter_map(|(key, value)| {
        let why = ignored(node, key, value);
        (why.is_some() || knobs::find(key).is_some()).then(|| row(key, value, &source, why))
    });
    let mut rows: Vec<Row> = of_environment.collect();
    rows.extend(node.object_store.map(|bytes| {
        let source = format!("command line of raylet {raylet}");
        row("--object_store_memory", &bytes.0.to_string(), &source, None)
    }));
    rows
}

/// Returns why a variable of the raylet's has no effect, and what to type instead.
fn ignored(node: &Node, key: &str, value: &str) -> Option<(String, String)> {
    if let Some(ignored) = knobs::ignored(key, value, node.version) {
        return Some((ignored.why, ignored.instead.at(node.started)));
    }
    let isolated = node.isolated && key == THRESHOLD;
    isolated.then(|| {
        let why = "with resource isolation the user cgroup's memory.high is the threshold";
        let instead = Change::flag("system-reserved-memory", "BYTES");
        (why.to_owned(), instead.at(node.started))
    })
}

/// Returns the threshold that the raylet logged for its monitor, which is the most reliable source.
fn of_monitor(cluster: &ClusterReport) -> Option<Row> {
    let monitor = cluster.monitor.as_ref()?;
    let source = format!("raylet.out of raylet {}", cluster.raylet_pid);
    let value = if monitor.enabled {
        size(monitor.threshold_bytes?)
    } else {
        "none: the monitor is off".to_owned()
    };
    Some(row("Ray's threshold", &value, &source, None))
}

/// Returns the driver's variables without effect: those that Ray ignores, and those that only the
/// raylet reads and has with another value.
fn of_driver(node: &Node, driver: &Driver) -> Vec<Row> {
    let Some(pid) = driver.pid else {
        return Vec::new();
    };
    let source = format!("environment of driver {pid}");
    let nobodys = driver.settings.iter().filter_map(|(key, value)| {
        let ignored = knobs::ignored(key, value, node.version)?;
        let instead = ignored.instead.at(node.started);
        Some(row(key, value, &source, Some((ignored.why, instead))))
    });
    let only_raylets = driver.settings.iter().filter_map(|(key, value)| {
        let knob = knobs::find(key).filter(|knob| knob.reader != Reader::Owner)?;
        if knobs::ignored(key, value, node.version).is_some() {
            return None;
        }
        let set = node.settings.iter().find(|(known, _)| known == key);
        let effective = set.map_or(knob.default, |(_, value)| value);
        (effective != value).then(|| {
            let why = format!(
                "it is set in driver {pid}, but only the raylet reads it; in force: {effective}"
            );
            let instead = knobs::set_for_raylet(key, value, effective);
            row(key, value, &source, Some((why, instead.at(node.started))))
        })
    });
    nobodys.chain(only_raylets).collect()
}

fn row(key: &str, value: &str, source: &str, why: Option<(String, String)>) -> Row {
    Row {
        setting: Setting {
            key: key.to_owned(),
            value: value.to_owned(),
            source: source.to_owned(),
            effective: why.is_none(),
            cluster: None,
            job_id: None,
        },
        why,
    }
}
