//! `cargo xtask setup`: installs what the demo and the tests need, and nothing twice.

mod apt;
mod ebpf;
mod kernels;
mod packaging;
mod ray;
mod real;
mod venv;
mod views;
mod zig;

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::{
    layout,
    process::{already, run_quietly, step, succeeds},
};

use ray::VERSIONS;
pub(crate) use real::Packages;

/// The Ray of the demo: the newest.
pub(crate) const DEMO_VERSION: &str = VERSIONS[0].version;

/// Everything that `cargo xtask test` needs.
pub(crate) fn everything() -> Result<()> {
    lint_tools()?;
    for_tests()
}

/// What `cargo xtask test` needs once the program is built: mostly downloads.
pub(crate) fn for_tests() -> Result<()> {
    ebpf_toolchain()?;
    for version in &VERSIONS {
        ray::install(version)?;
    }
    views::install()?;
    packaging()?;
    virtual_machines()
}

/// What `cargo xtask demo` needs: one Ray.
pub(crate) fn for_demo() -> Result<()> {
    ray::install(&VERSIONS[0])
}

/// What `cargo xtask real` needs: frameworks and random models.
pub(crate) fn for_real(packages: Packages) -> Result<()> {
    real::install(packages)
}

/// What `cargo xtask real --ray-tests` needs: this version of Ray with pytest, and its folder.
pub(crate) fn for_ray_tests(version: &str) -> Result<PathBuf> {
    ray::with_pytest(version)
}

/// What `cargo xtask bench` needs: one Ray, and the tools that it compares with.
pub(crate) fn for_bench() -> Result<()> {
    for_demo()?;
    step("bpftrace, perf and strace", || {
        apt::install(&["bpftrace", "linux-perf", "strace"])
    })?;
    let packages = ["numpy", "memray", "py-spy"].map(str::to_owned);
    step("memray and py-spy in target/bench", || {
        venv::install(&layout::bench(), &packages)
    })
}

/// What `cargo xtask canary` needs: the newest Ray of the package index, and its folder.
pub(crate) fn newest_ray() -> Result<PathBuf> {
    ray::newest()
}

/// What `cargo xtask vm` needs: QEMU and Debian's kernels.
pub(crate) fn virtual_machines() -> Result<()> {
    kernels::install()
}

/// What `cargo xtask dist` needs for these targets.
pub(crate) fn old_systems(targets: &[&str]) -> Result<()> {
    zig::install(targets)
}

/// What `cargo xtask dist` packs with, and the tests of deployment run.
pub(crate) fn packaging() -> Result<()> {
    packaging::install()
}

/// What compiles the eBPF programs.
pub(crate) fn ebpf_toolchain() -> Result<()> {
    ebpf::install()
}

/// What `cargo xtask test` checks the sources with.
pub(crate) fn lint_tools() -> Result<()> {
    step("lint tools (rustup component add rustfmt clippy)", || {
        let there = |tool: &str| succeeds(Command::new("cargo").args([tool, "--version"]));
        if there("fmt") && there("clippy") {
            already("rustfmt and clippy");
            return Ok(());
        }
        run_quietly(Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))
    })
}
