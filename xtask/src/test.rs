//! `cargo xtask test`: everything that must be right before a change lands.

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::{
    ebpf, layout,
    process::{run, step},
    setup,
};

pub(crate) fn everything() -> Result<()> {
    setup::everything()?;
    step("format", || run(cargo("fmt").args(["--all", "--check"])))?;
    step("lints", || {
        let strict = ["--workspace", "--all-targets", "--", "--deny", "warnings"];
        run(cargo("clippy").args(strict))
    })?;
    step("unit tests", || {
        run(cargo("test").args([
            "--package",
            "raytrace",
            "--package",
            "xtask",
            "--lib",
            "--bins",
        ]))
    })?;
    ebpf::with_rebuilt_object(|| {
        step(
            "tests of the program, and of its eBPF part on this kernel",
            || run(cargo("test").args(["--package", "raytrace", "--test", "*"])),
        )
    })?;
    end_to_end()
}

/// Real Ray, real kills; two at a time, as each has clusters of its own.
fn end_to_end() -> Result<()> {
    let program = step("build the program", build)?;
    step("end to end on real Ray", || {
        let mut tests = cargo("test");
        tests.args([
            "--package",
            "raytrace-tests",
            "--no-fail-fast",
            "--",
            "--test-threads",
            "2",
            "--nocapture",
        ]);
        run(tests.env("RAYTRACE", program))
    })
}

/// The release build of `raytrace`.
pub(crate) fn build() -> Result<PathBuf> {
    run(cargo("build").args(["--quiet", "--release", "--package", "raytrace"]))?;
    Ok(layout::raytrace())
}

fn cargo(command: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(layout::root()).arg(command);
    cargo
}
