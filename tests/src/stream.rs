//! A steady stream of deaths, each written down by a shell that raytrace knows nothing of: pid and time since boot.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Some twenty exits with code 3 a second, as long as `$2` and the recorder are there; truth goes to `$1`.
const SHELL: &str = "while [ -e \"$2\" ] && [ -d /proc/$PPID ]; do
  (exit 3) & wait $!; read up rest </proc/uptime; echo \"$! $up\"; sleep 0.05
done >\"$1\"";

/// One death of the stream.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The process id.
    pub pid: u64,
    /// Seconds since boot, just after it.
    pub time: f64,
}

/// A stream: the command to record, and what ends it.
pub struct Stream {
    truth: PathBuf,
    goes_on: PathBuf,
}

impl Stream {
    /// One that keeps its files in `folder`.
    pub fn new(folder: &Path) -> Result<Self> {
        let goes_on = folder.join("goes-on");
        fs::write(&goes_on, "")?;
        Ok(Self {
            truth: folder.join("truth"),
            goes_on,
        })
    }

    /// Arguments of `raytrace record` that run it.
    pub fn command(&self) -> Result<[&str; 7]> {
        let truth = self.truth.to_str().context("a path is no text")?;
        let goes_on = self.goes_on.to_str().context("a path is no text")?;
        Ok(["--", "sh", "-c", SHELL, "sh", truth, goes_on])
    }

    /// Lets it end.
    pub fn stop(&self) -> Result<()> {
        Ok(fs::remove_file(&self.goes_on)?)
    }

    /// All of its deaths so far.
    pub fn rows(&self) -> Result<Vec<Row>> {
        let text = fs::read_to_string(&self.truth)?;
        let row = |line: &str| {
            let (pid, time) = line.split_once(' ')?;
            Some(Row {
                pid: pid.parse().ok()?,
                time: time.parse().ok()?,
            })
        };
        Ok(text.lines().filter_map(row).collect())
    }

    /// Those that a report does not have.
    pub fn missing(&self, report: &Value) -> Result<Vec<Row>> {
        let deaths = report["deaths"].as_array();
        let known: BTreeSet<u64> = deaths
            .into_iter()
            .flatten()
            .filter(|death| death["exit_code"] == 3)
            .filter_map(|death| death["pid"].as_u64())
            .collect();
        let mut rows = self.rows()?;
        rows.retain(|row| !known.contains(&row.pid));
        Ok(rows)
    }
}
