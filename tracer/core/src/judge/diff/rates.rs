//! What grows by what, and how fast on each node of both runs.

use std::collections::BTreeMap;

use crate::ids::Bytes;

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
