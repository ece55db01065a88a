//! Reads structures of ELF files in foreign bytes: 64 bits, little-endian.
//!
//! The types are those of `object`. The bytes are read in pieces.

use object::{
    LittleEndian,
    elf::{FileHeader64, ProgramHeader64, SectionHeader64, Sym64},
    pod::{self, Pod},
};

use super::Bytes;

pub(super) type Header = FileHeader64<LittleEndian>;
pub(super) type Segment = ProgramHeader64<LittleEndian>;
pub(super) type Section = SectionHeader64<LittleEndian>;
pub(super) type Symbol = Sym64<LittleEndian>;

/// Reads the header of the file that begins at `at`.
pub(super) fn header(bytes: &impl Bytes, at: u64) -> Option<Header> {
    let head = bytes.bytes(at, size_of::<Header>() as u64)?;
    let (header, _) = pod::from_bytes::<Header>(&head).ok()?;
    head.starts_with(b"\x7fELF\x02\x01").then_some(*header)
}

/// Returns all complete structures of one kind in `bytes`.
pub(super) fn all<T: Pod>(bytes: &[u8]) -> &[T] {
    let whole = pod::slice_from_bytes(bytes, bytes.len() / size_of::<T>());
    whole.map_or(&[], |(all, _)| all)
}
