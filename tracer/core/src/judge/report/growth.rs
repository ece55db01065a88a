//! Defines growth in a report: the lines of Python through which memory grew.

use serde::Serialize;

use crate::{
    event::Unsampled,
    ids::{Bytes, Pid},
    path,
};

/// The function name that stands for all lines of which no stack was seen.
pub const NOT_SAMPLED: &str = "(not sampled)";

/// What the processes of an actor class or task grew by, and through which lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Growth {
    /// Its recording; `None` in a report on a single one.
    pub recording_id: Option<u32>,
    /// Class or task name.
    pub class: String,
    /// Processes that grew.
    pub processes: u32,
    /// Private memory that they grew by, and shared memory that they touched.
    pub grown_bytes: Bytes,
    /// By line of the job's code, the largest first.
    pub lines: Vec<GrowthLine>,
    /// By function.
    pub functions: Vec<GrowthLine>,
    /// Growth of which no stack was seen, by reason, the largest first. Earlier recordings have no
    /// reasons.
    pub unsampled: Vec<UnsampledGrowth>,
}

/// Growth of which no stack was seen, for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnsampledGrowth {
    /// The reason.
    pub reason: Unsampled,
    /// How much grew.
    pub grown_bytes: Bytes,
}

/// One line or function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrowthLine {
    /// The file as Python names it.
    pub file: String,
    /// The line; `None` for a whole function.
    pub line: Option<u32>,
    /// The function.
    pub function: String,
    /// The line of the user's own code, else of the framework's, through which at least half of it
    /// came: `dp_actor.py:245 forward`. Set if `file` belongs to a library or a model.
    pub user_line: Option<String>,
    /// What the line called into, if that is a library: `numpy/core/numeric.py:330 full`.
    pub inside: Option<String>,
    /// The call in a library of C or Rust through which at least half of it was allocated:
    /// `libtorch_cpu.so: at::detail::empty_cpu`, or only the file's name if the file names no
    /// functions. `None` if that was not seen, or if only libraries of the system and of Python
    /// were called.
    pub native: Option<String>,
    /// How much it grew in all.
    pub grown_bytes: Bytes,
    /// The part of that which is shared memory that was touched: the object store. Whether it is
    /// still in use cannot be told from its processes.
    pub shared_bytes: Bytes,
    /// The part of the private memory that was still held at the ends of its processes or of the
    /// recording; `None` if that is not known.
    pub held_bytes: Option<Bytes>,
}

impl GrowthLine {
    /// Returns the place as `load.py:5 main`.
    #[must_use]
    pub fn place(&self) -> String {
        let number = self.line.unwrap_or_default();
        format!("{}:{number} {}", path::base(&self.file), self.function)
    }
}

/// Why the stacks of a process are not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnreadStacks {
    /// The process id.
    pub pid: Pid,
    /// The reason.
    pub reason: String,
}
