//! `cargo xtask real`: jobs of real frameworks that die of memory, each recorded and compared with a truth of its own.
//!
//! `--remedies` asks the question that matters: does the first remedy that the report prints, applied as printed, make the next run
//! survive? `tests/real` runs the jobs, `compare` holds a report against the truth, `remedy` reads what to change.

mod compare;
mod remedy;
mod truth;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{
    layout,
    process::{output, run, step},
    setup, test,
};
use remedy::Remedy;
use truth::{Sample, Truth};

/// The jobs, those of `tests/real/cases.py`.
const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "rllib", "data", "train", "tasks"];

const GIB: f64 = (1_u64 << 30) as f64;

/// One recorded run: what it was and what raytrace says of it.
struct Ran {
    truth: Truth,
    samples: Vec<Sample>,
    report: Value,
}

/// Runs these jobs, all without a name, and with `remedies` each as often as `times` says with its first remedy.
pub(crate) fn run_all(names: &[String], remedies: bool, times: u32) -> Result<()> {
    setup::for_real()?;
    let raytrace = test::measured()?;
    let all = NAMES.map(str::to_owned);
    let names = if names.is_empty() { &all[..] } else { names };
    let mut wrong = Vec::new();
    for name in names {
        for time in 1..=times {
            step(&format!("{name}, {time} of {times}"), || {
                let ran = one(&raytrace, name, None)?;
                wrong.extend(disagreements(name, &ran));
                if remedies && !ran.truth.killer.is_empty() {
                    println!("{}", tried(&raytrace, name, &ran)?);
                }
                Ok(())
            })?;
        }
    }
    ensure!(wrong.is_empty(), "against the truth:\n{}", wrong.join("\n"));
    Ok(())
}

fn disagreements(name: &str, ran: &Ran) -> Vec<String> {
    let found = compare::disagreements(&ran.truth, &ran.samples, &ran.report);
    for one in &found {
        eprintln!("    WRONG {one}");
    }
    found
        .into_iter()
        .map(|one| format!("{name}: {one}"))
        .collect()
}

/// One run of a job, with a remedy or as it is.
fn one(raytrace: &Path, name: &str, remedy: Option<&Remedy>) -> Result<Ran> {
    let runs = layout::real().join("runs");
    let label = remedy.map_or_else(|| name.to_owned(), |_| format!("{name}-remedied"));
    let mut job = Command::new(layout::real().join("venv/bin/python"));
    job.arg(layout::root().join("tests/real/real.py"));
    job.arg("--raytrace").arg(raytrace);
    job.arg("--models").arg(layout::real().join("models"));
    job.arg("--out").arg(&runs).args(["--label", &label]);
    match remedy {
        Some(Remedy::Settings(settings)) => {
            for setting in settings {
                job.args(["--set", setting]);
            }
        }
        Some(Remedy::Line) => {
            job.arg("--changed");
        }
        None => {}
    }
    run(job.arg(name))?;
    read(raytrace, &runs, &label)
}

fn read(raytrace: &Path, runs: &Path, label: &str) -> Result<Ran> {
    let file = |end: &str| -> PathBuf { runs.join(format!("{label}.{end}")) };
    let text = |end: &str| {
        let path = file(end);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let mut report = Command::new(raytrace);
    report.arg("report").arg(file("raytrace"));
    fs::write(file("txt"), output(&mut report)?)?;
    let report = output(report.args(["--format", "json"]))?;
    let samples = text("samples.jsonl")?;
    Ok(Ran {
        truth: serde_json::from_str(&text("truth.json")?)?,
        // The last line may be half of one.
        samples: samples
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect(),
        report: serde_json::from_str(&report)?,
    })
}

/// A line of a table: the first remedy, whether the job survives with it, and what was saved.
fn tried(raytrace: &Path, name: &str, before: &Ran) -> Result<String> {
    let Some(first) = remedy::first(&before.report) else {
        return Ok(format!("| {name} | none printed | | |"));
    };
    let Some(remedy) = remedy::applied(&first.text, &before.truth.line) else {
        return Ok(format!(
            "| {name} | {} | no setting of the job, nor its line | |",
            first.text
        ));
    };
    let after = one(raytrace, name, Some(&remedy))?;
    let survived = if after.truth.survived {
        "survived"
    } else {
        "died"
    };
    let expected = first.saving.map_or_else(
        || "not said".to_owned(),
        |bytes| format!("−{:.1} GiB", bytes / GIB),
    );
    let class = first.class.as_deref();
    let seen = truth::held(&before.samples, class) - truth::held(&after.samples, class);
    Ok(format!(
        "| {name} | {} | {survived} | expected {expected}, seen {:+.1} GiB |",
        first.text,
        -seen / GIB
    ))
}
