//! Measures `raytrace report FOLDER` on 10 to 1,000 recordings: time, memory, and how they grow.
//!
//! The recordings are made from ten golden ones.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result};

use super::cost::waited;
use crate::{layout, process::run};

/// Real recordings, and how often each is among ten. They have 2.1 MB and 21 deaths on average.
const GOLDEN: [(&str, usize); 7] = [
    ("unprivileged-2.60.0", 1),
    ("verl-b", 1),
    ("verl-c", 1),
    ("verl-d", 1),
    ("verl-e", 1),
    ("gallery-ray-guide", 3),
    ("gallery-verl", 2),
];
/// Recordings in a folder.
const COUNTS: [usize; 5] = [10, 50, 100, 300, 1000];
/// Reports on each folder. The quickest one counts, because the first fills the page cache.
const REPORTS: usize = 3;

/// The cost of one folder's report.
struct Cost {
    recordings: usize,
    wall: f64,
    cpu: f64,
    peak_mib: f64,
}

/// Returns a table, and what each recording adds, by a least-squares line.
pub(super) fn measure(raytrace: &Path) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let real = folder.path().join("real");
    std::fs::create_dir(&real)?;
    unpack(&real)?;
    let mut costs = Vec::new();
    let mut text = String::from(
        "| recordings | MB | deaths | wall s | CPU s | peak MiB |\n|---|---|---|---|---|---|\n",
    );
    for count in COUNTS {
        let many = folder.path().join(format!("many{count}"));
        std::fs::create_dir(&many)?;
        run(helper()
            .arg("copy")
            .arg(&real)
            .arg(count.to_string())
            .arg(&many))?;
        let cost = report(raytrace, &many, count)?;
        text.push_str(&format!(
            "| {count} | {:.0} | {} | {:.2} | {:.2} | {:.0} |\n",
            megabytes(&many)?,
            deaths(raytrace, &many)?,
            cost.wall,
            cost.cpu,
            cost.peak_mib
        ));
        costs.push(cost);
        std::fs::remove_dir_all(&many)?;
    }
    let cpu = line(&costs, |cost| cost.cpu);
    let memory = line(&costs, |cost| cost.peak_mib);
    text.push_str(&format!(
        "\nEach recording adds {:.1} ms of processor time (R² {:.4}) and {:.2} MiB (R² {:.4}).\n",
        cpu.slope * 1000.0,
        cpu.fit,
        memory.slope,
        memory.fit
    ));
    Ok(text)
}

/// Writes the golden recordings into a folder.
fn unpack(folder: &Path) -> Result<()> {
    for (name, times) in GOLDEN {
        let packed = layout::root().join(format!("tests/golden/{name}.raytrace.gz"));
        for number in 0..times {
            let file = std::fs::File::create(folder.join(format!("{name}-{number}.raytrace")))?;
            run(Command::new("gzip").arg("-dc").arg(&packed).stdout(file))?;
        }
    }
    Ok(())
}

fn helper() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(layout::root());
    command.args(["run", "--quiet", "--release", "--package", "raytrace-tests"]);
    command.args(["--bin", "fleet", "--"]);
    command
}

fn report(raytrace: &Path, folder: &Path, recordings: usize) -> Result<Cost> {
    let mut best: Option<Cost> = None;
    for _ in 0..REPORTS {
        let began = Instant::now();
        let mut command = Command::new(raytrace);
        command.arg("report").arg(folder).stdout(Stdio::null());
        let child = command.spawn().context("cannot start raytrace")?;
        let (cpu, peak_mib) = waited(&child)?;
        let wall = began.elapsed().as_secs_f64();
        if best.as_ref().is_none_or(|best| cpu < best.cpu) {
            best = Some(Cost {
                recordings,
                wall,
                cpu,
                peak_mib,
            });
        }
    }
    best.context("no report was timed")
}

fn megabytes(folder: &Path) -> Result<f64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes as f64 / 1e6)
}

/// Returns how many deaths the report holds.
fn deaths(raytrace: &Path, folder: &Path) -> Result<usize> {
    let output = Command::new(raytrace)
        .args(["report", "--format", "json"])
        .arg(folder)
        .output()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let deaths = report["deaths"].as_array();
    Ok(deaths.context("the report has no deaths")?.len())
}

/// A straight line through the costs.
struct Line {
    slope: f64,
    /// The part of the differences that the line explains.
    fit: f64,
}

fn line(costs: &[Cost], of: impl Fn(&Cost) -> f64) -> Line {
    let count = costs.len() as f64;
    let mean_x = costs.iter().map(|cost| cost.recordings as f64).sum::<f64>() / count;
    let mean_y = costs.iter().map(&of).sum::<f64>() / count;
    let (mut both, mut squares, mut all) = (0.0, 0.0, 0.0);
    for cost in costs {
        let (x, y) = (cost.recordings as f64 - mean_x, of(cost) - mean_y);
        both += x * y;
        squares += x * x;
        all += y * y;
    }
    let slope = both / squares;
    Line {
        slope,
        fit: both * both / (squares * all),
    }
}
