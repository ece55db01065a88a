//! Reads what the kernel shows of processes and cgroups: /proc, cgroup files, clocks, and records of processes that grow.
//!
//! All of it is foreign: reads are bounded ([`bounded`]), are not led elsewhere by links ([`rooted`]), and do not wait for what hangs
//! ([`timed_read`]). Nothing here decides what is looked at, or when.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what they have made")
)]

use raytrace_core::{cgroup_path, event, ids, ray};

pub mod bounded;
pub mod cgroup_namespace;
pub mod cgroups;
pub mod clock;
pub mod growth_records;
pub mod maps;
pub mod memory;
mod mounts;
pub mod pagemap;
pub mod processes;
pub mod read_errors;
pub mod resident_table;
pub mod rooted;
#[cfg(test)]
#[path = "../../src/skips.rs"]
mod skips;
pub mod timed_read;
pub mod users;
