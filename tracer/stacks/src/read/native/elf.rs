//! The structures of program files, as `object` has them, in foreign bytes that are read in pieces: 64 bits, little-endian.

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

/// The header of the file whose first bytes lie at `at`.
pub(super) fn header(bytes: &impl Bytes, at: u64) -> Option<Header> {
    let head = bytes.bytes(at, size_of::<Header>() as u64)?;
    let (header, _) = pod::from_bytes::<Header>(&head).ok()?;
    head.starts_with(b"\x7fELF\x02\x01").then_some(*header)
}

/// As many of one kind as `bytes` hold whole.
pub(super) fn all<T: Pod>(bytes: &[u8]) -> &[T] {
    let whole = pod::slice_from_bytes(bytes, bytes.len() / size_of::<T>());
    whole.map_or(&[], |(all, _)| all)
}
