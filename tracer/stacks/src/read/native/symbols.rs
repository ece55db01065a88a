//! Searches the symbol table of a program or library for some addresses.
//!
//! The table is read once, in pieces, and never held. The file may belong to a job: it may be
//! truncated or written while it is read, and may contain anything.

use object::{
    LittleEndian as LE,
    elf::{SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC},
};

use super::{
    Bytes,
    elf::{self, Section, Symbol},
};

/// Larger tables are not searched: a million symbols take 10 ms.
const LARGEST: u64 = 24 << 20;
/// No linker writes more sections. Each has 64 bytes.
const MOST_SECTIONS: u16 = 4096;
/// How much is read at once: a whole number of symbols.
const PIECE: u64 = size_of::<Symbol>() as u64 * 2730;
/// For how many symbols at one address the name is compared.
const MOST_ALIASES: usize = 8;
/// How many bytes of a name are read. A longer name is ignored.
const LONGEST_NAME: u64 = 2048;

/// A table of symbols and its names.
struct Table {
    at: u64,
    bytes: u64,
    names: u64,
    names_bytes: u64,
}

/// Returns the names of the functions around `addresses`, which are sorted: in the same order, as
/// the file has them.
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
        for symbol in elf::all(&piece) {
            take(symbol, addresses, &mut found);
        }
        done += length;
    }
    found
        .iter()
        .map(|aliases| best(aliases.iter().filter_map(|at| name(file, &table, *at))))
        .collect()
}

/// Returns the full table where there is one, else the table of exported symbols.
fn table(file: &impl Bytes) -> Option<Table> {
    let head = elf::header(file, 0)?;
    let count = head.e_shnum.get(LE);
    if usize::from(head.e_shentsize.get(LE)) != size_of::<Section>() || count > MOST_SECTIONS {
        return None;
    }
    let bytes = u64::from(count) * size_of::<Section>() as u64;
    let sections = file.bytes(head.e_shoff.get(LE), bytes)?;
    let sections: &[Section] = elf::all(&sections);
    let of_kind = |kind: u32| {
        let mut all = sections.iter();
        let found = all.find(|section| section.sh_type.get(LE) == kind)?;
        let names = sections.get(found.sh_link.get(LE) as usize)?;
        let table = Table {
            at: found.sh_offset.get(LE),
            bytes: found.sh_size.get(LE),
            names: names.sh_offset.get(LE),
            names_bytes: names.sh_size.get(LE),
        };
        (table.bytes > 0 && table.bytes <= LARGEST).then_some(table)
    };
    of_kind(SHT_SYMTAB).or_else(|| of_kind(SHT_DYNSYM))
}

/// Adds a symbol to those addresses that it covers.
fn take(symbol: &Symbol, addresses: &[u64], found: &mut [Vec<u64>]) {
    let is_function = matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC);
    if !is_function || symbol.st_shndx.get(LE) == SHN_UNDEF {
        return;
    }
    let name = u64::from(symbol.st_name.get(LE));
    let (begin, size) = (symbol.st_value.get(LE), symbol.st_size.get(LE));
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

/// Chooses the best name: `malloc` rather than `__libc_malloc`.
fn best(names: impl Iterator<Item = String>) -> Option<String> {
    names.min_by_key(|name| {
        let underscores = name.bytes().take_while(|byte| *byte == b'_').count();
        (underscores, name.len())
    })
}
