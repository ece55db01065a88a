//! Defines stacks of Python and native code, with the growth of their processes.

use serde::{Deserialize, Serialize};

use crate::ids::{Bytes, Pid, ProcessKey};

/// A stack, and how much its process grew under it. Consecutive readings of the same stack are one
/// row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The frames, the running one first; none where no stack was seen.
    pub frames: Vec<PythonFrame>,
    /// Why there are no frames; `None` where there are, and in earlier recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsampled: Option<Unsampled>,
    /// The native frames that the running Python frame called, the innermost first; empty where
    /// they were not taken. Where a thread without Python grew for it, these are the frames of that
    /// thread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub native: Vec<NativeFrame>,
}

/// One frame of a Python stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PythonFrame {
    /// The file as Python names it.
    pub file: String,
    /// The function. From Python 3.11 on, with its class.
    pub function: String,
    /// The line that runs; 0 where it could not be read.
    pub line: u32,
}

/// One frame of C or Rust.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NativeFrame {
    /// The file name of the library or program.
    pub library: String,
    /// The function, where the file names it.
    pub function: Option<String>,
}

/// Why growth has no stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Unsampled {
    /// The time for stacks was spent.
    NoTime,
    /// The line was over before its stack was read.
    TooShort,
    /// It grew too slowly for a stack to be read.
    TooSlow,
    /// Too many other lines grew within seconds.
    TooMany,
    /// The process's stacks cannot be read.
    Unreadable,
}
