//! Builds all programs of tests in one go.
//!
//! With the same features each library is compiled once.

use std::{path::PathBuf, process::Command};

use anyhow::Result;
use serde::Deserialize;

use super::{home, skips};
use crate::{
    layout,
    process::{cargo, output},
};

/// What cargo says about each artifact that it has built. Its other messages have other fields.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// What a program tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Unit tests of a library or program.
    Units,
    /// `raytrace`, and its eBPF part on this kernel.
    Program,
    /// `raytrace` on real Ray.
    EndToEnd,
}

/// A program of tests.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) kind: Kind,
    /// The name of its file without the ending, or of its library or program.
    pub(super) suite: String,
    /// The folder of its package, in which cargo runs it.
    folder: PathBuf,
    path: PathBuf,
}

impl Program {
    /// Returns `None` if the artifact is no test.
    fn from_artifact(artifact: Artifact) -> Option<Self> {
        let folder = artifact.manifest_path.parent()?.to_owned();
        let of_file = artifact.target.kind.iter().any(|kind| kind == "test");
        let kind = match (of_file, folder.ends_with("tests")) {
            (false, _) => Kind::Units,
            (true, false) => Kind::Program,
            (true, true) => Kind::EndToEnd,
        };
        Some(Self {
            kind,
            suite: artifact.target.name,
            folder,
            path: artifact.executable.filter(|_| artifact.profile.test)?,
        })
    }

    /// Returns the command that runs it.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder);
        command.env("RAYTRACE_SKIPS", skips::list());
        command.env("HOME", home::test_home());
        // insta finds snapshots through cargo, and cargo is found through rustup.
        command.env("INSTA_WORKSPACE_ROOT", layout::root());
        command.envs(home::tool_homes());
        command
    }
}

/// Builds every program of the workspace that is not built yet, `raytrace` among them.
pub(super) fn build_all() -> Result<Vec<Program>> {
    let mut build = cargo("test");
    build.args(["--workspace", "--all-targets", "--no-run"]);
    build.arg("--message-format=json-render-diagnostics");
    let messages = output(&mut build)?;
    let artifacts = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    Ok(artifacts.filter_map(Program::from_artifact).collect())
}
