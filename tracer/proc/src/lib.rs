//! Reads what the kernel shows about processes and cgroups.
//!
//! The sources are /proc, cgroup files, clocks, and records about processes that grow.
//!
//! All of this is foreign input. Reads are bounded ([`bounded`]), links cannot lead them elsewhere
//! ([`rooted`]), and they do not wait for a file that hangs ([`timed_read`]). Nothing here decides
//! what is read, or when.

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
#[path = "../../src/tests/skips.rs"]
mod skips;
pub mod timed_read;
pub mod users;
