//! Settings that bear on memory, with where each was found; and those that are without effect.

use super::Run;
use crate::{
    event::Cluster,
    ids::ProcessKey,
    judge::{
        report::{Certainty, Finding, Setting},
        world::World,
    },
    ray::{
        knobs::{self, Ignored, Reader},
        version::Version,
    },
};

/// A setting with what is wrong about it.
struct Row {
    setting: Setting,
    why: Option<Ignored>,
}

/// All settings, by source.
pub(in crate::judge) fn all(world: &World) -> Vec<Setting> {
    rows(world).into_iter().map(|row| row.setting).collect()
}

/// One finding for each that does nothing.
pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let mut found: Vec<(String, Finding)> = rows(run.world)
        .into_iter()
        .filter_map(|row| {
            let Ignored { why, instead } = row.why?;
            let Setting {
                key, value, source, ..
            } = row.setting;
            let finding = Finding {
                rule: "setting-without-effect".into(),
                certainty: Certainty::Proven,
                summary: format!("{key}={value} has no effect: {why}"),
                evidence: vec![source],
                remedy: vec![instead],
                cost: None,
                deaths: Vec::new(),
            };
            Some((finding.summary.clone(), finding))
        })
        .collect();
    found.extend(redis(run.world).map(|finding| ("--redis-max-memory".to_owned(), finding)));
    super::merged(found)
}

fn rows(world: &World) -> Vec<Row> {
    let mut rows = Vec::new();
    for cluster in &world.clusters {
        rows.extend(of_raylet(cluster));
        for (driver, settings) in &world.driver_settings {
            let here = world
                .processes
                .get(*driver)
                .is_some_and(|state| state.belongs_to(cluster.raylet));
            if here {
                rows.extend(of_driver(cluster, *driver, settings));
            }
        }
    }
    rows
}

fn of_raylet(cluster: &Cluster) -> Vec<Row> {
    let version = cluster.ray_version.as_deref().and_then(Version::parse);
    let source = format!("environment of raylet {}", cluster.raylet.pid);
    let of_environment = cluster.settings.iter().filter_map(|(key, value)| {
        let why = knobs::ignored(key, value, version);
        (why.is_some() || knobs::find(key).is_some()).then(|| row(key, value, &source, why))
    });
    let mut rows: Vec<Row> = of_environment.collect();
    rows.extend(cluster.object_store_bytes.map(|bytes| {
        let source = format!("command line of raylet {}", cluster.raylet.pid);
        row("--object_store_memory", &bytes.0.to_string(), &source, None)
    }));
    rows
}

/// What a driver has otherwise than its raylet, where the raylet's counts.
fn of_driver(cluster: &Cluster, driver: ProcessKey, settings: &[(String, String)]) -> Vec<Row> {
    let source = format!("environment of driver {}", driver.pid);
    let only_raylets = settings.iter().filter_map(|(key, value)| {
        let knob = knobs::find(key).filter(|knob| knob.reader != Reader::Owner)?;
        let set = cluster.settings.iter().find(|(known, _)| known == key);
        let effective = set.map_or(knob.default, |(_, value)| value);
        (effective != value).then(|| {
            let why = Ignored {
                why: format!(
                    "it is set in driver {}, and only the raylet's counts; in force: {effective}",
                    driver.pid
                ),
                instead: format!("{key}={value} in the environment of ray start"),
            };
            row(key, value, &source, Some(why))
        })
    });
    only_raylets.collect()
}

fn row(key: &str, value: &str, source: &str, why: Option<Ignored>) -> Row {
    Row {
        setting: Setting {
            key: key.to_owned(),
            value: value.to_owned(),
            source: source.to_owned(),
            effective: why.is_none(),
        },
        why,
    }
}

/// `ray start --redis-max-memory` ends with "No such option".
fn redis(world: &World) -> Option<Finding> {
    let given = world.processes.iter().find(|state| {
        let mut argv = state.argv.iter();
        argv.any(|argument| argument.starts_with("--redis-max-memory"))
    })?;
    Some(Finding {
        rule: "setting-without-effect".into(),
        certainty: Certainty::Proven,
        summary: "--redis-max-memory is no option of Ray's any more: ray start ends with \"No such option\"".into(),
        evidence: vec![format!("command line of pid {}", given.key.pid)],
        remedy: vec!["leave it out; the object store has --object-store-memory".into()],
        cost: None,
        deaths: Vec::new(),
    })
}
