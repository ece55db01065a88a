//! `cargo xtask real`: jobs of real frameworks that die of memory, recorded and compared.
//!
//! Each run has a truth of its own. `--remedies` asks the question that matters: does the next run
//! survive with the first remedy that the report prints, applied as printed? `tests/real` runs the
//! jobs, `compare` compares a report with the truth, and `remedy` reads what to change.

mod compare;
pub(crate) mod gpu;
pub(crate) mod ray_tests;
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
    setup::{self, Packages},
    test,
};
use remedy::{FirstRemedy, Remedy};
use truth::{Sample, Truth};

/// The jobs of `tests/real/cases.py`, by the environment in which they run.
const JOBS: [(Packages, &[&str]); 2] = [
    (
        Packages::Base,
        &[
            "a",
            "a2",
            "b",
            "c",
            "d",
            "e",
            "rllib",
            "data",
            "train",
            "tasks",
            "tune-a",
            "tune",
            "tune-many",
            "serve-a",
            "serve",
            "serve-many",
        ],
    ),
    (
        Packages::Later,
        &[
            "later-a",
            "later",
            "later-keeps",
            "later-logits",
            "openrlhf-a",
            "openrlhf",
            "openrlhf-logits",
        ],
    ),
];

/// A saving is as expected if it differs by no more than this share.
const NEAR: f64 = 0.3;

const GIB: f64 = (1_u64 << 30) as f64;

/// One recorded run: the truth about it, and what raytrace says.
struct JobRun {
    truth: Truth,
    samples: Vec<Sample>,
    report: Value,
}

/// Runs these jobs, or all if none is named, `times` times each. With `remedies`, each run is
/// followed by one with its first remedy. If that is a limit, another run follows with the first
/// that leaves limits alone.
pub(crate) fn run_all(names: &[String], remedies: bool, times: u32) -> Result<()> {
    let all = JOBS.iter().flat_map(|(_, names)| *names);
    let all: Vec<String> = all.map(ToString::to_string).collect();
    let names = if names.is_empty() { &all[..] } else { names };
    for (packages, of) in JOBS {
        if names.iter().any(|name| of.contains(&name.as_str())) {
            setup::for_real(packages)?;
        }
    }
    let raytrace = test::program_to_measure()?;
    let mut wrong = Vec::new();
    let mut table = Vec::new();
    for name in names {
        for time in 1..=times {
            step(&format!("{name}, {time} of {times}"), || {
                let run = format!("{name}-{time}");
                let ran = one(&raytrace, name, &run, None)?;
                wrong.extend(disagreements(name, &ran));
                if remedies && !ran.truth.killer.is_empty() && !ran.truth.survived {
                    for (row, failure) in try_remedies(&raytrace, name, &run, &ran)? {
                        table.push(row);
                        wrong.extend(failure.map(|why| format!("{run}: {why}")));
                    }
                }
                Ok(())
            })?;
        }
    }
    if remedies {
        println!("\n| run | first remedy | with it | saving |\n|---|---|---|---|");
        println!("{}", table.join("\n"));
    }
    ensure!(wrong.is_empty(), "against the truth:\n{}", wrong.join("\n"));
    Ok(())
}

fn disagreements(name: &str, ran: &JobRun) -> Vec<String> {
    let found = compare::disagreements(&ran.truth, &ran.samples, &ran.report);
    for one in &found {
        eprintln!("    WRONG {one}");
    }
    found
        .into_iter()
        .map(|one| format!("{name}: {one}"))
        .collect()
}

/// Runs a job once, with a remedy or without. `label` is the name of its files.
fn one(raytrace: &Path, name: &str, label: &str, remedy: Option<&Remedy>) -> Result<JobRun> {
    let runs = layout::real().join("runs");
    let mut jobs = JOBS.iter().filter(|(_, names)| names.contains(&name));
    let (packages, _) = jobs.next().with_context(|| format!("no job {name}"))?;
    let mut job = Command::new(packages.venv().join("bin/python"));
    job.arg(layout::root().join("tests/real/real.py"));
    job.arg("--raytrace").arg(raytrace);
    job.arg("--models").arg(layout::real().join("models"));
    job.arg("--out").arg(&runs).args(["--label", label]);
    match remedy {
        Some(Remedy::Settings(settings)) => {
            for setting in settings {
                job.arg(format!("--set={setting}"));
            }
        }
        Some(Remedy::Line) => {
            job.arg("--changed");
        }
        Some(Remedy::Limit(options)) => {
            job.args(options);
        }
        None => {}
    }
    run(job.arg(name))?;
    read(raytrace, &runs, label)
}

fn read(raytrace: &Path, runs: &Path, label: &str) -> Result<JobRun> {
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
    Ok(JobRun {
        truth: serde_json::from_str(&text("truth.json")?)?,
        // The last line may be incomplete.
        samples: samples
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect(),
        report: serde_json::from_str(&report)?,
    })
}

/// A line of the table, and what is wrong, if anything is.
type Row = (String, Option<&'static str>);

fn try_remedies(raytrace: &Path, name: &str, run: &str, before: &JobRun) -> Result<Vec<Row>> {
    let first = remedy::first(&before.report);
    if first.is_empty() {
        let row = format!("| {run} | none printed | | |");
        return Ok(vec![(row, Some("no remedy"))]);
    }
    let mut rows = Vec::new();
    for (number, one) in (1..).zip(first) {
        let label = format!("{run}-remedy-{number}");
        let row = try_remedy(raytrace, name, &label, (before, &one))?;
        println!("{}", row.0);
        rows.push(row);
    }
    Ok(rows)
}

/// Runs a job with a remedy. The line says whether it survives, and what was saved.
fn try_remedy(
    raytrace: &Path,
    name: &str,
    label: &str,
    (before, first): (&JobRun, &FirstRemedy),
) -> Result<Row> {
    let Some(remedy) = remedy::parse(&first.text, &before.truth.line) else {
        let why = "no setting of the job, nor its line";
        return Ok((format!("| {label} | {} | {why} | |", first.text), Some(why)));
    };
    let after = one(raytrace, name, label, Some(&remedy))?;
    let survived = after.truth.survived;
    let row = format!(
        "| {label} | {} | {} | {} |",
        first.text,
        if survived { "survived" } else { "died" },
        saved(first, before, &after)
    );
    Ok((row, (!survived).then_some("died with a first remedy")))
}

/// Returns the saving that the report expected and the one that was seen, at the peak of the class
/// or method that it names.
fn saved(first: &FirstRemedy, before: &JobRun, after: &JobRun) -> String {
    let held = |ran: &JobRun| truth::held(&ran.samples, first.owner.as_deref());
    let seen = held(before) - held(after);
    let Some(expected) = first.saving else {
        return format!("no saving expected, seen {:+.1} GiB", -seen / GIB);
    };
    let near = (seen - expected).abs() <= NEAR * expected;
    format!(
        "expected −{:.1} GiB, seen {:+.1} GiB, {} 30 % of it",
        expected / GIB,
        -seen / GIB,
        if near { "within" } else { "not within" }
    )
}
