//! `cargo xtask test`: everything that must pass before a change lands.

mod home;
mod programs;
mod side_by_side;
mod skips;

use std::{path::PathBuf, thread};

use anyhow::{Result, bail, ensure};

use crate::{
    canary, check, dist, ebpf, fuzz, layout,
    process::{cargo, run, step},
    real, setup,
};
use programs::{Kind, Program, build_all};

/// Files of tests that run one after the other. They flood the machine, measure what others would
/// disturb, or count what is on the machine.
const ALONE: [&str; 25] = [
    "acts",
    "alerts",
    "attacks",
    "before",
    "calls",
    "containers",
    "events",
    "floods",
    "forecast",
    "gpu",
    "growth",
    "growth_attribution",
    "hostile",
    "hostile_machine",
    "kernels",
    "packages",
    "privilege",
    "publish",
    "readers",
    "refusals",
    "samples",
    "slurm",
    "survival",
    "systemd",
    "warned",
];

/// Tests that keep the processor busy, the longest first.
const BUSY: [&str; 7] = [
    "ray_2_60_worker_deaths_are_named",
    "ray_2_60_node_and_job_deaths_are_named",
    "ray_2_9_node_and_job_deaths_are_named",
    "ray_2_51_node_and_job_deaths_are_named",
    "unprivileged_is_right_and_proves_nothing",
    "ray_2_51_worker_deaths_are_named",
    "ray_2_9_worker_deaths_are_named",
];

pub(crate) fn everything() -> Result<()> {
    skips::forget()?;
    let home = home::begin()?;
    setup::lint_tools()?;
    // The compiler waits for the processor, and downloads wait for the network, so they run side by
    // side.
    thread::scope(|scope| {
        let downloads = scope.spawn(setup::for_tests);
        let checked = checks();
        let downloaded = downloads.join();
        downloaded.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        checked
    })?;
    canary::known()?;
    let on_kernel = on_this_kernel();
    let tested = end_to_end();
    let complete = skips::print();
    each_failure([on_kernel, tested, complete, home.compare()])
}

/// Fails with what failed, all of it: a failed test does not hide what else there is to mend.
fn each_failure(results: [Result<()>; 4]) -> Result<()> {
    let failures = results.into_iter().filter_map(Result::err);
    let failures: Vec<String> = failures.map(|error| format!("{error:#}")).collect();
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// Runs what needs neither privilege nor Ray, and compiles the rest.
fn checks() -> Result<()> {
    check::sources()?;
    let programs = step("build the program and all tests", build_all)?;
    step("unit tests", || {
        one_by_one(&of_kind(&programs, Kind::Units), &[])
    })
}

fn on_this_kernel() -> Result<()> {
    ebpf::with_rebuilt_object(|| {
        step(
            "tests of the program, and of its eBPF part on this kernel",
            // With this option skipped tests are printed.
            || one_by_one(&of_kind(&build_all()?, Kind::Program), &["--nocapture"]),
        )
    })
}

/// Runs the tests on real Ray with real kills.
fn end_to_end() -> Result<()> {
    let programs = build_all()?;
    step("pack the program", || {
        dist::for_tests(&layout::target().join("debug/raytrace"))
    })?;
    let (alone, together): (Vec<&Program>, Vec<&Program>) = of_kind(&programs, Kind::EndToEnd)
        .into_iter()
        .partition(|program| ALONE.contains(&program.suite.as_str()));
    let alone = step("end to end: what floods or measures the machine", || {
        one_by_one(&alone, &["--nocapture"])
    });
    let together = step("end to end on real Ray", || {
        side_by_side::run(&together, &BUSY)
    });
    match (alone, together) {
        (Err(one), Err(other)) => bail!("{one:#}\n{other:#}"),
        (one, other) => one.and(other),
    }
}

/// Runs these programs one after the other. A failure does not stop the others.
fn one_by_one(programs: &[&Program], arguments: &[&str]) -> Result<()> {
    let mut failed = Vec::new();
    for program in programs {
        let mut command = program.command();
        command.args(["--test-threads", "2"]).args(arguments);
        eprintln!("--> {}", program.suite);
        failed.extend(run(&mut command).err().map(|error| format!("{error:#}")));
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

fn of_kind(programs: &[Program], kind: Kind) -> Vec<&Program> {
    let mut found: Vec<_> = programs
        .iter()
        .filter(|program| program.kind == kind)
        .collect();
    found.sort_by_key(|program| &program.suite);
    found
}

/// Runs the kernel matrix alone.
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

/// Runs the long versions of tests. They take some hours, most of it for fuzzing.
pub(crate) fn soak() -> Result<()> {
    setup::for_tests()?;
    canary::newest()?;
    step("a month on simulated time", crate::soak::month)?;
    fuzz::run_each(&[], 3600)?;
    real::run_all(&[], true, 3)?;
    let program = step("build the program", build)?;
    step("Ray with resource isolation in QEMU", || {
        let mut tests = cargo("test");
        tests.args(["--package", "raytrace-tests", "--test", "isolation"]);
        tests.args(["--", "--ignored", "--nocapture"]);
        run(tests.env("RAYTRACE", &program))
    })?;
    step("pack the program", || dist::for_tests(&program))?;
    step("long versions", || {
        let mut tests = cargo("test");
        tests.args(["--package", "raytrace-tests"]);
        for name in [
            "acts", "survival", "floods", "fleet", "guests", "jobs", "matrix", "packages",
            "systemd",
        ] {
            tests.args(["--test", name]);
        }
        tests.args(["--", "--test-threads", "1", "--nocapture"]);
        run(tests.env("RAYTRACE", &program).env("RAYTRACE_SOAK", "1"))
    })
}

/// Returns the program to measure: the one that `RAYTRACE` names, or else the release build.
pub(crate) fn program_to_measure() -> Result<PathBuf> {
    match std::env::var_os("RAYTRACE") {
        Some(program) => Ok(program.into()),
        None => step("build raytrace", build),
    }
}

/// Builds `raytrace` in release mode.
pub(crate) fn build() -> Result<PathBuf> {
    run(cargo("build").args(["--quiet", "--release", "--package", "raytrace"]))?;
    Ok(layout::raytrace())
}
