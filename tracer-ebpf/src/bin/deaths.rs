//! The eBPF object `deaths`: signals, OOM kills, forks, execs, exits and new titles of processes.
//!
//! It needs BTF and the ring buffer, and nothing newer than Linux 5.8. All maps are preallocated.
//! Only tracked processes (Ray's processes and their descendants) are reported. A child inherits
//! the tracking at fork, in the kernel.
#![cfg_attr(target_arch = "bpf", no_std, no_main, feature(asm_experimental_arch))]

#[cfg(target_arch = "bpf")]
#[path = "../deaths/mod.rs"]
mod deaths;
#[cfg(target_arch = "bpf")]
#[path = "../object.rs"]
mod object;
#[cfg(target_arch = "bpf")]
#[path = "../read.rs"]
mod read;

#[cfg(not(target_arch = "bpf"))]
fn main() {}
