//! What tests the views: Chromium for the HTML page, pandas and `DuckDB` for the exports.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::{apt, ray};
use crate::{
    layout,
    process::{already, run_quietly, step},
};

/// Playwright drives Debian's Chromium: it needs no browser of its own.
const PYTHON_PACKAGES: [&str; 3] = ["playwright", "pandas", "duckdb"];

pub(super) fn install() -> Result<()> {
    step("Chromium", || apt::install(&["chromium"]))?;
    step("pandas, DuckDB and Playwright in target/views", python)
}

fn python() -> Result<()> {
    let folder = layout::views();
    let done = folder.join("installed");
    if done.exists() {
        already("marked as installed");
        return Ok(());
    }
    run_quietly(
        Command::new(ray::python()?)
            .args(["-m", "venv", "--clear"])
            .arg(&folder),
    )?;
    run_quietly(
        Command::new(folder.join("bin/pip"))
            .args(["install", "--no-input", "--disable-pip-version-check"])
            .args(PYTHON_PACKAGES),
    )?;
    std::fs::write(&done, "").with_context(|| format!("cannot write {}", done.display()))
}
