//! Defines growth in a report: the lines of Python through which memory grew.

use serde::Serialize;

use crate::{
    event::Unsampled,
    ids::{Bytes, Pid},
    path, python,
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrowthLine {
    /// The file as Python names it.
    pub file: String,
    /// The line; `None` for a whole function.
    pub line: Option<u32>,
    /// The function.
    pub function: String,
    /// The line of the user's own code, else of the framework's, through which at least half of it
    /// came: `dp_actor.py:245 forward`. Set if `file` belongs to a library or a model, or if another
    /// file of the user's called it.
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

/// The start of the names of Python's own code for imports.
const IMPORTS: &str = "<frozen importlib";
/// The function name of a module's own code.
const MODULE: &str = "<module>";

impl GrowthLine {
    /// Returns whether the line only imports a module, as each process of a job does when it starts.
    /// The code of a driver's script (`is_script`), and code that `exec` runs, is no import.
    pub(super) fn is_import(&self, is_script: bool) -> bool {
        let inside = self.inside.as_deref().unwrap_or_default();
        let runs = (is_script || self.is_executed()) && !inside.ends_with(MODULE);
        self.file.starts_with(IMPORTS)
            || inside.contains(IMPORTS)
            || self.function == MODULE && !runs
    }

    /// Returns whether `exec` or `eval` runs this code: it belongs to no file.
    pub fn is_executed(&self) -> bool {
        self.file.starts_with('<') && !self.file.starts_with("<frozen")
    }

    /// Returns the line in another file of the user's that called this one, which is the user's too.
    /// It gets what this one allocates.
    pub fn caller(&self) -> Option<&str> {
        // In a redacted report a file of a package has only the path inside it.
        let is_relative = !self.file.starts_with('/') && self.file.contains('/');
        let own = python::is_user_code(&self.file) && !is_relative;
        self.user_line.as_deref().filter(|_| own)
    }

    /// Returns the place as `load.py:5 main`; for code that `exec` runs, the line that runs it.
    pub fn place(&self) -> String {
        if let Some(line) = self.user_line.as_ref().filter(|_| self.is_executed()) {
            return line.clone();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(file: &str, function: &str, inside: Option<&str>) -> GrowthLine {
        GrowthLine {
            file: file.into(),
            line: Some(3),
            function: function.into(),
            user_line: (file == "<string>").then(|| "code_exec.py:4 run_program".into()),
            inside: inside.map(str::to_owned),
            native: None,
            grown_bytes: Bytes(1),
            shared_bytes: Bytes(0),
            held_bytes: None,
        }
    }

    #[test]
    fn script_and_executed_code_are_no_imports() {
        let script = line("/u/train.py", "<module>", None);
        assert!(!script.is_import(true));
        assert!(script.is_import(false));
        let executed = line("<string>", "<module>", None);
        assert!(!executed.is_import(false));
        assert_eq!(executed.place(), "code_exec.py:4 run_program");
        for inside in [
            "<frozen importlib._bootstrap>:241 f",
            "numpy/__init__.py:5 <module>",
        ] {
            assert!(line("/u/train.py", "<module>", Some(inside)).is_import(true));
        }
        assert!(line("<frozen importlib._bootstrap>", "f", None).is_import(false));
    }
}
