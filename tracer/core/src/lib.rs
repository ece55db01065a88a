//! The pure half of raytrace: what is observed as data ([`event`]), the grammars of what Ray and the kernel print, and the [`judge`]
//! that says from both who ended each process.
//!
//! Nothing here opens a file, asks for the time or waits: what is read comes in as text or as events.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what they have made")
)]

pub mod cgroup_path;
pub mod clause;
mod contract;
pub mod event;
pub mod ids;
pub mod judge;
pub mod kernel_log;
pub mod path;
pub mod python;
pub mod ray;
pub mod signals;
pub mod size;
