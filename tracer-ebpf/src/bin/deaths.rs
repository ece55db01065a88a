//! The eBPF object `deaths`: who signals, who is chosen by the OOM killer, who forks, execs and exits.
//!
//! Needs BTF and the ring buffer, nothing newer than Linux 5.8. All maps are preallocated. Only tracked processes (Ray's and
//! their descendants) are reported; the tracked set is inherited at fork, in the kernel.
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
