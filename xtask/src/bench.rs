//! `cargo xtask bench`: what recording costs, as ratios of interleaved runs with an off-against-off control.

mod idle;
mod load;
mod programs;
mod statistics;

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use load::Cost;
pub(crate) use load::Load;
use statistics::Ratio;

use crate::{process::step, setup, test};

/// Pairs of each load; odd ones run in the other order.
const PAIRS: usize = 31;

/// Runs everything and prints the tables of docs/performance.md.
pub(crate) fn run() -> Result<()> {
    setup::for_demo()?;
    let raytrace = step("build raytrace", test::build)?;
    println!(
        "| load | what | median | 95 % of the median up to | control up to |\n|---|---|---|---|---|",
    );
    for load in Load::ALL {
        let name = format!("{}: {PAIRS} pairs and as many controls", load.name());
        print!("{}", step(&name, || pairs(&raytrace, load))?);
    }
    let hooks = step("time of each eBPF program", || programs::measure(&raytrace))?;
    println!("\n{hooks}");
    let idle = step("an idle cluster of 50 workers, one minute", || {
        idle::measure(&raytrace)
    })?;
    println!("{idle}");
    Ok(())
}

/// Off, on and off again, in changing order, so that drift hits all alike.
fn pairs(raytrace: &Path, load: Load) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let (mut on, mut control) = (Vec::new(), Vec::new());
    for number in 0..PAIRS {
        let recorded = || {
            recorded(
                raytrace,
                load,
                &folder.path().join(format!("{number}.raytrace")),
            )
        };
        let (off, with, again) = if number % 2 == 0 {
            (alone(load)?, recorded()?, alone(load)?)
        } else {
            let with = recorded()?;
            (alone(load)?, with, alone(load)?)
        };
        on.push((with, off));
        control.push((again, off));
    }
    let mut rows = String::new();
    for (what, of) in [
        ("CPU", (|cost: &Cost| cost.cpu) as fn(&Cost) -> f64),
        ("wall", |cost| cost.wall),
    ] {
        let ratio = |pairs: &[(Cost, Cost)]| {
            Ratio::of(pairs.iter().map(|(one, other)| of(one) / of(other)))
        };
        let (on, control) = (ratio(&on), ratio(&control));
        rows += &format!(
            "| {} | {what} | {:.4} | {:.4} | {:.4} |\n",
            load.name(),
            on.median,
            on.upper,
            control.upper
        );
    }
    Ok(rows)
}

fn alone(load: Load) -> Result<Cost> {
    cost_of(Command::new(std::env::current_exe()?).args(["bench-load", load.name()]))
}

/// The load as the wrapped command of a recorder: tracked from its first instant, every hook armed.
fn recorded(raytrace: &Path, load: Load, file: &Path) -> Result<Cost> {
    cost_of(
        Command::new(raytrace)
            .args(["record", "--require-ebpf", "-o"])
            .arg(file)
            .arg("--")
            .arg(std::env::current_exe()?)
            .args(["bench-load", load.name()]),
    )
}

fn cost_of(command: &mut Command) -> Result<Cost> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    if !output.status.success() {
        bail!("{command:?} ended with {}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("the load did not print its cost")
}
