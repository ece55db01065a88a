//! The compiled eBPF programs of raytrace, and the records that they share with user space.
//!
//! `records` is the interface: each struct is `repr(C)`, consists of plain integers and bytes, and
//! is valid for any bit pattern. The programs (`src/bin/`, `src/deaths/`, `src/memory/`) are
//! compiled only for the BPF target. User space loads the committed objects; a manifest beside them
//! has the hash of their sources.
#![cfg_attr(target_arch = "bpf", no_std)]

pub mod records;

/// Bytes with the alignment that ELF headers need.
#[cfg(not(target_arch = "bpf"))]
#[repr(C, align(16))]
struct Aligned<T: ?Sized>(T);

/// The compiled object `deaths`. It needs nothing newer than Linux 5.8.
#[cfg(not(target_arch = "bpf"))]
pub static DEATHS_OBJECT: &[u8] = {
    static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../object/deaths.o"));
    &OBJECT.0
};

/// The compiled object `memory`. It may fail to load where `deaths` loads.
#[cfg(not(target_arch = "bpf"))]
pub static MEMORY_OBJECT: &[u8] = {
    static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../object/memory.o"));
    &OBJECT.0
};

/// The source hash and the toolchain of the committed objects, as JSON.
#[cfg(not(target_arch = "bpf"))]
pub static MANIFEST: &str = include_str!("../object/manifest.json");
