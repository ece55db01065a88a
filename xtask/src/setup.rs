//! `cargo xtask setup`: installs what the demo and the tests need, and nothing twice.

mod apt;
mod ebpf;
mod ray;
mod views;

use std::process::Command;

use anyhow::Result;

use crate::process::{already, run_quietly, step, succeeds};

use ray::VERSIONS;

/// The Ray of the demo: the newest.
pub(crate) const DEMO_VERSION: &str = VERSIONS[0].version;

/// Everything that `cargo xtask test` needs.
pub(crate) fn everything() -> Result<()> {
    step(
        "lint tools (rustup component add rustfmt clippy)",
        lint_tools,
    )?;
    ebpf_toolchain()?;
    for version in &VERSIONS {
        ray::install(version)?;
    }
    views::install()
}

/// What `cargo xtask demo` needs: one Ray.
pub(crate) fn for_demo() -> Result<()> {
    ray::install(&VERSIONS[0])
}

/// What compiles the eBPF programs.
pub(crate) fn ebpf_toolchain() -> Result<()> {
    ebpf::install()
}

fn lint_tools() -> Result<()> {
    let there = |tool: &str| succeeds(Command::new("cargo").args([tool, "--version"]));
    if there("fmt") && there("clippy") {
        already("rustfmt and clippy");
        return Ok(());
    }
    run_quietly(Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))
}
