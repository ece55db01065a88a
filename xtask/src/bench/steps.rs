//! Measures what recording costs a job of Ray, in the job's own steps a second.
//!
//! The recorder is attached and detached in turn.

use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::Result;

use super::statistics::Ratio;
use crate::{
    process::interrupt,
    steady::{Job, Steady},
};

const WORKERS: u32 = 4;
/// Pairs of turns with and without the recorder.
const PAIRS: usize = 15;
/// By then the recorder has attached, or its traces are gone.
const SETTLES: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(8);

/// Returns the ratio of the time of a step with the recorder to that without, and the control.
pub(super) fn measure(raytrace: &Path) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let cluster = Steady::start(Job {
        workers: WORKERS,
        ..Job::default()
    })?;
    let mut with = Vec::new();
    let mut without = vec![rate(&cluster)?];
    for number in 0..PAIRS {
        let mut recorder = Command::new(raytrace)
            .args(["record", "--require-ebpf", "--session-dir"])
            .arg(&cluster.session)
            .arg("-o")
            .arg(folder.path().join(format!("{number}.raytrace")))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        with.push(rate(&cluster)?);
        interrupt(&mut recorder)?;
        without.push(rate(&cluster)?);
    }
    cluster.end()?;
    let around = without.windows(2).map(|two| f64::midpoint(two[0], two[1]));
    let on = Ratio::of(with.iter().zip(around).map(|(on, off)| off / on));
    let control = without.windows(3);
    let control = Ratio::of(control.map(|three| f64::midpoint(three[0], three[2]) / three[1]));
    Ok(format!(
        "a step of {WORKERS} workers of Ray, {PAIRS} pairs: {:.3} at the median, 95 % up to {:.3}; control {:.3}, up to {:.3}; {:.2} steps a second without",
        on.median,
        on.upper,
        control.median,
        control.upper,
        without.iter().sum::<f64>() / without.len() as f64
    ))
}

fn rate(cluster: &Steady) -> Result<f64> {
    thread::sleep(SETTLES);
    cluster.rate(MEASURED)
}
