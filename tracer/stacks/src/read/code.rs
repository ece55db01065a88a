//! Reads file, function and line of Python frames from the addresses of their code objects.
//!
//! They are read after the frame was taken. A code object stays in its place while anything can run
//! it. Other memory (the placeholder of an entry frame, memory that was reused) is recognized by
//! the name of its type, and is no frame.

use std::fs::File;

use raytrace_ebpf::records;

use super::{
    frame::frame,
    layout::{Layout, LineTable},
    native::Bytes,
};
use crate::{event::PythonFrame, ids::Pid};

/// How many bytes of a code object are read.
const CODE: usize = 144;
/// Longer strings and tables are refused.
const LONGEST_NAME: u64 = 2048;
const LONGEST_TABLE: u64 = 1 << 16;
/// Offsets: of the type in every object, and of the name in a type.
const TYPE: usize = 8;
const TYPE_NAME: u64 = 24;

/// A process's memory. The file belongs to the address space at the moment it was opened, never to
/// a later process with the same pid.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    pub(super) fn open(pid: Pid) -> std::io::Result<Self> {
        Ok(Self(File::open(format!("/proc/{pid}/mem"))?))
    }

    /// Reads what a frame's code object refers to.
    fn head(&self, layout: &Layout, of: records::PythonFrame) -> Option<Head> {
        let code = self.bytes(address(of), CODE as u64)?;
        Some(Head {
            of_type: word(&code, TYPE)?,
            file: word(&code, layout.file)?,
            name: word(&code, layout.name)?,
            table: word(&code, layout.table)?,
            first_line: u32::try_from(word(&code, layout.first_line)? & 0xffff_ffff).ok()?,
        })
    }

    /// Reads the frame; `None` if it is not Python code.
    fn frame(&self, layout: &Layout, of: records::PythonFrame, head: Head) -> Option<PythonFrame> {
        self.is_code(head.of_type).then_some(())?;
        let file = self.string(layout, head.file)?;
        if file.is_empty() || file.starts_with("<shim") {
            return None;
        }
        let table = self.table(head.table);
        let at = match layout.instructions {
            // An `int`. What follows it in memory is something else.
            0 => (of.instruction & 0xffff_ffff).cast_signed(),
            begin => of
                .instruction
                .wrapping_sub(address(of) + begin)
                .cast_signed(),
        };
        let line = table.and_then(|table| line(layout.lines, &table, head.first_line, at));
        let function = self.string(layout, head.name)?;
        Some(frame(&file, &function, line.unwrap_or(0)))
    }

    fn is_code(&self, of_type: u64) -> bool {
        let name = self.bytes(of_type.wrapping_add(TYPE_NAME), 8);
        let name = name.and_then(|name| word(&name, 0));
        name.and_then(|name| self.bytes(name, 5)).as_deref() == Some(b"code\0")
    }

    /// Reads a `PyUnicodeObject`.
    fn string(&self, layout: &Layout, address: u64) -> Option<String> {
        let head = self.bytes(address, 40)?;
        let (length, state) = (word(&head, 16)?, word(&head, 32)?);
        let (kind, compact, ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        if length > LONGEST_NAME {
            return None;
        }
        let begin = match (compact, ascii) {
            (true, true) => address + layout.ascii,
            (true, false) => address + layout.compact,
            (false, _) => word(&self.bytes(address + layout.compact, 8)?, 0)?,
        };
        let bytes = self.bytes(begin, length * kind)?;
        let units = bytes.chunks_exact(usize::try_from(kind).ok().filter(|kind| *kind > 0)?);
        let wide = |unit: &[u8]| {
            unit.iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
        };
        // No kind is UTF-16: each unit is a character.
        units.map(|unit| char::from_u32(wide(unit))).collect()
    }

    /// Reads a `PyBytesObject`.
    fn table(&self, address: u64) -> Option<Vec<u8>> {
        let length = word(&self.bytes(address + 16, 8)?, 0)?;
        (length <= LONGEST_TABLE)
            .then(|| self.bytes(address + 32, length))
            .flatten()
    }
}

/// What a code object refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    of_type: u64,
    file: u64,
    name: u64,
    table: u64,
    first_line: u32,
}

/// A frame that was read, and its code object at that time.
#[derive(Debug)]
struct Known {
    at: records::PythonFrame,
    head: Head,
    frame: Option<PythonFrame>,
}

/// The frames of the stack that was read last. While a line grows, most frames of its next stack
/// are the same. Reading one anew takes eight reads of the process's memory, and one read shows
/// that it is the same.
#[derive(Debug, Default)]
pub(super) struct LastFrames(Vec<Known>);

impl LastFrames {
    /// Reads the frames of a stack, without those that are not Python code.
    pub(super) fn read(
        &mut self,
        memory: &Memory,
        layout: &Layout,
        stack: &[records::PythonFrame],
    ) -> Vec<PythonFrame> {
        let read = |at: &records::PythonFrame| {
            let head = memory.head(layout, *at)?;
            let is_it = |known: &&Known| {
                (known.at.code, known.at.instruction) == (at.code, at.instruction)
                    && known.head == head
            };
            let known = self.0.iter().find(is_it);
            let frame = known.map_or_else(
                || memory.frame(layout, *at, head),
                |known| known.frame.clone(),
            );
            Some(Known {
                at: *at,
                head,
                frame,
            })
        };
        self.0 = stack.iter().filter_map(read).collect();
        let frames = self.0.iter();
        frames.filter_map(|known| known.frame.clone()).collect()
    }
}

impl Bytes for Memory {
    fn bytes(&self, at: u64, length: u64) -> Option<Vec<u8>> {
        self.0.bytes(at, length)
    }
}

/// Returns where the code object is. The low bits are a tag (3.14).
fn address(of: records::PythonFrame) -> u64 {
    of.code & !7
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Returns the line of the instruction `at`.
fn line(kind: LineTable, table: &[u8], first: u32, at: i64) -> Option<u32> {
    let line = match kind {
        LineTable::Lnotab => lnotab(table, first, at),
        LineTable::Deltas => deltas(table, first, at * 2),
        LineTable::Locations => locations(table, first, at),
    };
    u32::try_from(line).ok()
}

/// Decodes `Objects/lnotab_notes.txt` of 3.9.
fn lnotab(table: &[u8], first: u32, at: i64) -> i64 {
    let (mut line, mut address) = (i64::from(first), 0);
    for pair in table.chunks_exact(2) {
        address += i64::from(pair[0]);
        if address > at {
            break;
        }
        line += i64::from(pair[1].cast_signed());
    }
    line
}

/// Decodes `Objects/lnotab_notes.txt` of 3.10.
fn deltas(table: &[u8], first: u32, at: i64) -> i64 {
    let (mut line, mut address) = (i64::from(first), 0);
    for pair in table.chunks_exact(2).filter(|pair| pair[1] != 0x80) {
        line += i64::from(pair[1].cast_signed());
        address += i64::from(pair[0]);
        if address > at {
            break;
        }
    }
    line
}

/// Decodes `Objects/locations.md` of 3.11 and later.
fn locations(table: &[u8], first: u32, at: i64) -> i64 {
    let (mut line, mut address) = (i64::from(first), 0);
    let mut bytes = table.iter().copied();
    while let Some(entry) = bytes.next() {
        address += i64::from((entry & 7) + 1) * 2;
        // A table that a job has made may contain anything.
        let by = match entry >> 3 & 15 {
            15 => 0,
            14 => {
                let delta = signed(&mut bytes);
                for _ in 0..3 {
                    number(&mut bytes);
                }
                delta
            }
            13 => signed(&mut bytes),
            code @ 10..=12 => {
                bytes.nth(1);
                i64::from(code - 10)
            }
            _ => {
                bytes.next();
                0
            }
        };
        line = line.wrapping_add(by);
        if address > at {
            break;
        }
    }
    line
}

fn number(bytes: &mut impl Iterator<Item = u8>) -> i64 {
    let (mut sum, mut shift) = (0, 0);
    for byte in bytes {
        sum |= i64::from(byte & 63) << shift;
        shift = (shift + 6).min(56);
        if byte & 64 == 0 {
            break;
        }
    }
    sum
}

fn signed(bytes: &mut impl Iterator<Item = u8>) -> i64 {
    match number(bytes) {
        odd if odd & 1 == 1 => -(odd >> 1),
        even => even >> 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(object: &mut [u8], at: usize, what: u64) {
        object[at..at + 8].copy_from_slice(&what.to_le_bytes());
    }

    fn address_of(object: &[u8]) -> u64 {
        object.as_ptr() as u64
    }

    /// Returns a `PyUnicodeObject` of ASCII characters.
    fn unicode(layout: &Layout, text: &str) -> Vec<u8> {
        let mut object = vec![0; usize::try_from(layout.ascii).expect("a size")];
        put(&mut object, 16, text.len() as u64);
        put(&mut object, 32, 1 << 2 | 1 << 5 | 1 << 6);
        object.extend(text.as_bytes());
        object
    }

    /// Another code object may lie where one was freed.
    #[test]
    fn other_code_at_the_same_address_is_read_again() {
        let layout = Layout::of(11).expect("a layout");
        let memory = Memory::open(Pid(std::process::id())).expect("own memory");
        let names = ["/u/a.py", "f", "g"].map(|text| unicode(layout, text));
        let (type_name, table) = (*b"code\0\0\0\0", [0; 64]);
        let mut of_type = vec![0; 40];
        put(&mut of_type, 24, address_of(&type_name));
        let mut code = vec![0; 256];
        put(&mut code, TYPE, address_of(&of_type));
        put(&mut code, layout.file, address_of(&names[0]));
        put(&mut code, layout.table, address_of(&table));
        let at = records::PythonFrame {
            code: address_of(&code),
            instruction: address_of(&code) + layout.instructions,
        };
        let mut last = LastFrames::default();
        let mut read = |code: &mut Vec<u8>, name: &[u8], line| {
            put(code, layout.name, address_of(name));
            put(code, layout.first_line, line);
            let frames = last.read(&memory, layout, &[at]);
            let frames = frames.into_iter();
            let frames = frames.map(|frame| (frame.function, frame.line));
            frames.collect::<Vec<(String, u32)>>()
        };
        let at = |function: &str, line| vec![(function.to_owned(), line)];
        assert_eq!(read(&mut code, &names[1], 7), at("f", 7));
        assert_eq!(read(&mut code, &names[1], 7), at("f", 7));
        assert_eq!(read(&mut code, &names[2], 7), at("g", 7));
        assert_eq!(read(&mut code, &names[2], 9), at("g", 9));
        assert_eq!(read(&mut code, &[], 9), []);
    }
}
