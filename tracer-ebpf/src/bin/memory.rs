//! The eBPF object `memory`: what processes map, and near a limit the steps in which their resident memory moves.
//!
//! Apart from `deaths`, because it may fail alone: nothing here is needed for a verdict. Which processes are watched is told by
//! user space, which also takes the steps of a dead process out of their map.
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
