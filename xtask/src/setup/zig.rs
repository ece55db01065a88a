//! Installs the linker for old systems: zig, which has the symbols of each glibc.

use std::process::Command;

use anyhow::Result;

use super::{apt, venv};
use crate::{
    layout,
    process::{run_quietly, step},
};

const PYTHON_PACKAGES: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.0"];

pub(super) fn install(targets: &[&str]) -> Result<()> {
    step("binutils (readelf)", || apt::install(&["binutils"]))?;
    step("zig and cargo-zigbuild in target/zig", || {
        venv::install(&layout::zig(), &PYTHON_PACKAGES.map(str::to_owned))
    })?;
    step("Rust's standard library for each target", || {
        run_quietly(Command::new("rustup").args(["target", "add"]).args(targets))
    })
}
