//! `day FILE`: writes the recording of a day in the form in which `record` keeps it.
//!
//! There are 200 workers at a time, and 20 of them are sampled each second.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use raytrace_tests::day::{self, Detail};

fn main() -> ExitCode {
    if let Err(error) = write() {
        eprintln!("day: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn write() -> Result<()> {
    let file: PathBuf = std::env::args_os().nth(1).context("which file?")?.into();
    let written = day::write(&file, 10, Detail::Downsampled)?;
    println!("{} samples, {} deaths", written.samples, written.deaths);
    Ok(())
}
