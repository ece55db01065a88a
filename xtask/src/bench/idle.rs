//! Measures what the recorder itself uses beside an idle cluster.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::{figures, layout, process::interrupt, setup};

const WORKERS: u32 = 50;

/// Returns its CPU share of one core over a minute, and its peak memory.
pub(super) fn measure(raytrace: &Path) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let mut staging = Command::new(layout::ray(setup::DEMO_VERSION).join("bin/python"))
        .arg(layout::root().join("tests/staging/late.py"))
        .arg("--truth")
        .arg(folder.path().join("truth.jsonl"))
        .args(["--workers", &WORKERS.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let told = staging.stdout.take().context("no stdout")?;
    let ready = BufReader::new(told)
        .lines()
        .map_while(Result::ok)
        .any(|line| line == "ready");
    anyhow::ensure!(ready, "the cluster of {WORKERS} workers did not start");
    let file = folder.path().join("idle.raytrace");
    let mut recorder = Command::new(raytrace)
        .arg("record")
        .arg("-o")
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()?;
    // Attaching is not part of the idle state.
    thread::sleep(Duration::from_secs(15));
    let name = format!("idle cluster of {WORKERS} workers");
    let result = observe(&name, &recorder, &file);
    interrupt(&mut recorder)?;
    drop(staging.stdin.take());
    staging.wait()?;
    result
}

/// Measures a recorder for a minute.
pub(super) fn observe(name: &str, recorder: &Child, file: &Path) -> Result<String> {
    let pid = recorder.id();
    let (before, size) = (figures::cpu_seconds(pid)?, figures::recording_bytes(file)?);
    thread::sleep(Duration::from_secs(60));
    let share = (figures::cpu_seconds(pid)? - before) / 60.0;
    let peak = figures::kib(pid, "VmHWM")?;
    let grown = (figures::recording_bytes(file)? - size) * 60.0 / 1e6;
    Ok(format!(
        "{name}: {:.2} % of one core, {peak} kB at most, the recording grew by {grown:.1} MB an hour",
        share * 100.0,
    ))
}
