//! The pure half of raytrace: the types of events, the grammars of logs, and the judge.
//!
//! [`event`] defines what is observed. The grammars parse what Ray and the kernel print. The
//! [`judge`] concludes from both what ended each process.
//!
//! Nothing here opens a file, asks for the time or waits. Input arrives as text or as events.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what they have made")
)]

pub mod budget;
pub mod catalogue;
pub mod cgroup_path;
pub mod clause;
mod contract;
pub mod event;
pub mod ids;
pub mod judge;
pub mod kernel_log;
pub mod path;
pub mod phrase;
pub mod python;
pub mod ray;
#[cfg(feature = "schema")]
mod schema;
pub mod signals;
pub mod size;
