//! raytrace: a flight recorder for memory deaths on Ray clusters.
//!
//! Data flows through three stages: `observe` (impure, live) makes [`event::Event`]s, which
//! [`recording`] stores. [`judge`] (pure) decides who ended each process. [`show`] (pure) prints it.
//!
//! # The crates
//!
//! | crate | what it is | begin with |
//! |---|---|---|
//! | [`raytrace_core`] | the pure half: events, the grammars of logs, the judge | [`event::Event`], then [`judge::Judge`] and its [`judge::report::Report`] |
//! | [`raytrace_proc`] | reads `/proc` and cgroups, bounded in size and time | [`raytrace_proc::bounded`] |
//! | `raytrace_stacks` | finds the lines that grow, by Python and native stacks | `raytrace_stacks::grow` |
//! | `raytrace_ebpf` | the eBPF programs, compiled, and the records that they send | `raytrace_ebpf::records` |
//! | this crate | the recorder, the recording, the views and the commands | [`recording::read`], [`command`] |
//!
//! # As a library
//!
//! [`recording::read`] opens a recording, and [`judge::judge`] makes the report on its events; both
//! work on any machine, without privileges. `examples/library/memory_kills.rs` lists the memory
//! kills of a recording with their owners. The crates are not on crates.io yet, and their types change with
//! the program. What stays the same is the JSON of `raytrace report --format json`
//! (`docs/reference/json.md`, `examples/library/memory_kills.py`).
//!
//! `ARCHITECTURE.md` in the repository has the folders, and the decisions with their reasons.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what they have made")
)]

pub use raytrace_core::{
    budget, catalogue, cgroup_path, event, ids, judge, kernel_log, ray, signals,
};
use raytrace_core::{path, phrase};
pub use raytrace_proc::bounded;
#[cfg(test)]
use tests::{damage, golden, skips};

pub mod cli;
#[cfg(feature = "record")]
pub mod collect;
pub mod command;
pub mod deaths;
pub mod explain;
#[cfg(all(any(test, fuzzing), feature = "stacks"))]
pub mod fuzz;
pub mod observe;
pub mod recording;
pub mod show;
pub mod slice;
#[cfg(test)]
mod tests;
