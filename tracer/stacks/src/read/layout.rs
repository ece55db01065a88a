//! Lists the offsets of fields in Python's structures, by version.
//!
//! The structures are threads, frames, code objects and strings of 64-bit builds.
//!
//! Mirrors `CPython` 3.9 to 3.14 (`pystate.h`, `code.h`, `internal/pycore_frame.h`,
//! `unicodeobject.h`), as py-spy's bindings have them. With a build that has another layout (debug,
//! free-threaded), the addresses lead to memory that is no code object, which the reader notices.

use raytrace_ebpf::records::{self, NONE};

use crate::ids::ProcessKey;

/// How a code object maps instructions to lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineTable {
    /// `co_lnotab`, to 3.9.
    Lnotab,
    /// `co_linetable` of 3.10.
    Deltas,
    /// `co_linetable` from 3.11 on.
    Locations,
}

/// Offsets in one version.
#[derive(Debug)]
pub(super) struct Layout {
    /// In the interpreter: the pointer to the state of its first thread.
    threads: u64,
    /// In a thread's state: `thread_id`, the pointer to the frame, and the frame's offset in what
    /// that points to.
    thread: u32,
    frame: u32,
    inner: u32,
    /// In a frame.
    code: u32,
    previous: u32,
    instruction: u32,
    /// In a code object.
    pub(super) file: usize,
    pub(super) name: usize,
    pub(super) first_line: usize,
    pub(super) table: usize,
    /// Where the instructions begin; 0 where frames have an index.
    pub(super) instructions: u64,
    pub(super) lines: LineTable,
    /// Sizes of `PyASCIIObject` and `PyCompactUnicodeObject`.
    pub(super) ascii: u64,
    pub(super) compact: u64,
}

const OLD: Layout = Layout {
    threads: 8,
    thread: 176,
    frame: 24,
    inner: NONE,
    code: 32,
    previous: 24,
    instruction: 104,
    file: 104,
    name: 112,
    first_line: 40,
    table: 120,
    instructions: 0,
    lines: LineTable::Lnotab,
    ascii: 48,
    compact: 72,
};
const NEW: Layout = Layout {
    threads: 7344,
    thread: 152,
    frame: 72,
    inner: NONE,
    code: 0,
    previous: 8,
    instruction: 56,
    file: 112,
    name: 128,
    first_line: 68,
    table: 136,
    instructions: 200,
    lines: LineTable::Locations,
    ascii: 40,
    compact: 56,
};
static PYTHON_3_9: Layout = OLD;
static PYTHON_3_10: Layout = Layout {
    instruction: 96,
    lines: LineTable::Deltas,
    ..OLD
};
static PYTHON_3_11: Layout = Layout {
    threads: 16,
    frame: 56,
    inner: 8,
    code: 32,
    previous: 48,
    first_line: 72,
    instructions: 184,
    ascii: 48,
    compact: 72,
    ..NEW
};
static PYTHON_3_12: Layout = Layout {
    threads: 72,
    thread: 136,
    frame: 56,
    inner: 0,
    instructions: 192,
    ..NEW
};
static PYTHON_3_13: Layout = NEW;
static PYTHON_3_14: Layout = Layout {
    instructions: 208,
    ..NEW
};

impl Layout {
    /// Returns the layout of Python 3.`minor`.
    pub(super) fn of(minor: u64) -> Option<&'static Self> {
        match minor {
            9 => Some(&PYTHON_3_9),
            10 => Some(&PYTHON_3_10),
            11 => Some(&PYTHON_3_11),
            12 => Some(&PYTHON_3_12),
            13 => Some(&PYTHON_3_13),
            14 => Some(&PYTHON_3_14),
            _ => None,
        }
    }

    /// Returns what the kernel is told about a process whose interpreter is at `interpreter`.
    pub(super) fn located(&self, process: ProcessKey, interpreter: u64) -> records::Python {
        records::Python {
            start: process.start.0,
            threads: interpreter + self.threads,
            next: 8,
            thread: self.thread,
            frame: self.frame,
            inner: self.inner,
            code: self.code,
            previous: self.previous,
            instruction: self.instruction,
            reserved: 0,
        }
    }
}
