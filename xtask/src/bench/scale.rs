//! Measures the recorder beside many processes: by thread, by cause, and by their number.
//!
//! One load is a job of Ray with as many workers as fit on a small machine. The others need no Ray:
//! their processes wake ten times a second, and change their titles twice a second as a worker does
//! around a call. Some of them grow, and some fork. Figures are processor time, so a busy machine
//! does not change them much.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use super::forked_processes::Kind;
use crate::{
    figures,
    process::interrupt,
    steady::{Job, Steady},
};

/// Numbers of processes, and numbers of workers of Ray.
const COUNTS: [u32; 3] = [100, 1000, 3000];
const WORKERS: [u32; 3] = [8, 20, 50];
/// Time in which the processes have started and are known, for each thousand of them.
const SETTLES: Duration = Duration::from_secs(12);
/// How long is measured.
const MEASURED: Duration = Duration::from_secs(20);

/// Nanoseconds of processor time by thread, and microseconds by cause.
type Shares = BTreeMap<String, f64>;

/// What the recorder runs beside.
#[derive(Debug, Clone, Copy)]
enum ScaleCase {
    Processes(Kind),
    Ray,
}

impl ScaleCase {
    fn name(self) -> &'static str {
        match self {
            Self::Processes(kind) => kind.name(),
            Self::Ray => "workers of Ray",
        }
    }
}

/// The figures of one run.
struct Run {
    case: ScaleCase,
    near: bool,
    count: u32,
    threads: Shares,
    causes: Shares,
    /// Peak of resident memory, in KiB.
    peak: u64,
    descriptors: usize,
    /// Bytes by which the recording grew in a minute.
    bytes: f64,
    lost: u64,
}

impl Run {
    /// Returns the percent of one core of all threads together.
    fn total(&self) -> f64 {
        self.threads.values().sum()
    }
}

/// Measures the recorder beside processes that need no Ray. If `RAYTRACE_BENCH_PROCESSES` is a
/// number, it measures only beside that many processes that are awake.
pub(super) fn processes(raytrace: &Path) -> Result<String> {
    let (awake, asleep) = (
        ScaleCase::Processes(Kind::Awake),
        ScaleCase::Processes(Kind::Asleep),
    );
    if let Ok(count) = std::env::var("RAYTRACE_BENCH_PROCESSES") {
        let count = count.parse();
        let count = count.context("RAYTRACE_BENCH_PROCESSES is no number")?;
        return measure(raytrace, &[(awake, false), (awake, true)], &[count]);
    }
    let loads = [(awake, false), (awake, true), (asleep, false)];
    measure(raytrace, &loads, &COUNTS)
}

/// Measures the recorder beside workers of Ray.
pub(super) fn workers(raytrace: &Path) -> Result<String> {
    let loads = [(ScaleCase::Ray, false), (ScaleCase::Ray, true)];
    measure(raytrace, &loads, &WORKERS)
}

/// Returns a table of all runs, and how the cost grows with the number of processes.
fn measure(raytrace: &Path, loads: &[(ScaleCase, bool)], counts: &[u32]) -> Result<String> {
    let mut text = String::from(
        "| processes | | CPU | by thread | by cause | peak | files | recording | lost |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for (case, near) in loads.iter().copied() {
        let mut totals = Vec::new();
        for count in counts.iter().copied() {
            let run = run(raytrace, case, near, count)?;
            totals.push((f64::from(count), run.total()));
            let row = row(&run);
            eprint!("{row}");
            text += &row;
        }
        if counts.len() < 2 {
            continue;
        }
        text += &format!(
            "| {}{} | | grows with the number to the power of {:.2} | | | | | | |\n",
            case.name(),
            if near { ", near a limit" } else { "" },
            exponent(&totals)
        );
    }
    Ok(text)
}

fn row(run: &Run) -> String {
    let shares = |shares: &Shares| {
        let mut all: Vec<(&String, &f64)> = shares
            .iter()
            .filter(|(_, share)| **share >= 0.005)
            .collect();
        all.sort_by(|one, other| other.1.total_cmp(one.1));
        let all = all.iter().map(|(name, share)| format!("{name} {share:.2}"));
        all.collect::<Vec<_>>().join(", ")
    };
    format!(
        "| {} {}{} | | {:.2} % | {} | {} | {:.1} MiB | {} | {:.2} MB a minute | {} |\n",
        run.count,
        run.case.name(),
        if run.near { ", near a limit" } else { "" },
        run.total(),
        shares(&run.threads),
        shares(&run.causes),
        run.peak as f64 / 1024.0,
        run.descriptors,
        run.bytes / 1e6,
        run.lost
    )
}

/// Returns the exponent that fits `y = c · x^e`, by least squares of the logarithms.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs = || points.iter().map(|(x, y)| (x.ln(), y.max(1e-6).ln()));
    let count = points.len() as f64;
    let (x, y) = logs().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let (x, y) = (x / count, y / count);
    let above: f64 = logs().map(|one| (one.0 - x) * (one.1 - y)).sum();
    let below: f64 = logs().map(|one| (one.0 - x).powi(2)).sum();
    above / below
}

fn run(raytrace: &Path, case: ScaleCase, near: bool, count: u32) -> Result<Run> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("scale.raytrace");
    let costs = folder.path().join("costs");
    let cluster = match case {
        ScaleCase::Ray => Some(Steady::start(Job {
            workers: count,
            ..Job::default()
        })?),
        ScaleCase::Processes(_) => None,
    };
    let mut command = Command::new(raytrace);
    command.env("RUST_LOG", "raytrace::collect::costs=trace");
    command.args(["record", "--require-ebpf"]);
    if near {
        command.arg("--armed");
    }
    command.arg("-o").arg(&file);
    if let Some(cluster) = &cluster {
        command.arg("--session-dir").arg(&cluster.session);
    }
    if let ScaleCase::Processes(kind) = case {
        command.arg("--").arg(std::env::current_exe()?);
        command.args(["bench-processes", kind.name(), &count.to_string()]);
    }
    command
        .stdin(Stdio::piped())
        .stderr(fs::File::create(&costs)?);
    let mut recorder = command.spawn()?;
    let pid = recorder.id();
    thread::sleep(SETTLES.mul_f64(f64::from(count.max(500)) / 1000.0));
    let figures = || {
        anyhow::Ok((
            figures::threads(pid)?,
            causes(&costs)?,
            figures::recording_bytes(&file)?,
        ))
    };
    let before = figures()?;
    thread::sleep(MEASURED);
    let after = figures()?;
    let (peak, descriptors) = (figures::kib(pid, "VmHWM")?, figures::descriptors(pid)?);
    drop(recorder.stdin.take());
    let status = if let Some(cluster) = cluster {
        let status = interrupt(&mut recorder)?;
        cluster.end()?;
        status
    } else {
        recorder.wait()?
    };
    ensure!(
        status.success(),
        "the recorder ended with {status}: {}",
        fs::read_to_string(&costs)?
    );
    let minutes = MEASURED.as_secs_f64() / 60.0;
    Ok(Run {
        case,
        near,
        count,
        threads: less(&after.0, &before.0, 1e7),
        causes: less(&after.1, &before.1, 1e4),
        peak,
        descriptors,
        bytes: (after.2 - before.2) / minutes,
        lost: figures::lost_events(raytrace, &file)?,
    })
}

/// Returns what was added between both, as percents of one core. `unit` a second is one percent.
fn less(after: &Shares, before: &Shares, unit: f64) -> Shares {
    let added = |name: &String| after[name] - before.get(name).copied().unwrap_or(0.0);
    let names = after.keys();
    names
        .map(|name| (name.clone(), added(name) / unit / MEASURED.as_secs_f64()))
        .collect()
}

/// Returns what the recorder says of its own time: the last line `name=µs …` in its log.
fn causes(file: &Path) -> Result<Shares> {
    let text = fs::read_to_string(file)?;
    let Some((_, last)) = text
        .lines()
        .rev()
        .find_map(|line| line.split_once("costs in us: "))
    else {
        return Ok(Shares::new());
    };
    let pairs = last
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='));
    Ok(pairs
        .filter_map(|(name, time)| Some((name.to_owned(), time.parse().ok()?)))
        .collect())
}
