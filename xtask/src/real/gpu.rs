//! `cargo xtask gpu`: records what needs a GPU, staged by `tests/real/gpu.py`, and compares.
//!
//! The truth is what that script says. Without a usable GPU nothing is installed or built. This has
//! not been run on a GPU yet.

mod compare;

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;

use crate::{
    layout,
    process::{output, step},
    setup, test,
};
use compare::Check;

/// What is staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// Processes allocate known sizes: NVML's figure of each, as recorded.
    Nvml,
    /// An allocation on the GPU fails in an actor of Ray.
    Oom,
    /// An actor of Ray moves 3 GiB to the host, and is killed for memory later.
    Offload,
    /// An actor of Ray pins 2 GiB of host memory, and is killed for memory later.
    Pinned,
    /// A process without a parent holds GPU memory.
    Leftover,
}

/// The exit code if there is no usable GPU, also of `gpu.py check`.
const NO_GPU: i32 = 3;

/// Runs these cases, or all if none is named, with this Python or else with that of the newest Ray.
pub(crate) fn run_all(cases: &[Case], python: Option<&Path>) -> Result<()> {
    // The order is fixed, whatever was asked for: what one case leaves behind would be in the
    // figures of the next.
    let all = Case::value_variants().iter().copied();
    let cases: Vec<Case> = all
        .filter(|case| cases.is_empty() || cases.contains(case))
        .collect();
    let given = python.unwrap_or(Path::new("python3"));
    check(given)?;
    let alone = [Case::Nvml, Case::Leftover];
    let with_ray = cases.iter().any(|case| !alone.contains(case));
    let root = rustix::process::geteuid().is_root();
    ensure!(
        root || !with_ray,
        "cases with Ray need root: oom, offload, pinned"
    );
    let of_ray = layout::ray(setup::DEMO_VERSION).join("bin/python");
    let python = if with_ray && python.is_none() {
        setup::for_demo()?;
        &of_ray
    } else {
        given
    };
    let raytrace = test::program_to_measure()?;
    let mut wrong = Vec::new();
    for case in &cases {
        let value = case.to_possible_value().context("a hidden case")?;
        let name = value.get_name();
        let checks = step(name, || one(&raytrace, python, *case, name));
        // A machine with a GPU is rare, so a case that fails does not stop the others.
        wrong.extend(
            checks
                .as_ref()
                .err()
                .map(|error| format!("{name}: {error:#}")),
        );
        for check in checks.unwrap_or_default() {
            let line = format!("{name}: {}", check.text);
            println!("{line}");
            wrong.extend((!check.right).then_some(line));
        }
    }
    ensure!(wrong.is_empty(), "against the truth:\n{}", wrong.join("\n"));
    Ok(())
}

fn script(python: &Path, what: &str) -> Command {
    let mut command = Command::new(python);
    command
        .arg(layout::root().join("tests/real/gpu.py"))
        .arg(what);
    command
}

/// Checks for a usable GPU, and ends the command with an exit code of its own if there is none.
fn check(python: &Path) -> Result<()> {
    let done = script(python, "check").output();
    let done = done.with_context(|| format!("cannot start {}", python.display()))?;
    let said = String::from_utf8_lossy(&done.stderr);
    match done.status.code() {
        Some(0) => Ok(()),
        Some(NO_GPU) => {
            eprintln!("error: {}", said.trim());
            std::process::exit(NO_GPU)
        }
        _ => bail!("gpu.py check ended with {}: {said}", done.status),
    }
}

/// Stages one case beside a recorder. Its output, the recording and the report stay in
/// target/real/gpu.
fn one(raytrace: &Path, python: &Path, case: Case, name: &str) -> Result<Vec<Check>> {
    let folder = layout::real().join("gpu");
    fs::create_dir_all(&folder)?;
    let file = |end: &str| folder.join(format!("{name}.{end}"));
    let recording = file("raytrace");
    // An earlier run may have left no recording.
    let _removed = fs::remove_file(&recording);
    let mut record = Command::new(raytrace);
    record
        .args(["record", "--as-root", "-o"])
        .arg(&recording)
        .arg("--");
    let truth = if case == Case::Leftover {
        // The leftover process starts before the recorder, which would follow what its own command
        // starts.
        let truth = output(&mut script(python, name))?;
        output(record.args(["sleep", "6"]))?;
        truth
    } else {
        let staging = script(python, name);
        output(record.arg(python).args(staging.get_args()))?
    };
    fs::write(file("truth.jsonl"), &truth)?;
    let shown = |arguments: &[&str]| {
        let (what, format) = arguments.split_at(1);
        output(
            Command::new(raytrace)
                .args(what)
                .arg(&recording)
                .args(format),
        )
    };
    fs::write(file("txt"), shown(&["report"])?)?;
    let report = serde_json::from_str(&shown(&["report", "--format", "json"])?)?;
    compare::checks(
        case,
        &truth,
        &shown(&["export", "--format", "jsonl"])?,
        &report,
    )
}
