//! Measures `raytrace report FOLDER` on 10 to 1,000 recordings: time, memory, and how they grow.
//!
//! The recordings are made from ten golden ones.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::cost::Cost;
use crate::{
    layout,
    process::{program_of_tests, run},
};

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
        run(program_of_tests("fleet")
            .arg("copy")
            .arg(&real)
            .arg(count.to_string())
            .arg(&many))?;
        let cost = Cost::least(raytrace, "report", &many, |cost| cost.cpu)?;
        text.push_str(&format!(
            "| {count} | {:.0} | {} | {:.2} | {:.2} | {:.0} |\n",
            megabytes(&many)?,
            deaths(raytrace, &many)?,
            cost.wall,
            cost.cpu,
            cost.peak_mib
        ));
        costs.push((count as f64, cost));
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

fn line(costs: &[(f64, Cost)], of: impl Fn(&Cost) -> f64) -> Line {
    let count = costs.len() as f64;
    let mean_x = costs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = costs.iter().map(|(_, cost)| of(cost)).sum::<f64>() / count;
    let (mut both, mut squares, mut all) = (0.0, 0.0, 0.0);
    for (x, cost) in costs {
        let (x, y) = (x - mean_x, of(cost) - mean_y);
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
