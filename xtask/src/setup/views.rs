//! Installs what the tests of views and exports need.
//!
//! These are Chromium for the HTML page, pyte for the terminal, and pandas and `DuckDB` for
//! exports.

use anyhow::Result;

use super::{apt, venv};
use crate::{layout, process::step};

/// Playwright drives Debian's Chromium, so it needs no browser of its own. `DuckDB` comes with an
/// extension that reads `SQLite` files, in the version that fits it.
const PYTHON_PACKAGES: [&str; 4] = [
    "playwright",
    "pandas",
    "duckdb-extension-sqlite-scanner",
    "pyte",
];

pub(super) fn install() -> Result<()> {
    step("Chromium", || apt::install(&["chromium"]))?;
    let packages = PYTHON_PACKAGES.map(str::to_owned);
    step(
        "pandas, DuckDB, pyte and Playwright in target/views",
        || venv::install(&layout::views(), &packages),
    )
}
