//! The facts of texts: what rules look at besides the report.

use std::collections::BTreeMap;

use super::{Made, claim::Gathered, source};
use crate::{
    event::Role,
    ids::{Bytes, EventId, ProcessKey},
    judge::{
        findings::facts::{Around, Driver, Facts, Held, LogWarning, Node, Printed},
        findings::paired,
        report::TopProcess,
    },
    path,
    ray::{
        identify::{self, Title},
        start::{Start, Traces},
    },
};

/// Words of the cgroups that container runtimes make.
const CONTAINERS: [&str; 4] = ["docker", "libpod", "containerd", "crio"];

/// All facts that bear on what was made of `gathered`.
pub(super) fn of(gathered: &Gathered, made: &[Made]) -> Facts {
    let around: BTreeMap<EventId, Around> = made
        .iter()
        .map(|made| (made.death.id, around(&made.everyone)))
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
        around,
        nodes: nodes(gathered, made),
        drivers: drivers(gathered),
        printed: printed(gathered),
        said: said(gathered),
        offloads: paired(&points),
        ..Facts::default()
    }
}

fn around(everyone: &[TopProcess]) -> Around {
    Around {
        inside: everyone.iter().map(held).collect(),
        sums: None,
    }
}

fn held(process: &TopProcess) -> Held {
    let argv: Vec<String> = process.title.split(' ').map(str::to_owned).collect();
    let program = path::base(&argv[0]);
    let title = identify::title(&process.title);
    let role = match program {
        "raylet" => Role::Raylet,
        // The kernel keeps 15 bytes of a name.
        "ray::DashboardA" | "ray::RuntimeEnv" => Role::Agent,
        program => identify::role(program, &argv).unwrap_or(Role::Other),
    };
    Held {
        pid: process.pid,
        role,
        doing: title.as_ref().and_then(|title| title.task.clone()),
        class: title.and_then(Title::class),
        private: process.private_bytes,
        shared: Bytes(0),
        before: None,
        leak: None,
        reused: None,
        idle: None,
    }
}

/// Texts of several nodes do not say which one a line of the monitor's is about.
fn nodes(gathered: &Gathered, made: &[Made]) -> Vec<Node> {
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

/// By the cgroups that the kernel named: a text knows no environment.
fn started(made: &[Made]) -> Start {
    let oom = made.iter().find_map(|made| made.death.memory.oom.as_ref());
    let cgroup = oom.and_then(|oom| oom.task_cgroup.as_deref().or(oom.cgroup.as_deref()));
    let traces = Traces {
        settings: &[],
        cgroup,
        contained: cgroup.is_some_and(|path| CONTAINERS.iter().any(|word| path.contains(word))),
        by_driver: false,
    };
    traces.start()
}

fn drivers(gathered: &Gathered) -> Vec<Driver> {
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

fn printed(gathered: &Gathered) -> Vec<Printed> {
    let all = gathered.remarks.configurations.iter();
    let printed = all.filter_map(|one| {
        let printer = one.printer.as_ref()?;
        Some(Printed {
            source: format!("printed by {printer}, {}", source(gathered, one.place)),
            settings: one.settings.clone(),
        })
    });
    printed.collect()
}

fn said(gathered: &Gathered) -> Vec<LogWarning> {
    let warnings = gathered.remarks.warnings.iter();
    let said = warnings.map(|(warning, noted)| LogWarning {
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
    said.collect()
}
