//! Compares two runs node by node: which nodes both have, and how fast each class grew there.
//!
//! Ray gives a node another id each time, so nodes of two runs are matched by the names of their
//! hosts.

use std::collections::BTreeSet;

use super::{
    NodeDiff, NodeGrowth,
    machines::Machines,
    rates::{Rate, RateKey, Rates, Table},
    stand_out,
};
use crate::{
    ids::Bytes,
    judge::report::{Owner, Report},
};

/// Compares the nodes of two runs; `None` if both have one node only.
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
            // Of several recordings of a node, the longest says the most.
            if of.is_none_or(|known| known.times < rate.times) {
                *of = Some(rate);
            }
        }
    }
}

fn rates(owner: &Owner) -> impl Iterator<Item = (RateKey, Rate)> {
    let measured = |task: Option<&str>| RateKey {
        class: owner.class.clone(),
        task: task.map(str::to_owned),
    };
    let calls = owner.growth_rate.calls.iter().map(move |of_call| {
        let rate = Rate {
            each: of_call.per_call,
            times: f64::from(of_call.calls),
        };
        (measured(Some(&of_call.task)), rate)
    });
    let hours = owner.growth_rate.hours.map(|of_hour| {
        let rate = Rate {
            each: of_hour.per_hour,
            times: of_hour.seconds as f64 / 3600.0,
        };
        (measured(None), rate)
    });
    calls.chain(hours)
}

/// Returns all that grew on any node, in the order of the table.
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
