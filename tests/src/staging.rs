//! Runs the scripts of `tests/staging` on a real Ray.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::truth::Truth;

/// The virtual environment of one version of Ray, as `cargo xtask setup` makes it.
#[must_use]
pub fn ray(version: &str) -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("ray").join(version)
}

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// A running script.
pub struct Script {
    child: Child,
    log: PathBuf,
    truth: PathBuf,
}

/// Starts `tests/staging/NAME` on a version of Ray; it writes its truth into `folder`.
pub fn start(version: &str, name: &str, arguments: &[&str], folder: &Path) -> Result<Script> {
    let python = ray(version).join("bin/python");
    if !python.exists() {
        bail!(
            "no Ray {version} at {}; run: cargo xtask setup",
            python.display()
        );
    }
    let (log, truth) = (folder.join("staging.log"), folder.join("truth.jsonl"));
    let output = File::create(&log)?;
    let child = Command::new(python)
        .arg(root().join("tests/staging").join(name))
        .arg("--truth")
        .arg(&truth)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    Ok(Script { child, log, truth })
}

impl Script {
    /// Waits for its end, and reads the truth.
    pub fn finish(mut self) -> Result<Truth> {
        let status = self.child.wait()?;
        let log = || std::fs::read_to_string(&self.log).unwrap_or_default();
        if !status.success() {
            bail!("the staging ended with {status}:\n{}", log());
        }
        Truth::read(&self.truth).with_context(log)
    }
}
