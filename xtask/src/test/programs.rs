//! The programs of tests that cargo builds, all in one go: with the same features each library is compiled once.

use std::{path::PathBuf, process::Command};

use anyhow::Result;
use serde::Deserialize;

use super::{home, skips};
use crate::{layout, process::output};

/// What cargo says of each thing that it has built; its other messages have other fields.
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
    /// The units of a library or program.
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
    /// The name of its file, without the ending, or of its library or program.
    pub(super) suite: String,
    /// Where its package lies: cargo runs it there.
    folder: PathBuf,
    path: PathBuf,
}

impl Program {
    /// `None` for what is no test.
    fn of(artifact: Artifact) -> Option<Self> {
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

    /// The command that runs it.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder);
        command.env("RAYTRACE_SKIPS", skips::list());
        command.env("HOME", home::of_tests());
        // Snapshots are found by cargo, and cargo by rustup.
        command.env("INSTA_WORKSPACE_ROOT", layout::root());
        command.envs(home::of_tools());
        command
    }
}

/// Builds every program of the workspace that is not there yet, `raytrace` with them.
pub(super) fn built() -> Result<Vec<Program>> {
    let mut build = Command::new("cargo");
    build.current_dir(layout::root());
    build.args(["test", "--workspace", "--all-targets", "--no-run"]);
    build.arg("--message-format=json-render-diagnostics");
    let messages = output(&mut build)?;
    let artifacts = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    Ok(artifacts.filter_map(Program::of).collect())
}
