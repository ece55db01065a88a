//! The observers: one file a source; each turns what it reads into observations and judges nothing.

pub mod container;
pub mod kernel;
