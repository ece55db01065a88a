//! Finds nodes that stand out: a class grew faster there, or became faster than elsewhere.
//!
//! A node stands out if three conditions hold together. It is faster than the median of the others
//! by [`FASTER`]. It is further from that median than chance explains ([`FAR`]). What it grew by
//! beyond the others over the whole run matters ([`LEAST`]). Slower nodes are not reported.

use super::{
    ComparedWith, StandOut,
    rates::{Rate, RateKey, Rates, Table},
};
use crate::ids::Bytes;

/// Nodes that do the same work differ by a smaller factor: batches have unequal lengths, and
/// allocators round up.
const FASTER: f64 = 1.5;
/// Standard deviations above the median. Of normally distributed figures, one in 740 is further
/// above.
const FAR: f64 = 3.0;
/// Turns the median distance from the median into a standard deviation, for normally distributed
/// figures.
const DEVIATIONS: f64 = 1.4826;
/// Growth by fewer bytes beyond the others fills no node.
const LEAST: f64 = 64.0 * 1024.0 * 1024.0;
/// The least number of other nodes. With a single one, it is not known which of the two is the odd
/// one.
const FEWEST: usize = 2;
/// If a single other node changed by no more than this share between the runs, the one that did
/// change is the odd one.
const UNCHANGED: f64 = 0.25;

/// Returns all nodes that stand out, those by their change first, with one entry for each node and
/// class.
pub(super) fn all(table: &Table) -> Vec<StandOut> {
    let mut found: Vec<StandOut> = Vec::new();
    for compared in [
        ComparedWith::OtherRun,
        ComparedWith::NodesOfB,
        ComparedWith::NodesOfA,
    ] {
        // Growth per call says more than growth per hour, because hours hold more or fewer calls.
        for by_call in [true, false] {
            let of = table
                .iter()
                .filter(|(measured, _)| measured.task.is_some() == by_call);
            for (measured, nodes) in of {
                let group = Group::of(measured, nodes.iter(), compared);
                let new = group.stand_out();
                found.extend(new);
            }
        }
    }
    one_each(found)
}

/// Keeps the first entry for each node and class.
fn one_each(found: Vec<StandOut>) -> Vec<StandOut> {
    let mut told: Vec<StandOut> = Vec::new();
    for one in found {
        let is_known = |known: &StandOut| known.node == one.node && known.class == one.class;
        if !told.iter().any(is_known) {
            told.push(one);
        }
    }
    told
}

/// One node's figure among those that it is compared with.
#[derive(Debug, Clone, Copy)]
struct Figure<'a> {
    node: &'a str,
    rates: Rates,
    /// A rate, or the factor by which it changed.
    value: f64,
}

/// All nodes' figures of one kind, the largest first.
struct Group<'a> {
    measured: &'a RateKey,
    compared: ComparedWith,
    figures: Vec<Figure<'a>>,
}

impl<'a> Group<'a> {
    fn of(
        measured: &'a RateKey,
        nodes: impl Iterator<Item = (&'a String, &'a Rates)>,
        compared: ComparedWith,
    ) -> Self {
        let figure = |(node, rates): (&'a String, &'a Rates)| {
            Some(Figure {
                node,
                rates: *rates,
                value: value(rates, compared)?,
            })
        };
        let mut figures: Vec<Figure<'a>> = nodes.filter_map(figure).collect();
        figures.sort_by(|one, other| other.value.total_cmp(&one.value));
        Self {
            measured,
            compared,
            figures,
        }
    }

    /// Returns the nodes that stand out, from the largest figure down. The others have the same
    /// median for each node above it. So once a node is not faster, none after it is.
    fn stand_out(&self) -> Vec<StandOut> {
        let mut found: Vec<(usize, f64)> = Vec::new();
        for (at, figure) in self.figures.iter().enumerate() {
            let others = self.others(at, |other| Some(other.value));
            let Some(middle) = self.middle(&others) else {
                break;
            };
            if figure.value <= middle * FASTER {
                break;
            }
            if figure.value > middle + FAR * deviation(&others, middle)
                && self.excess(figure, middle) >= LEAST
            {
                found.push((at, middle));
            }
        }
        let alone = found.len() == 1;
        let told = found.into_iter();
        told.map(|(at, middle)| self.to_stand_out(at, middle, alone))
            .collect()
    }

    fn others(&self, own: usize, of: impl Fn(&Figure<'a>) -> Option<f64>) -> Vec<f64> {
        let all = self.figures.iter().enumerate();
        let others = all.filter(|(at, _)| *at != own);
        others.filter_map(|(_, figure)| of(figure)).collect()
    }

    /// Returns the median of the others, if there are enough of them.
    fn middle(&self, others: &[f64]) -> Option<f64> {
        let middle = median(others)?;
        let one_is_enough =
            self.compared == ComparedWith::OtherRun && (middle - 1.0).abs() <= UNCHANGED;
        let enough = others.len() >= FEWEST || one_is_enough;
        (enough && middle.is_finite()).then_some(middle)
    }

    /// Returns how many bytes it grew by over its run, beyond what it would have grown by as one of
    /// the others.
    fn excess(&self, figure: &Figure<'_>, middle: f64) -> f64 {
        let (a, b) = (figure.rates.a, figure.rates.b);
        let (rate, expected) = match self.compared {
            ComparedWith::OtherRun => (b, each(a).unwrap_or_default() * middle),
            ComparedWith::NodesOfA => (a, middle),
            ComparedWith::NodesOfB => (b, middle),
        };
        rate.map_or(0.0, |rate| (rate.each.0 as f64 - expected) * rate.times)
    }

    fn to_stand_out(&self, at: usize, middle: f64, alone: bool) -> StandOut {
        let own = &self.figures[at];
        let of = |side: fn(&Rates) -> Option<Rate>| {
            median(&self.others(at, |other| each(side(&other.rates))))
                .map(|bytes| Bytes(1).times(bytes))
        };
        let factor = match self.compared {
            ComparedWith::OtherRun => own.value,
            ComparedWith::NodesOfA | ComparedWith::NodesOfB => own.value / middle,
        };
        let mut told = StandOut {
            node: own.node.to_owned(),
            class: self.measured.class.clone(),
            task: self.measured.task.clone(),
            compared: self.compared,
            factor: Some(factor).filter(|factor| factor.is_finite()),
            a: own.rates.a.map(|rate| rate.each),
            b: own.rates.b.map(|rate| rate.each),
            others: u32::try_from(self.figures.len() - 1).unwrap_or(u32::MAX),
            others_a: of(|rates| rates.a),
            others_b: of(|rates| rates.b),
            why: String::new(),
        };
        told.why = why(&told, middle, alone);
        told
    }
}

/// Returns what is compared: a rate, or how many times as much it is in B as in A.
fn value(rates: &Rates, compared: ComparedWith) -> Option<f64> {
    match compared {
        ComparedWith::NodesOfA => each(rates.a),
        ComparedWith::NodesOfB => each(rates.b),
        ComparedWith::OtherRun => {
            let (a, b) = (each(rates.a)?, each(rates.b)?);
            Some(if a > 0.0 {
                b / a
            } else if b > 0.0 {
                f64::INFINITY
            } else {
                1.0
            })
        }
    }
}

fn each(rate: Option<Rate>) -> Option<f64> {
    rate.map(|rate| rate.each.0 as f64)
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (
        sorted.get(sorted.len().checked_sub(1)? / 2)?,
        sorted.get(sorted.len() / 2)?,
    );
    Some(f64::midpoint(*low, *high))
}

/// Returns the standard deviation of normally distributed figures with the same median distance. A
/// few figures that are far off do not change it.
fn deviation(values: &[f64], middle: f64) -> f64 {
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    DEVIATIONS * median(&distances).unwrap_or_default()
}

/// Returns the comparison as a sentence.
fn why(told: &StandOut, middle: f64, alone: bool) -> String {
    let lead = format!("{}{}", told.node, if alone { " alone" } else { "" });
    let who = told.task.as_deref().unwrap_or(&told.class);
    match told.compared {
        ComparedWith::OtherRun => format!("{lead}: {who} {}", changed(told, middle)),
        ComparedWith::NodesOfA => {
            let other = ("B", told.b, told.others_b);
            format!(
                "{lead}: in A {who} {}",
                faster(told, told.a, told.others_a, other)
            )
        }
        ComparedWith::NodesOfB => {
            let other = ("A", told.a, told.others_a);
            format!(
                "{lead}: in B {who} {}",
                faster(told, told.b, told.others_b, other)
            )
        }
    }
}

/// Says how the rate changed: `grew 2.1 × as fast in B (100 → 210 MiB a call); on the other 15
/// nodes 1.0 × as fast (median 100 → 101 MiB)`.
fn changed(told: &StandOut, middle: f64) -> String {
    let both = |a: Option<Bytes>, b: Option<Bytes>| {
        format!(
            "{} → {}",
            size(a.unwrap_or_default()),
            size(b.unwrap_or_default())
        )
    };
    let own = format!("({}{})", both(told.a, told.b), unit(told));
    let own = match told.factor {
        Some(factor) => format!("grew {factor:.1} × as fast in B {own}"),
        None => format!("grew in B and not in A {own}"),
    };
    let figures = both(told.others_a, told.others_b);
    let others = match (told.others, told.others_a.max(told.others_b)) {
        (_, Some(Bytes(0)) | None) => "it did not grow".to_owned(),
        (1, _) => format!("{middle:.1} × as fast ({figures})"),
        _ => format!("{middle:.1} × as fast (median {figures})"),
    };
    format!("{own}; on {} {others}", others_named(told))
}

/// Says how much faster it is: `grew by 210 MiB a call, 2.1 × the median of the other 15 nodes (100
/// MiB); in A by 205 MiB (100 MiB)`.
fn faster(
    told: &StandOut,
    own: Option<Bytes>,
    others: Option<Bytes>,
    other_run: (&str, Option<Bytes>, Option<Bytes>),
) -> String {
    let own = format!("grew by {}{}", size(own.unwrap_or_default()), unit(told));
    let among = match (told.factor, others) {
        (Some(factor), Some(others)) => format!(
            "{own}, {factor:.1} × the median of {} ({})",
            others_named(told),
            size(others)
        ),
        _ => format!("{own}; on most of {} it did not grow", others_named(told)),
    };
    match other_run {
        (run, Some(own), Some(others)) => {
            format!("{among}; in {run} by {} ({})", size(own), size(others))
        }
        _ => among,
    }
}

fn others_named(told: &StandOut) -> String {
    match told.others {
        1 => "the other node".to_owned(),
        many => format!("the other {many} nodes"),
    }
}

fn unit(told: &StandOut) -> &'static str {
    if told.task.is_some() {
        " a call"
    } else {
        " an hour"
    }
}

fn size(bytes: Bytes) -> String {
    match bytes {
        Bytes(0) => "0".to_owned(),
        bytes => bytes.finer_size(),
    }
}

#[cfg(test)]
mod tests;
