//! What the recorder itself uses beside an idle cluster.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::{layout, process::end, setup};

const WORKERS: u32 = 50;

/// CPU share of one core over a minute, and the most memory that it had.
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
    let output = staging.stdout.take().context("no stdout")?;
    let ready = BufReader::new(output)
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
    // The attach itself is not the idle state.
    thread::sleep(Duration::from_secs(15));
    let result = observe(&recorder, &file);
    end(&mut recorder)?;
    drop(staging.stdin.take());
    staging.wait()?;
    result
}

fn observe(recorder: &Child, file: &Path) -> Result<String> {
    let pid = recorder.id();
    let (before, size) = (cpu_ticks(pid)?, size(file));
    thread::sleep(Duration::from_secs(60));
    let share = (cpu_ticks(pid)? - before) as f64 / 100.0 / 60.0;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let written = (self::size(file) - size) as f64 * 60.0 / 1e6;
    Ok(format!(
        "idle cluster of {WORKERS} workers: {:.2} % of one core, {} at most, {written:.1} MB an hour written",
        share * 100.0,
        peak.unwrap_or("unknown").trim()
    ))
}

fn size(file: &Path) -> u64 {
    let of = |path: &Path| fs::metadata(path).map_or(0, |data| data.len());
    of(file) + of(&file.with_extension("raytrace-wal"))
}

/// User and system time in clock ticks (100 a second).
fn cpu_ticks(pid: u32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let field = |at: usize| {
        fields
            .get(at)
            .and_then(|field| field.parse::<u64>().ok())
            .context("no such field")
    };
    Ok(field(11)? + field(12)?)
}
