//! Lists the program and the libraries of a process.
//!
//! It finds the one at an address, and where its unwind table is.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use object::{
    LittleEndian as LE,
    elf::{PT_GNU_EH_FRAME, PT_LOAD},
};
use raytrace_proc::maps;

use super::{
    Bytes,
    elf::{self, Segment},
    u32_at,
};
use crate::{ids::Pid, path};

/// How much text of the mappings is read: some 20,000 of them.
const MAPS_BYTES: u64 = 2 << 20;
/// After this time the mappings are read again, because libraries come and go. For an address in
/// none of them, they are read again after the shorter time.
const STALE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_secs(2);
/// How many bytes of a library's name are reported.
const LONGEST_NAME: usize = 80;
/// No linker writes more program headers.
const MOST_HEADERS: u16 = 64;
/// The only form that is read: version 1; a pointer to `.eh_frame` of four bytes relative to
/// itself; a count of four bytes; entries of four bytes relative to the table's beginning.
const KNOWN_FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

/// Where the tables of a module are in its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tables {
    /// The offset from the addresses in its file to those in the process.
    pub(super) bias: u64,
    /// Its `.eh_frame_hdr`.
    pub(super) header: u64,
    /// The number of entries there.
    pub(super) count: u32,
}

/// A code range of one file.
#[derive(Debug, PartialEq, Eq)]
struct Code {
    start: u64,
    end: u64,
    /// The address of the file's first bytes.
    file: u64,
    path: String,
}

/// The modules of one process.
#[derive(Default)]
pub(super) struct Modules {
    code: Vec<Code>,
    /// The tables of each module, once they were found.
    tables: Vec<Option<Tables>>,
    read_at: Option<Instant>,
}

impl Modules {
    /// Reads the modules if the last time was long ago. Returns whether they have changed.
    pub(super) fn refresh(&mut self, pid: Pid, now: Instant) -> bool {
        self.read(pid, now, STALE)
    }

    /// Returns the number of the module at an address, and whether the modules were read again for
    /// it and have changed.
    pub(super) fn at(&mut self, pid: Pid, address: u64, now: Instant) -> Option<(usize, bool)> {
        if let Some(known) = self.find(address) {
            return Some((known, false));
        }
        let others = self.read(pid, now, AGAIN);
        Some((self.find(address)?, others))
    }

    fn find(&self, address: u64) -> Option<usize> {
        let after = self.code.partition_point(|code| code.start <= address);
        let at = after.checked_sub(1)?;
        (address < self.code[at].end).then_some(at)
    }

    fn read(&mut self, pid: Pid, now: Instant, age: Duration) -> bool {
        let is_known = |at: Instant| now.saturating_duration_since(at) < age;
        if self.read_at.is_some_and(is_known) {
            return false;
        }
        self.read_at = Some(now);
        let Ok(text) = maps::read(pid, MAPS_BYTES) else {
            return false;
        };
        let code = code(&text);
        if code == self.code {
            return false;
        }
        self.tables = vec![None; code.len()];
        self.code = code;
        true
    }

    /// Returns where its tables are.
    pub(super) fn tables(&mut self, module: usize, memory: &impl Bytes) -> Option<Tables> {
        let file = self.code.get(module)?.file;
        let known = self.tables.get_mut(module)?;
        if known.is_none() {
            *known = tables(memory, file);
        }
        *known
    }

    /// Returns the path of its file.
    pub(super) fn path(&self, module: usize) -> &Path {
        let path = self.code.get(module).map(|code| code.path.as_str());
        Path::new(path.unwrap_or_default())
    }

    /// Returns the name of its file.
    pub(super) fn library(&self, module: usize) -> String {
        let path = self.code.get(module).map(|code| code.path.as_str());
        let name = path::base(path.unwrap_or_default());
        let name = name.strip_suffix(" (deleted)").unwrap_or(name);
        name.chars().take(LONGEST_NAME).collect()
    }
}

/// Returns the executable mappings of files, in the order of addresses.
fn code(text: &str) -> Vec<Code> {
    let mut found = Vec::new();
    let mut first = None;
    for map in maps::parse(text).filter(|map| map.inode != 0) {
        let id = (map.device, map.inode);
        if map.offset == 0 {
            first = Some((id, map.start));
        }
        if let Some((_, file)) = first.filter(|(of, _)| map.executable && *of == id) {
            found.push(Code {
                start: map.start,
                end: map.end,
                file,
                path: map.name.to_owned(),
            });
        }
    }
    found
}

/// Finds the tables of the program or library whose first bytes are at `file`.
pub(super) fn tables(memory: &impl Bytes, file: u64) -> Option<Tables> {
    let head = elf::header(memory, file)?;
    let count = head.e_phnum.get(LE);
    if usize::from(head.e_phentsize.get(LE)) != size_of::<Segment>() || count > MOST_HEADERS {
        return None;
    }
    let at = file.checked_add(head.e_phoff.get(LE))?;
    let segments = memory.bytes(at, u64::from(count) * size_of::<Segment>() as u64)?;
    let (mut bias, mut header) = (None, None);
    for segment in elf::all::<Segment>(&segments) {
        let address = segment.p_vaddr.get(LE);
        match segment.p_type.get(LE) {
            PT_LOAD if segment.p_offset.get(LE) == 0 => bias = Some(file.wrapping_sub(address)),
            PT_GNU_EH_FRAME => header = Some(address),
            _ => {}
        }
    }
    let (bias, header) = (bias?, header?);
    let header = header.wrapping_add(bias);
    let head = memory.bytes(header, 12)?;
    head.starts_with(&KNOWN_FORM).then_some(Tables {
        bias,
        header,
        count: u32_at(&head, 8)?,
    })
}
