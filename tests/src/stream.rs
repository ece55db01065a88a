//! A steady stream of deaths, each written down by a shell independently of raytrace.
//!
//! A row has the pid and the time since boot.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Exits about twenty times a second with code 3, as long as `$2` and the recorder exist. The truth
/// goes to `$1`.
const SHELL: &str = "while [ -e \"$2\" ] && [ -d /proc/$PPID ]; do
  (exit 3) & wait $!; read up rest </proc/uptime; echo \"$! $up\"; sleep 0.05
done >\"$1\"";

/// One death of the stream.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The pid.
    pub pid: u64,
    /// Seconds since boot, just after the death.
    pub time: f64,
}

/// A stream: the command to record, and the file whose removal ends it.
pub struct Stream {
    truth: PathBuf,
    goes_on: PathBuf,
}

impl Stream {
    /// Prepares a stream that keeps its files in `folder`.
    pub fn new(folder: &Path) -> Result<Self> {
        let goes_on = folder.join("goes-on");
        fs::write(&goes_on, "")?;
        Ok(Self {
            truth: folder.join("truth"),
            goes_on,
        })
    }

    /// Returns the arguments of `raytrace record` that run the stream.
    pub fn command(&self) -> Result<[&str; 7]> {
        let truth = self.truth.to_str().context("a path is no text")?;
        let goes_on = self.goes_on.to_str().context("a path is no text")?;
        Ok(["--", "sh", "-c", SHELL, "sh", truth, goes_on])
    }

    /// Lets the stream end.
    pub fn stop(&self) -> Result<()> {
        Ok(fs::remove_file(&self.goes_on)?)
    }

    /// Returns all of its deaths so far.
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

    /// Returns the deaths that a report does not have.
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
