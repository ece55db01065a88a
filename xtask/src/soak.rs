//! `cargo xtask soak long HOURS`: the recorder beside a job of Ray for hours.
//!
//! A worker is killed each minute, and figures are taken every half minute. The raw figures go to
//! target/soak/long.jsonl. A run that was interrupted is continued: the figures in the file count.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    figures, layout,
    process::{cargo, interrupt, run, step},
    setup,
    steady::{Job, Steady},
    test,
};

/// Four steps a second. This measures the recorder's memory over hours, not its cost for a job that
/// takes the whole machine.
const JOB: Job = Job {
    workers: 8,
    kill_every: 60.0,
    pause: 0.25,
};
const EVERY: Duration = Duration::from_secs(30);
/// Seconds in which memory settles. In a short run it is half of the run.
const SETTLES_S: f64 = 1800.0;
/// KiB by which resident memory may grow in an hour after that, by fragmentation in the allocator.
const GROWS_KIB: f64 = 1024.0;

/// The recorder's figures at one time of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figures {
    run: u32,
    /// Seconds since the recorder of this run started.
    seconds: f64,
    resident_kib: u64,
    descriptors: usize,
    cpu_seconds: f64,
    recorded_bytes: f64,
    /// Steps of the job.
    steps: f64,
    /// Events that were lost, known at the end of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
}

/// Records until the file has figures of this many hours, and prints the verdict on each run.
pub(crate) fn long(hours: f64) -> Result<()> {
    setup::for_demo()?;
    let raytrace = test::program_to_measure()?;
    let folder = layout::target().join("soak");
    fs::create_dir_all(&folder)?;
    let file = folder.join("long.jsonl");
    let before = read(&file)?;
    let left = hours * 3600.0 - recorded_s(&before);
    if left > 0.0 {
        let run = before.last().map_or(1, |last| last.run + 1);
        step(&format!("run {run}, {left:.0} s"), || {
            record(&raytrace, &folder, run, Duration::from_secs_f64(left))
        })?;
    }
    let all = read(&file)?;
    let last = all.last().map_or(0, |last| last.run);
    for run in 1..=last {
        let own: Vec<&Figures> = all.iter().filter(|one| one.run == run).collect();
        print!("{}", verdict(&own)?);
    }
    Ok(())
}

/// Writes a month of a big node on simulated time, through the writer, the retention and the judge.
pub(crate) fn month() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut month = cargo("run");
    month.args(["--quiet", "--package", "raytrace-tests"]);
    month.args(["--bin", "month", "--"]);
    run(month.arg(folder.path().join("month.raytrace")))
}

fn read(file: &Path) -> Result<Vec<Figures>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    // The last line may be incomplete.
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

/// Returns the seconds of all runs together.
fn recorded_s(all: &[Figures]) -> f64 {
    let last = |run: u32| {
        all.iter()
            .rfind(|one| one.run == run)
            .map(|one| one.seconds)
    };
    let runs = all.last().map_or(0, |last| last.run);
    (1..=runs).filter_map(last).sum()
}

fn record(raytrace: &Path, folder: &Path, run: u32, time: Duration) -> Result<()> {
    let cluster = Steady::start(JOB)?;
    let recording = folder.join(format!("long-{run}.raytrace"));
    let mut recorder = Command::new(raytrace)
        .args(["record", "--require-ebpf", "--session-dir"])
        .arg(&cluster.session)
        .arg("-o")
        .arg(&recording)
        .stdin(Stdio::null())
        .stderr(File::create(folder.join(format!("long-{run}.log")))?)
        .spawn()?;
    let began = Instant::now();
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(folder.join("long.jsonl"))?;
    let look = |recorder: &Child| -> Result<Figures> {
        let pid = recorder.id();
        Ok(Figures {
            run,
            seconds: began.elapsed().as_secs_f64(),
            resident_kib: figures::kib(pid, "VmRSS").context("the recorder has ended")?,
            descriptors: figures::descriptors(pid)?,
            cpu_seconds: figures::cpu_seconds(pid)?,
            recorded_bytes: figures::recording_bytes(&recording)?,
            steps: cluster.progress().steps,
            lost: None,
        })
    };
    loop {
        thread::sleep(EVERY.min(time.saturating_sub(began.elapsed())));
        let now = look(&recorder)?;
        writeln!(file, "{}", serde_json::to_string(&now)?)?;
        if began.elapsed() >= time {
            let status = interrupt(&mut recorder)?;
            ensure!(status.success(), "the recorder ended with {status}");
            let lost = Some(figures::lost_events(raytrace, &recording)?);
            let last = Figures { lost, ..now };
            writeln!(file, "{}", serde_json::to_string(&last)?)?;
            return cluster.end();
        }
    }
}

/// Returns the verdict on one run. It is an error if memory grew or events were lost.
fn verdict(run: &[&Figures]) -> Result<String> {
    let (first, last) = run
        .first()
        .zip(run.last())
        .context("a run without figures")?;
    let from = SETTLES_S.min(last.seconds / 2.0);
    let settled: Vec<&&Figures> = run.iter().filter(|one| one.seconds >= from).collect();
    let resident = settled
        .iter()
        .map(|one| (one.seconds / 3600.0, one.resident_kib as f64));
    let grows = slope(&resident.collect::<Vec<_>>());
    let files = || settled.iter().map(|one| one.descriptors);
    let (least, most) = (files().min().unwrap_or(0), files().max().unwrap_or(0));
    let time = (last.seconds - first.seconds).max(1.0);
    let text = format!(
        "run {}: {:.0} s, resident {} to {} KiB, {grows:+.0} KiB an hour after {from:.0} s, {least} to {most} files, {:.2} % of a core, \
         {:.2} MB a minute, {:.0} steps, lost {}\n",
        last.run,
        last.seconds,
        first.resident_kib,
        last.resident_kib,
        (last.cpu_seconds - first.cpu_seconds) / time * 100.0,
        (last.recorded_bytes - first.recorded_bytes) / time * 60.0 / 1e6,
        last.steps,
        last.lost
            .map_or("unknown: it was broken off".to_owned(), |lost| lost
                .to_string()),
    );
    ensure!(last.lost.unwrap_or(0) == 0, "events were lost. {text}");
    ensure!(
        last.seconds < 2.0 * SETTLES_S || grows <= GROWS_KIB,
        "memory grows. {text}"
    );
    Ok(text)
}

/// Returns by how much `y` grows with each unit of `x`, by least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len().max(1) as f64;
    let (x, y) = points
        .iter()
        .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let (x, y) = (x / count, y / count);
    let above: f64 = points.iter().map(|one| (one.0 - x) * (one.1 - y)).sum();
    let below: f64 = points.iter().map(|one| (one.0 - x).powi(2)).sum();
    if below > 0.0 { above / below } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(run: u32, seconds: f64, resident_kib: u64, lost: Option<u64>) -> Figures {
        Figures {
            run,
            seconds,
            resident_kib,
            descriptors: 100,
            cpu_seconds: seconds / 100.0,
            recorded_bytes: 0.0,
            steps: 0.0,
            lost,
        }
    }

    #[test]
    fn interrupted_runs_count() {
        let all = [
            at(1, 30.0, 1, None),
            at(1, 60.0, 1, None),
            at(2, 30.0, 1, Some(0)),
        ];
        assert!((recorded_s(&all) - 90.0).abs() < 1e-9);
    }

    #[test]
    fn growth_and_losses_fail_a_run() {
        let hours = |resident: fn(u64) -> u64, lost| {
            let figures =
                (0..=120_u64).map(|at_| at(1, at_ as f64 * 60.0, resident(at_), Some(lost)));
            let figures: Vec<Figures> = figures.collect();
            verdict(&figures.iter().collect::<Vec<_>>()).is_ok()
        };
        assert!(hours(|_| 30_000, 0));
        assert!(
            hours(|minute| 20_000 + 1000 * minute.min(20), 0),
            "it settles"
        );
        assert!(!hours(|minute| 30_000 + 100 * minute, 0));
        assert!(!hours(|_| 30_000, 1));
    }
}
