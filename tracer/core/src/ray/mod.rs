//! Facts about Ray: its log formats by version, its processes and sessions. Pure.

pub mod facts;
pub mod framework;
pub mod gcs;
pub mod identify;
pub mod knobs;
pub mod log;
pub mod memory_monitor;
pub mod role;
pub mod start;
pub(crate) mod stopping;
pub mod tool;
pub mod torch;
pub mod tree;
pub mod version;
pub mod words;
