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

use crate::{
    layout,
    process::{end, output},
    setup,
};

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
    // The attach itself is not the idle state.
    thread::sleep(Duration::from_secs(15));
    let name = format!("idle cluster of {WORKERS} workers");
    let result = observe(&name, &recorder, &file);
    end(&mut recorder)?;
    drop(staging.stdin.take());
    staging.wait()?;
    result
}

/// A minute of a recorder.
pub(super) fn observe(name: &str, recorder: &Child, file: &Path) -> Result<String> {
    let pid = recorder.id();
    let (before, size) = (cpu_ticks(pid)?, size(file)?);
    thread::sleep(Duration::from_secs(60));
    let share = (cpu_ticks(pid)? - before) as f64 / 100.0 / 60.0;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let grown = self::size(file)?.saturating_sub(size) as f64 * 60.0 / 1e6;
    Ok(format!(
        "{name}: {:.2} % of one core, {} at most, the recording grew by {grown:.1} MB an hour",
        share * 100.0,
        peak.unwrap_or("unknown").trim()
    ))
}

/// What the recording holds. The files themselves are no measure: what was committed lies beside until it is copied over.
fn size(file: &Path) -> Result<u64> {
    let query = "import sqlite3, sys; file = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True); \
        print(file.execute('pragma page_count').fetchone()[0] * file.execute('pragma page_size').fetchone()[0])";
    let python = layout::bench().join("bin/python");
    let text = output(Command::new(python).args(["-c", query]).arg(file))?;
    text.trim().parse().context("no size")
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
