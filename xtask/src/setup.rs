//! `cargo xtask setup`: installs what the demo and the tests need, and nothing twice.

mod apt;
mod ebpf;
mod ray;

use std::process::Command;

use anyhow::Result;

use crate::process::{already, run_quietly, step, succeeds};

pub(crate) use ray::{DEMO_VERSION, VERSIONS};

/// Everything that `cargo xtask test` needs.
pub(crate) fn everything() -> Result<()> {
    step("lint tools (rustup component add rustfmt clippy)", lint_tools)?;
    ebpf::install()?;
    for version in VERSIONS {
        ray::install(version)?;
    }
    Ok(())
}

/// What `cargo xtask demo` needs: one Ray.
pub(crate) fn for_demo() -> Result<()> {
    ray::install(&VERSIONS[DEMO_VERSION])
}

fn lint_tools() -> Result<()> {
    let there = |tool: &str| succeeds(Command::new("cargo").args([tool, "--version"]));
    if there("fmt") && there("clippy") {
        already("rustfmt and clippy");
        return Ok(());
    }
    run_quietly(Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))
}
