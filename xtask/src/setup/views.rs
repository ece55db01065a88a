//! Installs what the tests of views and exports need.
//!
//! These are Chromium for the HTML page, pyte for the terminal, pandas and `DuckDB` for exports,
//! and jsonschema for the JSON.

use anyhow::Result;

use super::{apt, venv};
use crate::{layout, process::step};

/// Playwright drives Debian's Chromium, so it needs no browser of its own. `DuckDB` comes with an
/// extension that reads `SQLite` files, in the version that fits it.
const PYTHON_PACKAGES: [&str; 5] = [
    "playwright",
    "pandas",
    "duckdb-extension-sqlite-scanner",
    "pyte",
    "jsonschema",
];

pub(super) fn install() -> Result<()> {
    step("Chromium", || apt::install(&["chromium"]))?;
    let packages = PYTHON_PACKAGES.map(str::to_owned);
    step(
        "pandas, DuckDB, pyte, Playwright and jsonschema in target/views",
        || venv::install(&layout::views(), &packages),
    )
}
