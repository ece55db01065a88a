//! What a running recorder uses, as /proc and its recording show it.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::process::output;

/// Returns a line of /proc/PID/status in KiB, such as `VmHWM` or `VmRSS`.
pub(crate) fn kib(pid: u32, key: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let value = line.and_then(|line| line.split_whitespace().next());
    value
        .context("no such line in /proc/PID/status")?
        .parse()
        .context("no number")
}

/// Returns the number of open files.
pub(crate) fn descriptors(pid: u32) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Returns the processor time of each thread in nanoseconds, by name.
pub(crate) fn threads(pid: u32) -> Result<BTreeMap<String, f64>> {
    let mut all = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let folder = task?.path();
        let name = fs::read_to_string(folder.join("comm"))?;
        let time = fs::read_to_string(folder.join("schedstat"))?;
        let time: f64 = time.split_whitespace().next().context("no time")?.parse()?;
        *all.entry(name.trim().to_owned()).or_default() += time;
    }
    Ok(all)
}

/// Returns the seconds of processor time of all threads.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    Ok(threads(pid)?.values().sum::<f64>() / 1e9)
}

/// Returns the bytes that a recording holds. The size of the file would be misleading: committed
/// pages stay in the write-ahead log until they are copied over.
pub(crate) fn recording_bytes(file: &Path) -> Result<f64> {
    let query = "import sqlite3, sys; file = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True); \
        print(file.execute('pragma page_count').fetchone()[0] * file.execute('pragma page_size').fetchone()[0])";
    let text = output(Command::new("python3").args(["-c", query]).arg(file))?;
    text.trim().parse().context("no size")
}

/// Returns how many events a recording says it lost.
pub(crate) fn lost_events(raytrace: &Path, file: &Path) -> Result<u64> {
    let mut report = Command::new(raytrace);
    report.arg("report").arg(file).args(["--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&output(&mut report)?)?;
    let lost = report["recordings"][0]["lost_events"].as_u64();
    lost.context("no lost_events in the report")
}
