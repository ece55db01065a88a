//! Reads a program's symbols, `.bss` and `.PyRuntime` from its file, for py-spy.
//!
//! Their addresses are those in a process that runs the program. The file may belong to a job,
//! which can truncate it while it is read. So it is read in parts and never mapped: a truncated
//! file is an error and not a SIGBUS.

use std::{collections::HashMap, fs::File};

use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ReadCache,
    SectionKind, SegmentFlags, elf::PF_X, read::elf::ElfFile64,
};
use py_spy::binary_parser::BinaryInfo;

use super::StackError;

/// A larger file is not a Python: its tables would have to be held.
const LARGEST: u64 = 256 << 20;
/// How many bytes of names are read. A Python has some 20,000 symbols.
const MOST_OF_NAMES: usize = 16 << 20;
/// A larger `.bss` or `.PyRuntime` is not searched: py-spy copies it whole. Those of a Python have
/// some 100 KiB.
const LARGEST_SECTION: u64 = 32 << 20;

/// Finds the symbols `wanted` of a program whose executable part is mapped at `start` with `size`
/// bytes.
pub(super) fn parse(
    file: File,
    (start, size): (u64, u64),
    wanted: &[&str],
) -> Result<BinaryInfo, StackError> {
    let length = file.metadata()?.len();
    if length > LARGEST {
        let text = format!("its program file has {length} bytes, more than any Python");
        return Err(StackError::Open(text));
    }
    let cache = ReadCache::new(file);
    let elf = ElfFile64::<Endianness, _>::parse(&cache)
        .map_err(|error| StackError::Open(format!("its program file: {error}")))?;
    let is_code = |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & PF_X != 0);
    let mut segments = elf.segments();
    let code = segments.find(|segment| is_code(segment.flags()));
    let code = code.ok_or_else(|| StackError::Open("its program file has no code".into()))?;
    let page = rustix::param::page_size() as u64;
    let base = start.wrapping_sub(code.address() / page * page);
    let here = |address: u64| address.wrapping_add(base);
    let bss = elf
        .sections()
        .filter(|section| section.kind() == SectionKind::UninitializedData)
        .map(|section| (here(section.address()), section.size()))
        .filter(|(_, size)| *size <= LARGEST_SECTION)
        .max_by_key(|(_, size)| *size);
    let runtime = elf.section_by_name(".PyRuntime");
    let runtime = runtime
        .map(|section| (here(section.address()), section.size()))
        .filter(|(_, size)| *size <= LARGEST_SECTION);
    let mut symbols = HashMap::new();
    let mut read = 0;
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        let Ok(name) = symbol.name() else { continue };
        // The file's reader keeps each name that was read.
        read += name.len();
        if read > MOST_OF_NAMES {
            break;
        }
        if wanted.contains(&name) && !symbol.is_undefined() {
            symbols.insert(name.to_owned(), here(symbol.address()));
        }
    }
    let ((bss_addr, bss_size), (pyruntime_addr, pyruntime_size)) =
        (bss.unwrap_or_default(), runtime.unwrap_or_default());
    Ok(BinaryInfo {
        symbols,
        bss_addr,
        bss_size,
        pyruntime_addr,
        pyruntime_size,
        addr: start,
        size,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("bytes");
        file.rewind().expect("a start");
        file
    }

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").expect("this program")
    }

    #[test]
    fn symbols_move_with_the_mapped_code() {
        let found = parse(file(&own()), (0x5500_0000_0000, 1 << 20), &["main"]);
        let found = found.expect("a program");
        assert!(
            found.symbols["main"] > 0x5400_0000_0000,
            "{:?}",
            found.symbols
        );
        assert!(found.bss_size > 0);
        assert_eq!(found.pyruntime_addr, 0);
    }

    /// A damaged file is an error or has fewer symbols.
    #[test]
    fn damaged_files_never_panic() {
        let whole = own();
        for round in 0..60_usize {
            let mut bytes = whole[..(1 << 16) - round * 1009].to_vec();
            for (at, byte) in bytes.iter_mut().enumerate().take(1024) {
                if (at * 7 + round * 13) % 41 == 0 {
                    *byte ^= u8::try_from(round * 4 + 1).unwrap_or(1);
                }
            }
            let _any = parse(file(&bytes), (0x5500_0000_0000, 1 << 20), &["main"]);
        }
        assert!(parse(file(b"#!/bin/sh\n"), (0, 0), &[]).is_err());
    }
}
