//! `month FILE [short]`: writes thirty days of a node with 200 workers.
//!
//! It prints a row for each day. The events go through the recording's own writer.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, ensure};
use raytrace_tests::month::{self, Hour, Plan};

fn main() -> ExitCode {
    if let Err(error) = write() {
        eprintln!("month: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn write() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let file: PathBuf = arguments.next().context("which file?")?.into();
    let plan = if arguments.next().is_some() {
        Plan::short()
    } else {
        Plan::month()
    };
    println!("day hour file_MB resident_MB waiting events deaths");
    let hours = month::write(&file, plan, |hour| {
        let Hour {
            hour,
            bytes,
            resident,
            waiting,
            events,
            deaths,
        } = hour;
        if hour % 24 == 23 || plan.hours < 48 {
            let mb = |bytes: u64| bytes as f64 / 1e6;
            let day = hour / 24 + 1;
            println!(
                "{day} {hour} {:.1} {:.1} {waiting} {events} {deaths}",
                mb(bytes),
                mb(resident)
            );
        }
    })?;
    let largest = hours.iter().map(|hour| hour.bytes).max().unwrap_or(0);
    println!("largest: {:.1} MB", largest as f64 / 1e6);
    ensure!(largest < plan.retention.max_bytes, "larger than wanted");
    Ok(())
}
