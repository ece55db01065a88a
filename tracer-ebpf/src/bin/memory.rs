//! The eBPF object `memory`: what processes map, and how their resident memory changes.
//!
//! It is separate from `deaths` because it may fail to load on its own: no verdict needs it. The
//! steps in which resident memory changes matter near a limit. User space chooses the watched
//! processes, and removes the steps of a dead process from their map.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
#[path = "../memory/mod.rs"]
mod memory;
#[cfg(target_arch = "bpf")]
#[path = "../object.rs"]
mod object;
#[cfg(target_arch = "bpf")]
#[path = "../read.rs"]
mod read;

#[cfg(not(target_arch = "bpf"))]
fn main() {}
