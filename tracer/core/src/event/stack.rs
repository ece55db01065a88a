//! Defines stacks of Python and native code, with the growth of their processes.

use crate::ids::{Bytes, Pid, ProcessKey};

/// A stack, and how much its process grew under it. Consecutive readings of the same stack are one
/// row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonStack {
    /// The process.
    pub process: ProcessKey,
    /// The thread's id in its own pid namespace; `None` where Python does not say.
    pub tid: Option<Pid>,
    /// How much the process's private memory grew while the thread was there.
    pub grown: Bytes,
    /// How much shared memory without a file it touched: the object store.
    pub shared: Bytes,
    /// The large mapping that holds the private memory, numbered from 0 in each process; `None` for
    /// all other memory.
    pub mapping: Option<u32>,
    /// Whether both kinds of frames are the same as in this process's previous row, and so are left
    /// out.
    pub repeats: bool,
    /// The frames, the running one first; none where the line was too short to sample.
    pub frames: Vec<PythonFrame>,
    /// The native frames that the running Python frame called, the innermost first; empty where
    /// they were not taken. Where a thread without Python grew for it, these are the frames of that
    /// thread.
    pub native: Vec<NativeFrame>,
}

/// One frame of a Python stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PythonFrame {
    /// The file as Python names it.
    pub file: String,
    /// The function. From Python 3.11 on, with its class.
    pub function: String,
    /// The line that runs; 0 where it could not be read.
    pub line: u32,
}

/// One frame of C or Rust.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NativeFrame {
    /// The file name of the library or program.
    pub library: String,
    /// The function, where the file names it.
    pub function: Option<String>,
}
