//! Scores the forecast of kills for memory on generated shapes, beside the naive forecast.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::layout;

/// Returns the tables of scores.
pub(super) fn measure() -> Result<String> {
    let mut score = Command::new("cargo");
    score.current_dir(layout::root());
    score.args(["run", "--quiet", "--release", "--package", "raytrace-tests"]);
    let done = score.args(["--bin", "forecast"]).output();
    let done = done.context("cargo")?;
    ensure!(
        done.status.success(),
        "the bench of the forecast failed: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
