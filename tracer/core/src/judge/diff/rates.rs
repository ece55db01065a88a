//! Defines growth rates: what grows, by which calls, and how fast on each node of both runs.

use std::collections::BTreeMap;

use crate::ids::Bytes;

/// What is measured: a class, and the task with the calls by which it grows. Without a task, it
/// grows by the hour.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RateKey {
    pub(super) class: String,
    pub(super) task: Option<String>,
}

/// A growth rate, and how much of the run it covers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate {
    /// Growth per call, or per hour.
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

/// The rates of all nodes that are compared, by what is measured and then by the node's name.
pub(super) type Table = BTreeMap<RateKey, BTreeMap<String, Rates>>;
