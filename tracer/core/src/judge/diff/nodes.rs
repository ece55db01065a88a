//! Two runs node by node: which nodes are the same, and how fast each class grew on each of them.
//!
//! Ray gives a node another id each time, so nodes of two runs are matched by the name of their host.

use std::collections::{BTreeMap, BTreeSet};

use super::{NodeDiff, NodeGrowth, machines::Machines, stand_out};
use crate::{
    ids::Bytes,
    judge::report::{Owner, Report},
};

/// What grows by what: a class, and the task by whose calls it does, or none where it is by the hour.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Measured {
    pub(super) class: String,
    pub(super) task: Option<String>,
}

/// A rate, and over how much of it the run lasted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate {
    /// A call's, or an hour's.
    pub(super) each: Bytes,
    /// How many calls or hours.
    pub(super) times: f64,
}

/// One node's rates in both runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) a: Option<Rate>,
    pub(super) b: Option<Rate>,
}

/// The rates of all nodes that are compared, by what grows and then by the node's name.
pub(super) type Table = BTreeMap<Measured, BTreeMap<String, Rates>>;

/// What is the same and what is not; `None` where both are of one node.
pub(super) fn compare(a: &Report, b: &Report) -> Option<NodeDiff> {
    let (first, second) = (Machines::of(a), Machines::of(b));
    if first.count() < 2 && second.count() < 2 {
        return None;
    }
    let (of_a, of_b) = (first.names(), second.names());
    let ambiguous: BTreeSet<&str> = first
        .ambiguous()
        .union(second.ambiguous())
        .copied()
        .collect();
    let mut table = Table::new();
    fill(&mut table, a, &first, |rates| &mut rates.a);
    fill(&mut table, b, &second, |rates| &mut rates.b);
    Some(NodeDiff {
        both: listed(of_a.intersection(&of_b)),
        only_a: listed(of_a.difference(&of_b)),
        only_b: listed(of_b.difference(&of_a)),
        ambiguous: listed(ambiguous.iter()),
        stand_out: stand_out::all(&table),
        growth: growth(table),
    })
}

fn listed<'a>(names: impl Iterator<Item = &'a &'a str>) -> Vec<String> {
    names.map(|name| (*name).to_owned()).collect()
}

fn fill(
    table: &mut Table,
    report: &Report,
    machines: &Machines<'_>,
    side: impl Fn(&mut Rates) -> &mut Option<Rate>,
) {
    for owner in &report.owners {
        let Some((host, "")) = machines.of_owner(owner) else {
            continue;
        };
        for (measured, rate) in rates(owner) {
            let nodes = table.entry(measured).or_default();
            let of = side(nodes.entry(host.to_owned()).or_default());
            // Of several recordings of a node the longest tells most.
            if of.is_none_or(|known| known.times < rate.times) {
                *of = Some(rate);
            }
        }
    }
}

fn rates(owner: &Owner) -> impl Iterator<Item = (Measured, Rate)> {
    let measured = |task: Option<&str>| Measured {
        class: owner.class.clone(),
        task: task.map(str::to_owned),
    };
    let calls = owner.pace.calls.iter().map(move |pace| {
        let rate = Rate {
            each: pace.per_call,
            times: f64::from(pace.calls),
        };
        (measured(Some(&pace.task)), rate)
    });
    let hours = owner.pace.hours.map(|pace| {
        let rate = Rate {
            each: pace.per_hour,
            times: pace.seconds as f64 / 3600.0,
        };
        (measured(None), rate)
    });
    calls.chain(hours)
}

/// All that grew anywhere, in the order of the table.
fn growth(table: Table) -> Vec<NodeGrowth> {
    let mut all = Vec::new();
    for (measured, nodes) in table {
        for (node, rates) in nodes {
            let (a, b) = (rates.a.map(|rate| rate.each), rates.b.map(|rate| rate.each));
            if a.max(b).is_some_and(|most| most > Bytes(0)) {
                all.push(NodeGrowth {
                    node,
                    class: measured.class.clone(),
                    task: measured.task.clone(),
                    a,
                    b,
                });
            }
        }
    }
    all
}
