//! The eBPF object `memory`: what processes map, and near a limit the steps in which their resident memory moves.
//!
//! Apart from `deaths`, because it may fail alone: nothing here is needed for a verdict. Which processes are watched is told by
//! user space, which also takes the steps of a dead process out of their map.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
#[path = "../memory/mod.rs"]
mod memory;
#[cfg(target_arch = "bpf")]
#[path = "../read.rs"]
mod read;

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The licence that the kernel asks for: helpers that read kernel memory are GPL-only.
#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(not(target_arch = "bpf"))]
fn main() {}
