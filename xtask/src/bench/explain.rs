//! Measures `raytrace explain` on logs of 1 GiB.
//!
//! The logs are a day of healthy nodes, healthy jobs, and deaths alone. `RAYTRACE_BENCH_MIB` sets
//! another size. The files are put below `target/bench` and removed at the end.

mod logs;
mod template;

use std::path::Path;

use anyhow::{Context as _, Result};

use super::cost::Cost;
use crate::layout;
use logs::Kind;

/// Size of each kind of logs, unless the environment sets another.
const MIB: u64 = 1024;

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
        let cost = Cost::least(raytrace, "explain", folder.path(), |cost| cost.wall)?;
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
