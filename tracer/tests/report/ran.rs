//! Runs raytrace as a program on a staged recording.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

pub(crate) struct Recording {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) file: PathBuf,
}

impl Recording {
    pub(crate) fn report(&self, arguments: &[&str]) -> Ran {
        let mut command = raytrace(self.folder.path());
        command.arg("report").arg(&self.file).args(arguments);
        Ran::of(&mut command)
    }
}

pub(crate) fn raytrace(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raytrace"));
    command
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE");
    command
}

/// The exit code and output of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(command: &mut Command) -> Self {
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().expect("raytrace runs");
        Self {
            code: status.code(),
            out: String::from_utf8(stdout).expect("UTF-8"),
            err: String::from_utf8(stderr).expect("UTF-8"),
        }
    }

    pub(crate) fn refused(&self, code: i32, says: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.out, "");
        for text in says {
            assert!(self.err.contains(text), "{text} in {}", self.err);
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).expect("JSON")
    }
}
