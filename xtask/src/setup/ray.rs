//! Ray, each version in a virtual environment of its own under `target/ray`.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use super::apt;
use crate::{
    layout,
    process::{already, run_quietly, step, succeeds},
};

/// A version of Ray and what pip must be told beside it.
pub(crate) struct RayVersion {
    /// The version.
    pub(crate) version: &'static str,
    /// Packages that its own metadata leaves too open.
    with: &'static [&'static str],
}

/// What the tests run on: the newest first.
pub(crate) const VERSIONS: [RayVersion; 3] = [
    RayVersion {
        version: "2.60.0",
        with: &[],
    },
    RayVersion {
        version: "2.51.1",
        with: &[],
    },
    // 2.9.3 imports pkg_resources and was built against numpy 1.
    RayVersion {
        version: "2.9.3",
        with: &["numpy<2", "setuptools<81", "pydantic<2.10", "click<8.2"],
    },
];

/// Installs one Ray, unless `ray --version` there already answers.
pub(crate) fn install(ray: &RayVersion) -> Result<()> {
    let name = format!("Ray {} in target/ray/{0}", ray.version);
    step(&name, || {
        let folder = layout::ray(ray.version);
        let done = folder.join("installed");
        if done.exists() {
            already("marked as installed");
            return Ok(());
        }
        let python = python()?;
        run_quietly(
            Command::new(python)
                .args(["-m", "venv", "--clear"])
                .arg(&folder),
        )?;
        run_quietly(
            Command::new(folder.join("bin/pip"))
                .args(["install", "--no-input", "--disable-pip-version-check"])
                .arg(format!("ray[default]=={}", ray.version))
                .args(ray.with),
        )?;
        run_quietly(Command::new(folder.join("bin/ray")).arg("--version"))?;
        std::fs::write(&done, "").with_context(|| format!("cannot write {}", done.display()))
    })
}

/// A Python 3.11 that can make virtual environments; Debian 12's own where there is no other.
pub(super) fn python() -> Result<PathBuf> {
    for name in ["python3.11", "python3", "/usr/bin/python3"] {
        let probe = "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))";
        if succeeds(Command::new(name).args(["-c", probe])) {
            return Ok(name.into());
        }
    }
    apt::install(&["python3", "python3-venv"])?;
    Ok("/usr/bin/python3".into())
}
