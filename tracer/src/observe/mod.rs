//! The observers: one file a source; each turns what it reads into observations and judges nothing.

pub mod clock;
pub mod clusters;
pub mod container;
pub mod host;
pub mod kernel;
pub mod kmsg;
pub mod memory;
pub mod processes;
pub mod ray_logs;
