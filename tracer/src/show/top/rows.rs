//! Makes the rows of the table: living processes by class, by process, or by role in Ray.

use std::{cmp::Ordering, collections::BTreeMap};

use super::Top;
use crate::{
    event::Role,
    ids::{Bytes, ProcessKey},
    judge::live::LiveProcess,
    show::{sanitize, words},
};

/// What one row stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Group {
    #[default]
    Classes,
    Processes,
    Components,
}

impl Group {
    pub(super) const ALL: [Self; 3] = [Self::Classes, Self::Processes, Self::Components];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Classes => "classes",
            Self::Processes => "processes",
            Self::Components => "components",
        }
    }
}

/// What the rows are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Memory,
    Growth,
    Name,
}

impl Sort {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Growth => "growth",
            Self::Name => "name",
        }
    }

    pub(super) fn next(self) -> Self {
        match self {
            Self::Memory => Self::Growth,
            Self::Growth => Self::Name,
            Self::Name => Self::Memory,
        }
    }
}

/// The identity of a row, wherever it moves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowId {
    /// A class or a component.
    Named(String),
    /// A process.
    Process(ProcessKey),
}

/// One row of the table.
#[derive(Debug, Clone)]
pub(super) struct Row<'a> {
    pub(super) id: RowId,
    pub(super) name: String,
    /// The processes of the row, the one with most private memory first. Empty for a row that is no
    /// process.
    pub(super) members: Vec<&'a LiveProcess>,
    pub(super) private: Bytes,
    pub(super) shared: Bytes,
    pub(super) swap: Bytes,
    /// Growth, in bytes per second.
    pub(super) rate: Option<f64>,
}

/// The components that are not processes: what else is in use on the machine.
pub(super) const SHARED: &str = "shared memory (object store)";
pub(super) const REST: &str = "other programs and the kernel";

/// Returns all rows that pass the filter, sorted.
pub(super) fn of(top: &Top) -> Vec<Row<'_>> {
    let filter = top.choice.filter.to_lowercase();
    let processes = top.live.processes.iter();
    let wanted = processes.filter(|process| matches(process, &filter));
    let mut rows: Vec<Row<'_>> = if top.choice.group == Group::Processes {
        wanted.map(|process| alone(top, process)).collect()
    } else {
        let mut groups: BTreeMap<String, Vec<&LiveProcess>> = BTreeMap::new();
        for process in wanted {
            groups
                .entry(name(top.choice.group, process))
                .or_default()
                .push(process);
        }
        let groups = groups.into_iter();
        groups
            .map(|(name, members)| row(top, name, members))
            .collect()
    };
    if top.choice.group == Group::Components && filter.is_empty() {
        rows.extend(beside(top));
    }
    sort(top, &mut rows);
    rows
}

fn name(group: Group, process: &LiveProcess) -> String {
    match group {
        Group::Components => component(process.role).to_owned(),
        Group::Classes | Group::Processes => words::class_of_live(process),
    }
}

fn component(role: Role) -> &'static str {
    match role {
        Role::Worker => "workers",
        Role::Driver => "drivers",
        Role::Raylet => "raylet",
        Role::Gcs => "gcs_server",
        Role::Dashboard => "dashboard",
        Role::Agent => "agents",
        Role::Descendant => "subprocesses of workers and drivers",
        Role::Other => "helpers and ancestors of Ray",
    }
}

fn alone<'a>(top: &Top, process: &'a LiveProcess) -> Row<'a> {
    Row {
        id: RowId::Process(process.process),
        ..row(top, words::name_of_live(process), vec![process])
    }
}

fn row<'a>(top: &Top, name: String, mut members: Vec<&'a LiveProcess>) -> Row<'a> {
    members.sort_by_key(|member| std::cmp::Reverse((member.private(), member.process)));
    let sum = |part: fn(&LiveProcess) -> Option<Bytes>| {
        Bytes(
            members
                .iter()
                .filter_map(|one| part(one))
                .map(|bytes| bytes.0)
                .sum(),
        )
    };
    let rates = members.iter();
    let rates = rates.filter_map(|member| top.trends.rate(member.process));
    Row {
        id: RowId::Named(name.clone()),
        name,
        private: sum(|one| one.memory.private()),
        shared: sum(|one| one.memory.shmem),
        swap: sum(|one| one.memory.swap),
        rate: rates.reduce(|sum, rate| sum + rate),
        members,
    }
}

/// Returns rows for memory in use on the machine that is not private memory of these processes.
fn beside(top: &Top) -> Vec<Row<'static>> {
    let Some(node) = &top.live.node else {
        return Vec::new();
    };
    let parts = super::head::parts(node, &top.live.processes);
    [(SHARED, parts.shared), (REST, parts.rest)]
        .into_iter()
        .map(|(name, private)| Row {
            id: RowId::Named(name.to_owned()),
            name: name.to_owned(),
            members: Vec::new(),
            private,
            shared: Bytes(0),
            swap: Bytes(0),
            rate: None,
        })
        .collect()
}

/// Returns whether a process matches the filter: by name, by pid, or by the beginning of an id.
fn matches(process: &LiveProcess, filter: &str) -> bool {
    let ids = [&process.worker_id, &process.job_id];
    filter.is_empty()
        || process.process.pid.to_string() == *filter
        || process.ns_pid.is_some_and(|pid| pid.to_string() == *filter)
        || ids.into_iter().flatten().any(|id| id.0.starts_with(filter))
        // Search the name as it is shown: hidden characters in a name cannot be typed.
        || sanitize::line(&process.label, sanitize::LONGEST).to_lowercase().contains(filter)
        || words::class_of_live(process).to_lowercase().contains(filter)
}

fn sort(top: &Top, rows: &mut [Row<'_>]) {
    rows.sort_by(|one, other| {
        let order = match top.choice.sort {
            Sort::Memory => other.private.cmp(&one.private),
            Sort::Growth => {
                let rate = |row: &Row<'_>| row.rate.unwrap_or(f64::MIN);
                rate(other).total_cmp(&rate(one))
            }
            Sort::Name => Ordering::Equal,
        };
        let order = order
            .then_with(|| one.name.to_lowercase().cmp(&other.name.to_lowercase()))
            .then_with(|| one.id.cmp(&other.id));
        if top.choice.reversed {
            order.reverse()
        } else {
            order
        }
    });
}
