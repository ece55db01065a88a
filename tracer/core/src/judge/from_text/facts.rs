//! Collects the facts that rules need from texts, besides the report.

use std::collections::BTreeMap;

use super::{Made, source, text_evidence::TextEvidence};
use crate::{
    event::Role,
    ids::{EventId, ProcessKey},
    judge::{
        findings::facts::{
            Driver, Facts, LimitMembers, LogWarning, Member, Node, PrintedConfiguration,
        },
        findings::find_offloads,
        report::TopProcess,
    },
    path,
    ray::{
        identify::{self, Title},
        start::{Start, Traces},
    },
};

/// Returns all facts that bear on the deaths in `made`.
pub(super) fn of(gathered: &TextEvidence, made: &[Made]) -> Facts {
    let limit_members: BTreeMap<EventId, LimitMembers> = made
        .iter()
        .map(|made| (made.death.id, limit_members(&made.everyone)))
        .collect();
    let remarks = &gathered.remarks;
    let points: Vec<_> = remarks
        .gpu_moved
        .iter()
        .map(|(who, moved, place, line)| {
            (
                who.clone(),
                moved,
                format!("{}: {line}", source(gathered, *place)),
            )
        })
        .collect();
    Facts {
        limit_members,
        nodes: nodes(gathered, made),
        drivers: drivers(gathered),
        printed: printed(gathered),
        log_warnings: log_warnings(gathered),
        offloads: find_offloads(&points),
        ..Facts::default()
    }
}

fn limit_members(everyone: &[TopProcess]) -> LimitMembers {
    LimitMembers {
        inside: everyone.iter().map(held).collect(),
        shared: None,
        sums: None,
    }
}

fn held(process: &TopProcess) -> Member {
    let argv: Vec<String> = process.title.split(' ').map(str::to_owned).collect();
    let program = path::base(&argv[0]);
    let title = identify::title(&process.title);
    let role = match program {
        "raylet" => Role::Raylet,
        // The kernel keeps 15 bytes of a name.
        "ray::DashboardA" | "ray::RuntimeEnv" => Role::Agent,
        program => identify::role(program, &argv).unwrap_or(Role::Other),
    };
    Member {
        pid: process.pid,
        role,
        doing: title
            .as_ref()
            .and_then(|title| title.task.as_deref())
            .map(Into::into),
        class: title.and_then(Title::class).map(Into::into),
        private: process.private_bytes,
        ..Member::default()
    }
}

/// Returns the node if there is only one. Texts of several do not say which node a line of a
/// monitor is about.
fn nodes(gathered: &TextEvidence, made: &[Made]) -> Vec<Node> {
    let raylets = &gathered.remarks.raylets;
    let one = raylets.first().filter(|_| raylets.len() == 1);
    let node = |pid: &crate::ids::Pid| Node {
        raylet: Some(ProcessKey::new(pid.0, 0)),
        version: gathered
            .remarks
            .ray_version
            .as_deref()
            .and_then(crate::ray::version::Version::parse),
        started: started(made),
        ..Node::default()
    };
    one.map(node).into_iter().collect()
}

/// Returns how Ray was started, by the cgroups that the kernel named. A text knows no environment.
fn started(made: &[Made]) -> Start {
    let oom = made.iter().find_map(|made| made.death.memory.oom.as_ref());
    let cgroup = oom.and_then(|oom| oom.task_cgroup.as_deref().or(oom.cgroup.as_deref()));
    let traces = Traces {
        settings: &[],
        cgroup,
        contained: cgroup.and_then(Start::of_cgroup) == Some(Start::Container),
        by_driver: false,
    };
    traces.start()
}

fn drivers(gathered: &TextEvidence) -> Vec<Driver> {
    let lines = gathered.remarks.configurations.iter();
    let lines = lines.filter(|one| one.printer.is_none());
    lines
        .map(|one| Driver {
            source: format!("command line, {}", source(gathered, one.place)),
            argv: one.argv.clone(),
            ..Driver::default()
        })
        .collect()
}

fn printed(gathered: &TextEvidence) -> Vec<PrintedConfiguration> {
    let all = gathered.remarks.configurations.iter();
    let printed = all.filter_map(|one| {
        let printer = one.printer.as_ref()?;
        Some(PrintedConfiguration {
            source: format!("printed by {printer}, {}", source(gathered, one.place)),
            cluster: None,
            job: None,
            settings: one.settings.clone(),
        })
    });
    printed.collect()
}

fn log_warnings(gathered: &TextEvidence) -> Vec<LogWarning> {
    let warnings = gathered.remarks.warnings.iter();
    let found = warnings.map(|(warning, noted)| LogWarning {
        warning: *warning,
        count: noted.count,
        bytes: gathered.remarks.spilled,
        lines: vec![format!(
            "{}: {}",
            source(gathered, noted.place),
            noted.quote
        )],
        first_hand: false,
    });
    found.collect()
}
