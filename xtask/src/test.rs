//! `cargo xtask test`: everything that must be right before a change lands.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{
    ebpf, layout,
    process::{run, step},
    setup,
};

pub(crate) fn everything() -> Result<()> {
    setup::tools()?;
    // The compiler waits for the processor, downloads for the network.
    let program = std::thread::scope(|scope| {
        let downloads = scope.spawn(setup::for_real_ray);
        let program = checks().and_then(|()| step("build the program", build));
        let downloaded = downloads.join();
        downloaded.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        program
    })?;
    on_this_kernel()?;
    end_to_end(&program)
}

/// What needs neither privilege nor Ray.
fn checks() -> Result<()> {
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
    })
}

fn on_this_kernel() -> Result<()> {
    ebpf::with_rebuilt_object(|| {
        step(
            "tests of the program, and of its eBPF part on this kernel",
            || run(cargo("test").args(["--package", "raytrace", "--test", "*"])),
        )
    })
}

/// Real Ray, real kills; two at a time, as each has clusters of its own.
fn end_to_end(program: &Path) -> Result<()> {
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

/// The kernel matrix alone.
pub(crate) fn kernels() -> Result<()> {
    setup::virtual_machines()?;
    let program = step("build the program", build)?;
    step("Debian's kernels in QEMU", || {
        let mut tests = cargo("test");
        tests.args(["--package", "raytrace-tests", "--test", "kernels"]);
        tests.args(["--", "--test-threads", "1", "--nocapture"]);
        run(tests.env("RAYTRACE", program))
    })
}

/// The long versions of the tests that have one: some hours, most of them fuzzing.
pub(crate) fn soak() -> Result<()> {
    step("each parser on damaged texts, an hour each", || {
        let mut tests = cargo("test");
        tests.args(["--release", "--package", "raytrace", "--lib", "fuzz::"]);
        run(tests.env("RAYTRACE_FUZZ_SECONDS", "3600"))
    })?;
    let program = step("build the program", build)?;
    step("long versions", || {
        let mut tests = cargo("test");
        tests.args(["--package", "raytrace-tests"]);
        tests.args(["--test", "survival", "--test", "floods", "--test", "jobs"]);
        tests.args(["--", "--test-threads", "1", "--nocapture"]);
        run(tests.env("RAYTRACE", &program).env("RAYTRACE_SOAK", "1"))
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
