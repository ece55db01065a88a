//! Stacks of Python and of what it called, with what their processes grew by.

use crate::ids::{Bytes, Pid, ProcessKey};

/// A stack with what its process grew by meanwhile. Looks at one stack that follow each other are one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonStack {
    /// The process.
    pub process: ProcessKey,
    /// The thread, as its own pid namespace numbers it; `None` where Python does not say.
    pub tid: Option<Pid>,
    /// What the process's private memory grew by while the thread was there.
    pub grown: Bytes,
    /// And what it touched of shared memory that is no file: the object store.
    pub shared: Bytes,
    /// The large mapping that the private memory is in, numbered from 0 in each process; `None` for all other memory.
    pub mapping: Option<u32>,
    /// Whether the frames of both kinds are those of this process's row before, and left out.
    pub repeats: bool,
    /// The frames, the running one first; none where the line was too short to sample.
    pub frames: Vec<PythonFrame>,
    /// What the running Python frame called, the innermost first; where a thread without Python grew for it, what that one ran. None where that was
    /// not taken.
    pub native: Vec<NativeFrame>,
}

/// One frame of a Python stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PythonFrame {
    /// The file as Python names it.
    pub file: String,
    /// The function, with its class from Python 3.11 on.
    pub function: String,
    /// The line that runs; 0 where it could not be read.
    pub line: u32,
}

/// One frame of C or Rust.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NativeFrame {
    /// The name of the library's or program's file.
    pub library: String,
    /// The function, where the file says it.
    pub function: Option<String>,
}
