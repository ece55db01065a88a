//! Measures `raytrace explain` on logs of 1 GiB.
//!
//! The logs are a day of healthy nodes, healthy jobs, and deaths alone. `RAYTRACE_BENCH_MIB` sets
//! another size. The files are put below `target/bench` and removed at the end.

mod logs;
mod template;

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result};

use super::cost::waited;
use crate::layout;
use logs::Kind;

/// Size of each kind of logs, unless the environment sets another.
const MIB: u64 = 1024;
/// Runs on each kind. The quickest one counts, because the first fills the page cache.
const RUNS: usize = 3;

/// The cost of one run.
struct Cost {
    wall: f64,
    cpu: f64,
    peak_mib: f64,
}

/// Returns a table.
pub(super) fn measure(raytrace: &Path) -> Result<String> {
    let asked = std::env::var("RAYTRACE_BENCH_MIB").ok();
    let mib = asked.map_or(Ok(MIB), |asked| asked.parse());
    let bytes = mib.context("RAYTRACE_BENCH_MIB is no number")? << 20;
    let parent = layout::root().join("target/bench");
    std::fs::create_dir_all(&parent)?;
    let mut text = String::from(
        "| logs | MB | wall s | MB/s | CPU s | peak MiB |\n|---|---|---|---|---|---|\n",
    );
    for kind in Kind::ALL {
        let folder = tempfile::tempdir_in(&parent)?;
        let written = logs::write(kind, bytes, folder.path())?;
        let megabytes = written as f64 / 1e6;
        let cost = quickest(raytrace, folder.path())?;
        text.push_str(&format!(
            "| {} | {megabytes:.0} | {:.2} | {:.0} | {:.2} | {:.0} |\n",
            kind.name(),
            cost.wall,
            megabytes / cost.wall,
            cost.cpu,
            cost.peak_mib
        ));
    }
    Ok(text)
}

fn quickest(raytrace: &Path, folder: &Path) -> Result<Cost> {
    let mut best: Option<Cost> = None;
    for _ in 0..RUNS {
        let cost = explain(raytrace, folder)?;
        if best.as_ref().is_none_or(|best| cost.wall < best.wall) {
            best = Some(cost);
        }
    }
    best.context("nothing was timed")
}

fn explain(raytrace: &Path, folder: &Path) -> Result<Cost> {
    let began = Instant::now();
    let mut command = Command::new(raytrace);
    command.arg("explain").arg(folder).stdout(Stdio::null());
    let child = command.spawn().context("cannot start raytrace")?;
    let (cpu, peak_mib) = waited(&child)?;
    let wall = began.elapsed().as_secs_f64();
    Ok(Cost {
        wall,
        cpu,
        peak_mib,
    })
}
