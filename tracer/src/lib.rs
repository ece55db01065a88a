//! raytrace: the flight recorder for memory deaths on Ray clusters.
//!
//! One stream, three stages: `observe` (impure, live) makes [`event::Event`]s, `recording` keeps them, `judge` (pure)
//! says who ended each process, `show` (pure) prints it.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what they have made")
)]

#[cfg(test)]
mod borders;
pub mod bounded;
pub mod cgroup_path;
pub mod cli;
pub mod collect;
pub mod command;
#[cfg(test)]
mod damage;
pub mod event;
pub mod explain;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod golden;
pub mod ids;
pub mod judge;
pub mod kernel_log;
pub mod observe;
mod path;
pub mod ray;
pub mod recording;
pub mod show;
pub mod signals;
#[cfg(test)]
mod skips;
pub mod slice;
