//! Finds which lines of Python, and which functions they call, grow the memory of a process.
//!
//! [`Reader`] reads stacks from outside. [`Stacks`] is the thread that watches processes grow and
//! reports under which stack each grew, as [`event::Observation`]s. The caller writes them, and
//! sets up the eBPF programs.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what they have made")
)]

use raytrace_core::{event, ids, path, python};

#[cfg(test)]
#[path = "../../src/tests/damage.rs"]
#[allow(dead_code, reason = "texts are damaged in more ways than programs")]
mod damage;
mod grow;
mod read;
#[cfg(test)]
#[path = "../../src/tests/skips.rs"]
mod skips;

pub use grow::{Interpreters, Kernel, Stacks};
pub use read::{Python, Reader, Stack, StackError, is_python, look_through};
