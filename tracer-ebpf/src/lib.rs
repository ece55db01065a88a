//! The eBPF programs of raytrace, compiled, and the records that they share with user space.
//!
//! `records` is the border: every struct is `repr(C)`, plain integers and bytes, and valid for any bit pattern. The programs
//! themselves (`src/bin/`, `src/deaths/`, `src/memory/`) are compiled for the BPF target alone; what user space loads is the
//! committed object, beside a manifest with the hash of its sources.
#![cfg_attr(target_arch = "bpf", no_std)]

pub mod records;

/// Bytes aligned as ELF headers need them.
#[cfg(not(target_arch = "bpf"))]
#[repr(C, align(16))]
struct Aligned<T: ?Sized>(T);

/// The compiled object `deaths`: needs nothing newer than Linux 5.8.
#[cfg(not(target_arch = "bpf"))]
pub static DEATHS_OBJECT: &[u8] = {
    static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../object/deaths.o"));
    &OBJECT.0
};

/// The compiled object `memory`: may fail to load where `deaths` does not.
#[cfg(not(target_arch = "bpf"))]
pub static MEMORY_OBJECT: &[u8] = {
    static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../object/memory.o"));
    &OBJECT.0
};

/// What the committed objects were built from: source hash and toolchain, as JSON.
#[cfg(not(target_arch = "bpf"))]
pub static MANIFEST: &str = include_str!("../object/manifest.json");
