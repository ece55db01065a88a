//! Assigns rows of the trace to processes: Ray's own row if its timeline has the worker.
//!
//! Chrome's "process" is a Ray node here and its "thread" a worker, as in Ray's timeline.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::ray::RayTimeline;
use crate::{
    event::Role,
    judge::{
        report::Report,
        timeline::{ProcessSeries, Timeline},
    },
    show::{sanitize, words},
};

/// A row of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) node: u64,
    pub(super) row: u64,
}

/// The nodes and rows of a trace, numbered in the order of their first use.
#[derive(Default)]
pub(super) struct Rows {
    nodes: Vec<String>,
    rows: Vec<(u64, String)>,
    known: HashMap<(u64, String), u64>,
    /// The name of each cluster's node.
    clusters: Vec<String>,
    machine: String,
}

impl Rows {
    pub(super) fn new(ray: Option<&RayTimeline>) -> Self {
        let mut rows = Self::default();
        for (node, row) in ray.into_iter().flat_map(RayTimeline::named_rows) {
            rows.named(&node, &row);
        }
        rows
    }

    /// Starts the rows of another recording. If there are several, each names its host.
    pub(super) fn turn_to(
        &mut self,
        report: &Report,
        timeline: &Timeline,
        ray: Option<&RayTimeline>,
        several: bool,
    ) {
        let host = report.recordings.first();
        let host = host.map(|one| sanitize::name(&one.host.name));
        let host = host.unwrap_or_default();
        self.clusters = clusters(report, timeline, ray);
        if several && ray.is_none() {
            for name in &mut self.clusters {
                *name = format!("{host}: {name}");
            }
        }
        self.machine = format!("Machine {host}");
    }

    /// Returns the row with these names, and adds it if it is new.
    pub(super) fn named(&mut self, node: &str, row: &str) -> Place {
        let known = self.nodes.iter().position(|known| known == node);
        let at = known.unwrap_or_else(|| {
            self.nodes.push(node.to_owned());
            self.nodes.len() - 1
        });
        let node = at as u64 + 1;
        let next = self.rows.len() as u64 + 1;
        let number = *self.known.entry((node, row.to_owned())).or_insert(next);
        if number == next {
            self.rows.push((node, row.to_owned()));
        }
        Place { node, row: number }
    }

    /// Returns the events of Ray's own timeline, on the rows of the trace.
    pub(super) fn events(&mut self, ray: &RayTimeline) -> Vec<Value> {
        let moved = |(event, (node, row)): (&Map<String, Value>, (String, String))| {
            let place = self.named(&node, &row);
            let mut event = event.clone();
            event.insert("pid".into(), place.node.into());
            event.insert("tid".into(), place.row.into());
            Value::Object(event)
        };
        ray.events().map(moved).collect()
    }

    /// Returns the row of a process, named as Ray names it if Ray does.
    pub(super) fn process(&mut self, process: &ProcessSeries) -> Place {
        let node = self.node(process);
        let row = match (process.role, &process.worker_id) {
            (Role::Worker, Some(id)) => format!("worker:{}", sanitize::line(&id.0, 64)),
            (Role::Driver, Some(id)) => format!("driver:{}", sanitize::line(&id.0, 64)),
            _ => format!(
                "{} {}",
                words::class_of_series(process),
                process.process.pid
            ),
        };
        self.named(&node, &row)
    }

    fn node(&self, process: &ProcessSeries) -> String {
        let cluster = process
            .cluster
            .and_then(|at| self.clusters.get(at as usize));
        cluster.unwrap_or(&self.machine).clone()
    }

    /// Returns another row for a process, for what its titles said. Those times are too rough to
    /// nest with Ray's spans.
    pub(super) fn titles(&mut self, process: &ProcessSeries, place: Place) -> Option<Place> {
        if process.titles.is_empty() && process.calls.is_empty() {
            return None;
        }
        let node = self.node(process);
        let at = usize::try_from(place.row - 1).ok()?;
        let row = format!("{} by its titles", self.rows.get(at)?.1);
        Some(self.named(&node, &row))
    }

    /// Returns the row of the machine.
    pub(super) fn machine(&mut self) -> Place {
        let machine = self.machine.clone();
        self.named(&machine, "memory")
    }

    /// Returns metadata with the names of all nodes and rows.
    pub(super) fn names(&self) -> Vec<Value> {
        let nodes = (1u64..).zip(&self.nodes);
        let nodes = nodes.map(|(node, name)| {
            json!({"ph": "M", "name": "process_name", "pid": node, "args": {"name": name}})
        });
        let rows = (1u64..).zip(&self.rows);
        let rows = rows.map(|(row, (node, name))| {
            json!({"ph": "M", "name": "thread_name", "pid": node, "tid": row, "args": {"name": name}})
        });
        nodes.chain(rows).collect()
    }
}

/// Returns the name of each cluster's node. That is the name in Ray's timeline, if a worker of the
/// cluster has a row there: ids of workers are random, addresses are not.
fn clusters(report: &Report, timeline: &Timeline, ray: Option<&RayTimeline>) -> Vec<String> {
    let mut known: HashMap<String, HashSet<String>> = HashMap::new();
    for (node, row) in ray.into_iter().flat_map(RayTimeline::named_rows) {
        known.entry(row).or_default().insert(node);
    }
    let by_worker = |cluster: u32| {
        let own = timeline.processes.iter();
        own.filter(|process| process.cluster == Some(cluster) && process.role == Role::Worker)
            .filter_map(|process| known.get(&format!("worker:{}", process.worker_id.as_ref()?)))
            .find_map(|nodes| nodes.iter().next().cloned())
    };
    report
        .clusters
        .iter()
        .map(|cluster| {
            by_worker(cluster.id).unwrap_or_else(|| {
                let at = usize::try_from(cluster.id).unwrap_or(usize::MAX);
                let address = timeline.addresses.get(at).cloned().flatten();
                let address = address.map_or_else(String::new, |one| sanitize::name(&one));
                format!("Node {address} (raylet {})", cluster.raylet_pid)
            })
        })
        .collect()
}
