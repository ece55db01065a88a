//! Makes virtual environments of Python below `target/`.
//!
//! Each is marked with what was installed, so that an environment that lacks a package gets it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::apt;
use crate::{
    layout,
    process::{output, print_not_needed, run_quietly, succeeds},
};

/// Makes `folder` an environment with these packages, unless it is one already.
pub(super) fn install(folder: &Path, packages: &[String]) -> Result<()> {
    let mark = folder.join("installed");
    let wanted = packages.join(" ");
    let marked = fs::read_to_string(&mark).ok();
    if marked.as_deref() == Some(wanted.as_str()) {
        print_not_needed("marked as installed");
        return Ok(());
    }
    if marked.is_none() {
        run_quietly(
            Command::new(python()?)
                .args(["-m", "venv", "--clear"])
                .arg(folder),
        )?;
    }
    pip(folder, packages)?;
    fs::write(&mark, wanted).with_context(|| format!("cannot write {}", mark.display()))
}

/// Makes `folder` an environment with the newest versions of these packages, whatever it had
/// before.
pub(super) fn upgrade(folder: &Path, packages: &[String]) -> Result<()> {
    install(folder, packages)?;
    let mut arguments = vec!["--upgrade".to_owned()];
    arguments.extend_from_slice(packages);
    pip(folder, &arguments)
}

fn pip(folder: &Path, arguments: &[String]) -> Result<()> {
    run_quietly(
        Command::new(folder.join("bin/pip"))
            .args(["install", "--no-input", "--disable-pip-version-check"])
            .args(arguments)
            .env("PIP_CACHE_DIR", layout::target().join("pip")),
    )
}

const PROBE: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))";

/// Returns a Python 3.11 that can make virtual environments. It installs Debian 12's own if there
/// is no other.
fn python() -> Result<PathBuf> {
    for name in ["python3.11", "python3", "/usr/bin/python3"] {
        if succeeds(Command::new(name).args(["-c", PROBE])) {
            return Ok(name.into());
        }
    }
    apt::install(&["python3", "python3-venv"])?;
    let system = "/usr/bin/python3";
    if !succeeds(Command::new(system).args(["-c", PROBE])) {
        let found = output(Command::new(system).arg("--version"))?;
        bail!(
            "Ray 2.9 needs Python 3.11, and {system} is {}; install python3.11 with its venv",
            found.trim()
        );
    }
    Ok(system.into())
}
