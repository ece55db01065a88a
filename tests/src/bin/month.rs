//! `month FILE [short | WORKERS DAYS]`: writes thirty days of a node with 200 workers, or others.
//!
//! It prints a row for each day. The events go through the recording's own writer.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail, ensure};
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
    let rest: Vec<String> = arguments.filter_map(|one| one.into_string().ok()).collect();
    let plan = match rest.as_slice() {
        [] => Plan::month(),
        [short] if short == "short" => Plan::short(),
        [workers, days] => Plan::days(workers.parse()?, days.parse()?),
        _ => bail!("month FILE [short | WORKERS DAYS]"),
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
