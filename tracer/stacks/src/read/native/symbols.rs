//! The symbol table of a program or library, gone through once in pieces for some addresses and never held.
//!
//! Mirrors `elf.h`, 64 bits. The file may be a job's own: it may be cut or written while it is read, and say anything.

use super::{Bytes, u16_at, u32_at, u64_at};

/// Larger tables are not gone through: a million symbols take 10 ms.
const LARGEST: u64 = 24 << 20;
/// More sections no linker writes; they are 64 bytes each.
const MOST_SECTIONS: u16 = 4096;
const SECTION: usize = 64;
const SYMBOL: usize = 24;
/// What is read at once: a whole number of symbols.
const PIECE: u64 = SYMBOL as u64 * 2730;
/// Symbols of one address of which the best name is taken.
const MOST_ALIASES: usize = 8;
/// Longer names are not read whole.
const LONGEST_NAME: u64 = 2048;

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;

/// A table of symbols and its names.
struct Table {
    at: u64,
    bytes: u64,
    names: u64,
    names_bytes: u64,
}

/// The names of the functions around `addresses`, which are sorted: in the same order, as the file has them.
pub(super) fn names(file: &impl Bytes, addresses: &[u64]) -> Vec<Option<String>> {
    let mut found: Vec<Vec<u64>> = vec![Vec::new(); addresses.len()];
    let Some(table) = table(file) else {
        return vec![None; addresses.len()];
    };
    let mut done = 0;
    while done < table.bytes {
        let length = PIECE.min(table.bytes - done);
        let piece = table
            .at
            .checked_add(done)
            .and_then(|at| file.bytes(at, length));
        let Some(piece) = piece else { break };
        for symbol in piece.chunks_exact(SYMBOL) {
            take(symbol, addresses, &mut found);
        }
        done += length;
    }
    found
        .iter()
        .map(|aliases| best(aliases.iter().filter_map(|at| name(file, &table, *at))))
        .collect()
}

/// The full table where there is one, else that of what is exported.
fn table(file: &impl Bytes) -> Option<Table> {
    let head = file.bytes(0, 64)?;
    if !head.starts_with(b"\x7fELF\x02\x01") || usize::from(u16_at(&head, 58)?) != SECTION {
        return None;
    }
    let count = u16_at(&head, 60).filter(|count| *count <= MOST_SECTIONS)?;
    let sections = file.bytes(u64_at(&head, 40)?, u64::from(count) * SECTION as u64)?;
    let section = |number: usize| sections.chunks_exact(SECTION).nth(number);
    let of_kind = |kind: u32| {
        let mut all = sections.chunks_exact(SECTION);
        let found = all.find(|section| u32_at(section, 4) == Some(kind))?;
        let names = section(u32_at(found, 40)? as usize)?;
        let table = Table {
            at: u64_at(found, 24)?,
            bytes: u64_at(found, 32)?,
            names: u64_at(names, 24)?,
            names_bytes: u64_at(names, 32)?,
        };
        (table.bytes > 0 && table.bytes <= LARGEST).then_some(table)
    };
    of_kind(SHT_SYMTAB).or_else(|| of_kind(SHT_DYNSYM))
}

/// Notes a symbol with those addresses that it covers.
fn take(symbol: &[u8], addresses: &[u64], found: &mut [Vec<u64>]) {
    let fields = || {
        let kind = symbol.get(4)? & 15;
        let is_function = matches!(kind, STT_FUNC | STT_GNU_IFUNC) && u16_at(symbol, 6)? != 0;
        let name = u64::from(u32_at(symbol, 0)?);
        is_function.then_some((name, u64_at(symbol, 8)?, u64_at(symbol, 16)?))
    };
    let Some((name, begin, size)) = fields() else {
        return;
    };
    let first = addresses.partition_point(|address| *address < begin);
    let covered = addresses[first..]
        .iter()
        .take_while(|address| **address - begin < size);
    let aliases = found[first..].iter_mut().take(covered.count());
    for aliases in aliases.filter(|aliases| aliases.len() < MOST_ALIASES) {
        aliases.push(name);
    }
}

fn name(file: &impl Bytes, table: &Table, at: u64) -> Option<String> {
    let left = table.names_bytes.checked_sub(at)?;
    let bytes = file.bytes(table.names.checked_add(at)?, left.min(LONGEST_NAME))?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let name = str::from_utf8(&bytes[..end]).ok()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// `malloc` rather than `__libc_malloc`.
fn best(names: impl Iterator<Item = String>) -> Option<String> {
    names.min_by_key(|name| {
        let underscores = name.bytes().take_while(|byte| *byte == b'_').count();
        (underscores, name.len())
    })
}
