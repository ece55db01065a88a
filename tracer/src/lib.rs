//! raytrace: a flight recorder for memory deaths on Ray clusters.
//!
//! Data flows through three stages: `observe` (impure, live) makes [`event::Event`]s, which
//! `recording` stores. `judge` (pure) decides who ended each process. `show` (pure) prints it.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what they have made")
)]

use raytrace_core::path;
pub use raytrace_core::{budget, cgroup_path, event, ids, judge, kernel_log, ray, signals};
pub use raytrace_proc::bounded;

pub mod cli;
#[cfg(feature = "record")]
pub mod collect;
pub mod command;
#[cfg(test)]
mod damage;
pub mod deaths;
pub mod explain;
#[cfg(all(any(test, fuzzing), feature = "stacks"))]
pub mod fuzz;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod layering;
pub mod observe;
pub mod recording;
pub mod show;
#[cfg(test)]
mod skips;
pub mod slice;
