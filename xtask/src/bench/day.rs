//! Measures `raytrace report` on the recording of a day.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::Result;

use super::statistics::median;
use crate::process::{program_of_tests, run};

/// How many reports are timed.
const REPORTS: usize = 21;

/// Returns the time of a report, with the file in the page cache.
pub(super) fn measure(raytrace: &Path) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("day.raytrace");
    run(program_of_tests("day").arg(&file))?;
    let mut times = Vec::new();
    for _ in 0..=REPORTS {
        let began = Instant::now();
        let mut report = Command::new(raytrace);
        report.arg("report").arg(&file).stdout(Stdio::null());
        run(&mut report)?;
        times.push(began.elapsed().as_secs_f64());
    }
    // The first report fills the page cache.
    times.remove(0);
    let middle = median(&mut times);
    let megabytes = file.metadata()?.len() as f64 / 1e6;
    let (Some(least), Some(most)) = (times.first(), times.last()) else {
        anyhow::bail!("no report was timed");
    };
    Ok(format!(
        "report on a day of {megabytes:.0} MB: median {middle:.2} s ({least:.2} to {most:.2}) of {REPORTS}"
    ))
}
